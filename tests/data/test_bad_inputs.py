"""The functions of the room refuse what is no dataset, no number, no path and no device, with one kind of error."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import data
from armagnn.data import Fold, GraphsDataset, NodeDataset, NodeFeatures, Scaler, SignalsDataset, load, load_graphs
from armagnn.data.catalogue import Entry
from armagnn.data.splits import random_split
from armagnn.errors import ArmagnnError, DeviceError, DTypeError, ParameterError, ShapeError

CORA, MUTAG = load("cora"), load_graphs("mutag")
SIGNALS = SignalsDataset.of([[0, 1], [1, 0]], torch.eye(4, 2), [0, 1, 0, 1], [0, 1], [2], [3])
X = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
SCALER = Scaler.fit(X, torch.tensor([0, 1]))
ODD: list[Any] = [None, 3, "text", [], {}, object(), np.zeros(3), torch.zeros(3), float("nan")]

OF_DATASETS: list[Callable[[Any], Any]] = [
    data.statistics, data.clustering, data.node_features, data.folds, data.own_split, data.refined_classes,
    data.with_bond_orders, lambda value: data.bound(value, torch.zeros(188)), lambda value: data.nodes_of(value, [0]),
]  # fmt: skip
OF_PATHS: list[Callable[[Any], Any]] = [
    load, load_graphs, data.load_signals, data.read_node_file, data.read_graphs_file, data.read_tu_folder,
    data.read_own, data.add, data.remove, data.statistics_of, data.fetch,
]  # fmt: skip


@pytest.mark.parametrize("function", OF_DATASETS)
def test_what_is_no_dataset(function: Callable[[Any], Any]) -> None:
    for value in ODD:
        with pytest.raises(DTypeError, match="must be a"):
            function(value)


@pytest.mark.parametrize("function", OF_PATHS)
def test_what_is_no_name_and_no_path(function: Callable[[Any], Any], own_folder: Path) -> None:
    for value in (*ODD, "a\0b.npz", "a\0b", "x" * 5000, ""):
        with pytest.raises(ArmagnnError):
            function(value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(ArmagnnError, match="a pipe or a device"):
        load(tmp_path / "pipe.npz")


def test_devices_and_splits() -> None:
    for dataset in (CORA, MUTAG, SIGNALS, SCALER):
        for value in (*ODD, "cuda:99", "here"):
            with pytest.raises(ArmagnnError, match="device"):
                dataset.to(value)  # type: ignore[attr-defined]
    for value in ODD:
        for dataset in (CORA, SIGNALS):
            with pytest.raises(ParameterError, match="Unknown split"):
                dataset.idx(value)
        with pytest.raises(ParameterError, match="split"):
            load("cora", split=value)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Scaler(torch.tensor([float("nan")]), torch.ones(1)), ParameterError),
        (lambda: Scaler(torch.zeros(1), torch.tensor([float("inf")])), ParameterError),
        (lambda: Scaler(torch.zeros(1), torch.zeros(1)), ParameterError),
        (lambda: Scaler(torch.zeros(1), -torch.ones(1)), ParameterError),
        (lambda: Scaler(torch.zeros(2), torch.ones(3)), ShapeError),
        (lambda: Scaler(torch.zeros(2).long(), torch.ones(2).long()), ShapeError),
        (lambda: Scaler([0.0], [1.0]), DTypeError),  # type: ignore[arg-type]
        (lambda: Scaler.fit(torch.tensor([[float("nan")]]), torch.tensor([0])), ParameterError),
        (lambda: Scaler.fit(X, torch.tensor([2])), ParameterError),
        (lambda: Scaler.fit(X, torch.tensor([True])), ShapeError),
        (lambda: Scaler.fit(X, torch.tensor([0.5])), ParameterError),
        (lambda: Scaler.fit(X, torch.tensor([0]), floor=float("nan")), ParameterError),
        (lambda: Scaler.fit(X, torch.tensor([0]), columns=torch.tensor([True])), ShapeError),
        (lambda: Scaler.fit(X.to_sparse(), torch.tensor([0])), DTypeError),
        (lambda: SCALER(torch.zeros(4, 3)), ShapeError),
        (lambda: SCALER(torch.zeros(4, 2, dtype=torch.bool)), ShapeError),
        (lambda: SCALER(torch.zeros(4, 2, device="meta")), DeviceError),
        (lambda: Scaler(torch.zeros(2), torch.ones(2, device="meta")), DeviceError),
        (lambda: MUTAG.select(torch.zeros(1).long().expand(2**40)), ParameterError),
        (lambda: SCALER.inverse("x"), DTypeError),  # type: ignore[arg-type]
        (lambda: data.nodes_of(MUTAG, torch.tensor([188])), ParameterError),
        (lambda: data.nodes_of(MUTAG, torch.tensor([0.5])), ParameterError),
        (lambda: data.nodes_of(MUTAG, [2**63]), ParameterError),
        (lambda: MUTAG.select(range(10**12)), ParameterError),
        (lambda: MUTAG.select("ab"), ParameterError),
        (lambda: MUTAG.select([]), ParameterError),
        (lambda: data.node_features(MUTAG, kinds=3), DTypeError),  # type: ignore[arg-type]
        (lambda: data.node_features(MUTAG, vocabulary=[float("nan")]), ParameterError),  # type: ignore[list-item]
        (lambda: data.bound(MUTAG, None), DTypeError),  # type: ignore[arg-type]
        (lambda: data.refined_classes(MUTAG, MUTAG.y), DTypeError),  # type: ignore[arg-type]
        (lambda: data.make_bench_hard(0, small=np.zeros(3)), ParameterError),  # type: ignore[arg-type]
        (lambda: data.make_bench_hard(0.5), ParameterError),  # type: ignore[arg-type]
        (lambda: data.verify(3), DTypeError),  # type: ignore[arg-type]
        (lambda: random_split(torch.tensor([0.5, 1.0]), 0), ParameterError),
        (lambda: random_split(torch.zeros(2, 2).long(), 0), ShapeError),
        (lambda: random_split(torch.tensor([], dtype=torch.int64), 0), ParameterError),
        (lambda: random_split(torch.tensor([0, 2**40]), 0), ParameterError),
        (lambda: random_split([0, 1], 0), DTypeError),  # type: ignore[arg-type]
        (lambda: random_split(torch.tensor([0, 1]), 0, per_class=1.5), ParameterError),  # type: ignore[arg-type]
        (lambda: CORA.with_random_split(float("nan")), ParameterError),  # type: ignore[arg-type]
        (lambda: NodeFeatures(X, ("one",)), ShapeError),
        (lambda: Fold([0], [1], [2]), DTypeError),  # type: ignore[arg-type]
        (lambda: Entry("a.npz", "", "", also=3), ParameterError),  # type: ignore[arg-type]
        (lambda: GraphsDataset("a", None, X, X, 2, ""), DTypeError),  # type: ignore[arg-type]
        (lambda: NodeDataset("a", None, X, X, X, X, X, 2, ""), DTypeError),  # type: ignore[arg-type]
        (lambda: NodeDataset("a", X, X, X, X, X, X, 2, ""), ShapeError),
        (lambda: SignalsDataset("a", X, None, X, 2, X, X, X, ""), DTypeError),  # type: ignore[arg-type]
        (lambda: GraphsDataset.of([[0], [1]], [0, 2], torch.zeros(1).expand(2**40)), ArmagnnError),
        (lambda: SignalsDataset.of([[0], [1]], range(10**12), [0], [0], [0], [0]), ArmagnnError),
        (lambda: SignalsDataset.of([[0], [1]], X, [0, 1], range(10**12), [0], [1]), ArmagnnError),
    ],
)
def test_arguments_that_cannot_be(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


def test_numbers_of_numpy_are_numbers() -> None:
    assert torch.equal(data.nodes_of(MUTAG, np.array([0, 1])), data.nodes_of(MUTAG, [0, 1]))
    assert torch.equal(random_split(CORA.y, np.int64(3))[0], random_split(CORA.y, 3)[0])  # type: ignore[arg-type]
    assert CORA.with_random_split(np.int64(3)).sha256 == CORA.with_random_split(3).sha256  # type: ignore[arg-type]
    assert [check.name for check in data.verify("cora")] == ["cora"]


def test_tiny_deviations_do_not_vanish() -> None:
    x = torch.tensor([[0.0], [1e-44]])
    assert bool(Scaler.fit(x, torch.tensor([0, 1]))(x).isfinite().all())
