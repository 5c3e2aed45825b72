"""The reservoir's table: settings are chosen on validation data, and runs are repeatable."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from armagnn.data import Fold
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.operators import GraphOperator
from armagnn.sealed import rows_csv
from armagnn_paper import reservoir_table as reservoir
from armagnn_paper.reservoir_table import (
    DATASETS,
    GRAPHS,
    NODES,
    ReservoirRow,
    ReservoirSettings,
    ReservoirTask,
    choose,
    grid,
    measure,
    problems,
)
from armagnn_paper.table import Table

SMALL = ReservoirSettings(4, 2, 0.5, 1.0, 0.3, "mean")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer ridges and seeds than the table has."""
    monkeypatch.setattr(reservoir, "RIDGES", (1.0, 100.0))
    monkeypatch.setattr(reservoir, "SEARCH_SEEDS", (1000, 1001))


def test_mutag_in_small() -> None:
    settings = [SMALL, replace(SMALL, pool="sum")]
    rows = list(measure("mutag", runs=2, settings=settings))
    assert len(rows) == 10 * 2 * 2  # folds, runs, metrics
    accuracies = [row.value for row in rows if row.metric == "accuracy"]
    assert np.mean(accuracies) > 70  # two thirds are of one class
    again = [next(measure("mutag", runs=2, settings=settings))]
    assert [replace(row, seconds=0) for row in again] == [replace(row, seconds=0) for row in rows[:1]]
    table = list(csv.DictReader(rows_csv(ReservoirRow, rows).decode().splitlines()))
    assert {(row["dataset"], row["method"], row["protocol"]) for row in table} == {("mutag", "reservoir", "tuned")}
    assert {row["fold"] for row in table} == {str(fold) for fold in range(10)}


def test_cora_in_small_beside_the_trained_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Table.config
    monkeypatch.setattr(Table, "config", lambda self, cell: replace(usual(self, cell), epochs=30))
    rows = list(measure("cora", runs=1, settings=[ReservoirSettings(32, 2, 0.8, 0.0, 0.3)]))
    assert [(row.method, row.metric) for row in rows] == [
        (method, metric) for method in ("reservoir", "arma") for metric in ("accuracy", "val_accuracy")
    ]
    assert all(row.value > 40 and row.seconds > 0 for row in rows)


def toy(test: list[int]) -> ReservoirTask:
    """Forty nodes without edges; the class is the sign of one feature."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    split = Fold(torch.arange(15), torch.arange(15, 30), torch.tensor(test))
    op = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 40)
    return ReservoirTask(x, op, (x[:, 0] > 0).astype(int), split)


def test_labels_for_testing_have_no_say() -> None:
    settings = [replace(SMALL, pool="", units=units, input_scale=scale) for units in (2, 8) for scale in (0.1, 5.0)]
    problem = toy(list(range(30, 40)))
    chosen = choose(problem, settings)
    flipped = replace(problem, y=np.where(np.arange(40) < 30, problem.y, 1 - problem.y))
    assert choose(flipped, settings) == chosen
    assert len(settings) <= reservoir.FINALISTS  # so that all of them were tried with all seeds
    expected = {}
    for some in settings:
        states = [problem.states(some, seed) for seed in reservoir.SEARCH_SEEDS]
        for ridge in reservoir.RIDGES:
            found = [problem.accuracy(problem.readout(rows, ridge), rows, problem.fold.val) for rows in states]
            expected[replace(some, ridge=ridge)] = np.mean(found)
    assert expected[chosen] == pytest.approx(max(expected.values()))


def test_only_the_best_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservoir, "FINALISTS", 1)
    settings = [replace(SMALL, pool="", units=units, input_scale=scale) for units in (2, 8) for scale in (0.1, 5.0)]
    tried = []
    states = ReservoirTask.states
    monkeypatch.setattr(
        ReservoirTask, "states", lambda self, some, seed: tried.append(seed) or states(self, some, seed)
    )
    assert choose(toy(list(range(30, 40))), settings).units in (2, 8)
    assert tried == [1000] * 4 + [1000, 1001]


def test_features_of_test_graphs_have_no_say_either() -> None:
    first = problems("mutag")[0]
    assert first.ptr is not None
    assert first.fitted is not None
    changed = first.x.copy()
    changed[~first.fitted.numpy()] *= 100
    seen = first.fitted.numpy()
    states, others = (replace(first, x=x).states(SMALL, 0) for x in (first.x, changed))
    np.testing.assert_allclose(states[seen], others[seen], atol=1e-3)  # the stopping of a stack sees all nodes
    assert np.abs(states - others).max() > 0.1


def test_the_grid() -> None:
    for dataset in DATASETS:
        tried = grid(dataset)
        assert len(set(tried)) == len(tried)
        assert {some.pool for some in tried} == ({"mean", "sum"} if dataset in GRAPHS else {""})


def test_bad_arguments() -> None:
    with pytest.raises(UnknownNameError, match="cora"):
        list(measure("coral"))
    with pytest.raises(ParameterError, match="runs"):
        list(measure("cora", runs=0))


def test_the_committed_table() -> None:
    file = Path(__file__).parents[2] / "results" / "reservoir.csv"
    if not file.exists():
        pytest.skip("the results are not part of this installation")
    rows = list(csv.DictReader(file.read_text().splitlines()))
    for dataset in DATASETS:
        own = [row for row in rows if row["dataset"] == dataset and row["method"] == "reservoir"]
        cells = {(row["run"], row["fold"], row["metric"]) for row in own}
        folds = range(10 if dataset == "mutag" else 1)
        wanted = {(str(r), str(f), m) for r in range(10) for f in folds for m in ("accuracy", "val_accuracy")}
        assert cells == wanted
        assert len(own) == len(wanted)
        assert any(row["method"] == "arma" for row in rows if row["dataset"] == dataset) == (dataset in NODES)


@pytest.mark.parametrize("dataset", ["citeseer", "bench-hard"])
def test_the_other_problems_load(dataset: str, real: Callable[[str], str]) -> None:
    (problem,) = problems(real(dataset))
    assert problem.op.num_nodes == problem.x.shape[0]
    ids = torch.cat([problem.fold.train, problem.fold.val, problem.fold.test])
    assert len(ids) == len(set(ids.tolist()))
    assert len(ids) <= len(problem.y)
