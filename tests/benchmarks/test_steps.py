"""The trials of the steps that are measured on a GPU, made here without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from armagnn_paper.tables import TABLES
from benchmarks.scripts import script


@pytest.mark.parametrize(("dataset", "method", "seeds"), [("proteins", "arma", 2), ("proteins", "gat", 1)])
def test_the_trials_of_a_cell(dataset: str, method: str, seeds: int, real: Callable[[str], str]) -> None:
    trials = script("steps").make(real(dataset), method, seeds, torch.device("cpu"))
    assert [setting.seed for setting in trials.settings] == list(range(seeds))
    trials._one_step(trials.task.room(0))
    assert int(trials.step) == 1


def test_every_case_is_a_cell() -> None:
    steps = script("steps")
    for dataset, method, seeds, replays in steps.CASES:
        name = "qm9/mu" if dataset == "qm9" else dataset
        (table,) = (table for table in TABLES.values() if name in table.datasets)
        table.check(name, method)
        assert min(seeds, replays) > 0
