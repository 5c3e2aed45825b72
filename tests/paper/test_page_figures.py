"""Figures that the text of the results page gives outside its tables."""

from __future__ import annotations

from collections.abc import Callable

import torch

from armagnn.data import load
from armagnn_paper.tables import paper_config


def test_gin_on_ppi(real: Callable[[str], str]) -> None:
    ppi = load(real("ppi"))
    train, test = ppi.part("train"), ppi.part("test")
    assert int(torch.bincount(train.edge_index[0]).max()) == 721
    known = train.y >= 0
    common = (train.y * known).sum(0) > known.sum(0) / 2  # the labels that most nodes have
    known = test.y >= 0
    same = (common.to(test.y.dtype) == test.y) & known
    assert round(100 * float(same.sum() / known.sum()), 2) == 74.35
    assert round(100 * float(((test.y == 0) & known).sum() / known.sum()), 1) == 70.1  # no label at all
    config = paper_config("ppi", "gin")
    trials = config.experiment(ppi).trials([config.setting(0)])
    loss = float(trials._metrics(trials.params, "val")["loss"])
    assert 16_500 < loss < 17_500
