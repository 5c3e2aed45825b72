"""``armagnn features``: tables and arrays, ids in any order, learned banks, an interruption, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from armagnn import GraphOperator
from armagnn.cli import app
from armagnn.estimators import StoredFeatures
from armagnn.filters import FilterBank
from armagnn.nn import RationalConv
from armagnn.training import NodesConfig, Run, train
from oracles import random_graph

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
PAIRS = sorted(
    {(min(pair), max(pair)) for pair in random_graph(12, 20, seed=1).edge_index.T.tolist() if pair[0] != pair[1]}
)
EDGES = torch.tensor([*PAIRS, *((v, u) for u, v in PAIRS)]).T
ORDER = np.random.default_rng(2).permutation(12)
"""The place of each node in the table."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables of the graph, whose rows are in another order than the ids, with edges in one direction or both."""
    monkeypatch.chdir(tmp_path)
    rows = [f"n{ORDER[i]},{','.join(map(repr, X[ORDER[i]].tolist()))},yes" for i in range(12)]
    Path("nodes.csv").write_text("\n".join(["id,a,b,c,label", *rows]) + "\n")
    pairs = [(int(u), int(v)) for u, v in EDGES.T.tolist() if u < v or u % 2]
    Path("edges.csv").write_text("\n".join(["source,target", *(f"n{u},n{v}" for u, v in pairs)]) + "\n")
    np.save("x.npy", X)
    np.save("edges.npy", EDGES.numpy())
    return tmp_path


def call(run: CliRunner, *words: str) -> Any:
    return run.invoke(app, ["features", *words])


def expected(bank: Any = (0.9, -0.5)) -> Any:
    op = GraphOperator.from_edge_index(EDGES, 12)
    return FilterBank.of(bank).filter(op, torch.from_numpy(X)).transpose(0, 1).flatten(1).numpy()


def test_tables_and_arrays_give_the_same(folder: Path, run: CliRunner) -> None:
    first = call(run, "edges.csv", "--nodes", "nodes.csv", "--columns", "a,b,c", "--bank", "0.9,-0.5", "--out", "one")
    assert first.exit_code == 0, first.output
    assert "12 nodes, 9 columns" in first.output
    found = StoredFeatures.open("one")
    assert found.names[:4] == ("a", "b", "c", "a a=0.9")
    np.testing.assert_allclose(found.array[:, 3:], expected()[ORDER], atol=1e-5)
    np.testing.assert_array_equal(found.array[:, :3], X[ORDER])
    other = call(run, "edges.npy", "--nodes", "x.npy", "--bank", "0.9,-0.5", "--no-passthrough", "--out", "two")
    assert other.exit_code == 0, other.output
    np.testing.assert_allclose(StoredFeatures.open("two").array, expected(), atol=1e-5)


def test_a_file_of_filters_and_learned_ones(folder: Path, run: CliRunner) -> None:
    Path("bank.json").write_text(json.dumps([{"name": "low", "a": [0.9], "b": [0.1]}, {"a": [-0.5], "b": [0.5]}]))
    found = call(run, "edges.npy", "--nodes", "x.npy", "--bank", "bank.json", "--no-passthrough", "--out", "one")
    assert found.exit_code == 0, found.output
    np.testing.assert_allclose(StoredFeatures.open("one").array, expected(), atol=1e-5)
    train(NodesConfig(conv="rational", hidden=2, stacks=2, epochs=1, seeds=1), "run")
    found = call(run, "edges.npy", "--nodes", "x.npy", "--bank", "run", "--no-passthrough", "--out", "two")
    assert found.exit_code == 0, found.output
    experiment = NodesConfig(conv="rational", hidden=2, stacks=2, epochs=1, seeds=1).experiment()
    net = experiment.trained(Run.open("run"))
    bank = FilterBank((net.conv1.filter(), net.conv2.filter()), ("conv1", "conv2"))
    assert isinstance(net.conv1, RationalConv)
    np.testing.assert_allclose(StoredFeatures.open("two").array, expected(bank), atol=1e-5)
    train(NodesConfig(hidden=2, stacks=1, epochs=1, seeds=1), "plain")
    assert "no rational layers" in call(run, "edges.npy", "--nodes", "x.npy", "--bank", "plain", "--out", "x").output


def test_an_interruption_says_how_to_go_on(folder: Path, run: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    words = ["edges.npy", "--nodes", "x.npy", "--out", "bank"]
    with monkeypatch.context() as patch:
        patch.setattr(FilterBank, "filter", stop)
        found = call(run, *words)
        assert found.exit_code == 130
        assert "Continue with: armagnn" in found.output
    assert call(run, *words).exit_code == 0
    assert "12 nodes" in call(run, *words).output  # finished: nothing to do


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["edges.csv", "--nodes", "nodes.csv"], "which columns are features"),
        (["edges.csv", "--nodes", "nodes.csv", "--columns", "all"], "'label' must hold numbers"),
        (["edges.csv", "--nodes", "nodes.csv", "--columns", "a", "--id", "b"], "is not in the table of nodes"),
        (["edges.npy", "--nodes", "x.npy", "--columns", "a"], "are for tables of nodes"),
        (["x.npy", "--nodes", "x.npy"], "must have shape (2, E)"),
        (["edges.npy", "--nodes", "x.npy", "--bank", "1.5"], "(-1, 1)"),
        (["edges.npy", "--nodes", "x.npy", "--bank", "low"], "Did you mean 'low-pass'"),
        (["edges.npy", "--nodes", "x.npy", "--bank", "none.json"], "cannot be read"),
        (["edges.npy", "--nodes", "x.npy", "--memory", "0.001"], "at least"),
        (["edges.npy", "--nodes", "x.npy", "--type", "int8"], "float32"),
        (["none.csv", "--nodes", "x.npy"], "none.csv"),
        (["edges.csv", "--nodes", "nodes.csv", "--columns", "a", "--unknown", "x"], "drop"),
    ],
)
def test_refusals(words: list[str], said: str, folder: Path, run: CliRunner) -> None:
    found = call(run, *words, "--out", "bank")
    assert found.exit_code == 2, found.output
    assert said in " ".join(found.output.split())
    assert not Path("bank", "done.json").exists()
