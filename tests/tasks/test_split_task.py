"""Trials of several fixed splits in one batch are the trainings on each split alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from armagnn.data import NodeDataset
from armagnn.errors import ParameterError
from armagnn.tasks import NodeNet, NodeTask
from armagnn.tasks.split_task import SplitTask
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials
from oracles import numbers, random_graph

N = 30
EDGES = random_graph(N, 70, seed=4).both_ways().edge_index


def dataset(classes: int) -> NodeDataset:
    generator = torch.Generator().manual_seed(0)
    parts = torch.full((3, N), -1, dtype=torch.int8)
    for row, sizes in zip(parts, ((12, 8, 8), (14, 6, 10), (10, 10, 9)), strict=True):
        places = torch.randperm(N, generator=generator).split([*sizes, N - sum(sizes)])
        for part in range(3):
            row[places[part]] = part
    first = [(parts[0] == part).nonzero().flatten() for part in range(3)]
    return NodeDataset(
        name="tiny", x=numbers(N, 5).float(), edge_index=EDGES, y=(numbers(N, seed=7) > 0).long() % classes,
        num_classes=classes, sha256="0" * 64, train_idx=first[0], val_idx=first[1], test_idx=first[2],
        metric="roc_auc" if classes == 2 else "accuracy", split_parts=parts,
    )  # fmt: skip


def of_split(data: NodeDataset, number: int) -> NodeDataset:
    assert data.split_parts is not None
    train, val, test = ((data.split_parts[number] == part).nonzero().flatten() for part in range(3))
    return replace(data, train_idx=train, val_idx=val, test_idx=test)


@pytest.mark.parametrize(("classes", "rule"), [(2, "roc_auc"), (3, "accuracy")])
def test_a_batch_of_splits_is_each_split_alone(classes: int, rule: str) -> None:
    data = dataset(classes)

    def build() -> NodeNet:
        return NodeNet(
            "arma", 5, classes, hidden=8, depth=3, norm="layer", jk="last", linear_skip=True, hidden_dropout=0.3
        )

    settings = [Setting(3, 0.05, 1e-4, (0.0, 0.3, 0.0), target) for target in (0, 1, 2)]
    options = {"epochs": 12, "patience": 5, "stop_on": rule}
    together = {o.setting: o for o in Trials(build, SplitTask(data, build()), settings, **options).run()}
    for setting in settings:
        task = NodeTask(of_split(data, setting.target), build())
        (alone,) = Trials(build, task, [setting], **options).run()
        ours = together[setting]
        assert ours.best_epoch == alone.best_epoch
        assert ours.val.keys() == alone.val.keys()
        for found, expected in ((ours.val, alone.val), (ours.test, alone.test)):
            assert found == pytest.approx(expected, abs=2e-5)
    assert len({round(outcome.val["loss"], 6) for outcome in together.values()}) == 3


def test_data_without_fixed_splits_and_balance_are_refused() -> None:
    data = dataset(2)
    net = NodeNet("gcn", 5, 2)
    with pytest.raises(ParameterError, match="no fixed splits"):
        SplitTask(replace(data, split_parts=None), net)
    with pytest.raises(ParameterError, match="balance"):
        SplitTask(data, net, balance=True)
