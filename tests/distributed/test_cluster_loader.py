"""Minibatches hold the rows and columns of the whole operator, each node once an epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.data import load
from armagnn.distributed import ClusterLoader, partition_dataset, ranks
from armagnn.distributed.part_training import train_parts
from armagnn.errors import ArmagnnError, ParameterError
from armagnn.training import Trials
from armagnn.training.parts_config import PartsConfig
from oracles import random_graph

NODES = 23


def operator(kind: Any = "arma", directed: bool = False) -> GraphOperator:
    graph = random_graph(NODES, 60, seed=3, lone=2)
    graph = graph if directed else graph.both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, NODES, graph.edge_weight(), kind)


@given(
    st.lists(st.integers(0, NODES), min_size=1, max_size=6), st.integers(1, 7), st.integers(0, 3),
    st.sampled_from(["arma", "gcn", "laplacian"]), st.booleans(),
)  # fmt: skip
def test_clusters_are_blocks_of_the_operator(cuts: list[int], join: int, seed: int, kind: Any, directed: bool) -> None:
    """With parts without nodes, isolated nodes, and the degrees of the whole graph."""
    op, starts = operator(kind, directed), [0, *sorted(cuts), NODES]
    loader = ClusterLoader(op, starts, min(join, len(starts) - 1), seed)
    dense = op.to_dense()
    for _ in range(2):
        seen = []
        for cluster in loader:
            nodes = cluster.nodes
            assert torch.equal(cluster.op.to_dense(), dense[nodes][:, nodes])
            assert cluster.op.kind == kind
            x = torch.eye(len(nodes), dtype=op.dtype)
            torch.testing.assert_close(cluster.op.T @ x, dense[nodes][:, nodes].T)
            seen += nodes.tolist()
        assert sorted(seen) == list(range(NODES))


def test_epochs_differ_and_repeat_by_their_seed() -> None:
    starts = list(range(NODES + 1))
    one, other = (ClusterLoader(operator(), starts, 3, seed) for seed in (0, 1))
    assert one.groups(0) == ClusterLoader(operator(), starts, 3, 0).groups(0)
    assert one.groups(0) != one.groups(1)
    assert one.groups(0) != other.groups(0)
    assert len(one) == 8


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    partition_dataset(load("cora"), tmp_path / "parts", 8)
    return tmp_path / "parts"


def outcome(trials: Trials) -> Any:
    (found,) = trials.run()
    return found


def test_all_parts_at_once_are_the_whole_graph(parts: Path) -> None:
    common: dict[str, Any] = {"parts": str(parts), "epochs": 8, "hidden": 8, "seeds": 1}
    with ranks():
        found = []
        for clusters in (0, 8):
            config = PartsConfig(**common, clusters=clusters)
            found.append(outcome(config.experiment().trials([config.setting(0)])))
    whole, joined = found
    assert joined.history["train_loss"] == pytest.approx(whole.history["train_loss"], rel=1e-5)
    assert joined.history["val_loss"] == pytest.approx(whole.history["val_loss"], rel=1e-5)


def test_minibatches_train(parts: Path, tmp_path: Path) -> None:
    common: dict[str, Any] = {"parts": str(parts), "epochs": 15, "hidden": 16, "seeds": 1, "l2": 0.0}
    rates = dict.fromkeys(("input_dropout", "hidden_dropout", "skip_dropout"), 0.0)
    run = train_parts(PartsConfig(**common, **rates, clusters=3), tmp_path / "run")
    assert run is not None
    (trial,) = run.trials()
    assert trial.history["train_loss"][-1] < 0.7 * trial.history["train_loss"][0]
    assert trial.test["accuracy"] > 0.6


@pytest.mark.parametrize(
    ("starts", "join"), [([0, 5], 1), ([0, NODES], 2), ([0, NODES], 0), ([3, NODES], 1), ([0, 9, 4, NODES], 1)]
)
def test_bad_parts_are_refused(starts: list[int], join: int) -> None:
    with pytest.raises(ArmagnnError):
        ClusterLoader(operator(), starts, join)


def test_more_parts_than_there_are(parts: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="join must be"):
        train_parts(PartsConfig(parts=str(parts), seeds=1, clusters=9), tmp_path / "run")
