"""Runs on a user's own graph of nodes: features on their own scale, weights of edges, and runs of older versions."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data.arrays import pack_arrays
from armagnn.errors import RunError, UnknownNameError
from armagnn.explore.learned import learned_responses
from armagnn.files import sha256_of
from armagnn.training import NodesConfig, Run, predict, train
from armagnn.training.checkpoint import Manifest, to_bytes
from armagnn.training.trainer import Observer

NODES = 120
QUICK: dict[str, Any] = {"hidden": 4, "stacks": 1, "epochs": 60, "lr": 0.1, "seeds": 1, "l2": 0.0,
                         "input_dropout": 0.0, "hidden_dropout": 0.0, "skip_dropout": 0.0}  # fmt: skip


class Notes(Observer):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


def above_five(path: Path, *, directed: bool = False, weighted: bool = False) -> Path:
    """One feature x in 0 .. 10, and the label x > 5; nodes of a class are joined in a path."""
    x = np.random.default_rng(0).uniform(0, 10, (NODES, 1))
    y = (x[:, 0] > 5).astype(np.int64)
    pairs = [pair for c in (0, 1) for ids in [np.flatnonzero(y == c)] for pair in pairwise(ids)]
    edges = np.array(pairs).T
    edges = edges if directed else np.concatenate([edges, edges[::-1]], axis=1)
    nodes = np.random.default_rng(1).permutation(NODES)
    arrays = {
        "x_indptr": np.arange(NODES + 1), "x_indices": np.zeros(NODES, np.int64), "x_data": x[:, 0],
        "x_shape": np.array([NODES, 1]), "edge_index": edges, "y": y,
        "train_idx": nodes[:40], "val_idx": nodes[40:80], "test_idx": nodes[80:],
    }  # fmt: skip
    if weighted:
        arrays["edge_weight"] = 1.0 + (edges[0] + edges[1]) % 3
    path.write_bytes(pack_arrays(arrays))
    return path


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return above_five(tmp_path_factory.mktemp("own") / "mine.npz")


def quick(path: Path, **changes: Any) -> NodesConfig:
    return NodesConfig(dataset=str(path), **QUICK | changes)


def accuracy(run: Run) -> float:
    found: float = run.metrics()["test"]["accuracy"]["mean"]
    return found


def test_one_column_of_numbers_is_learnt(mine: Path, tmp_path: Path) -> None:
    notes = Notes()
    run = train(quick(mine, conv="mlp"), tmp_path / "run", observer=notes)
    assert accuracy(run) > 0.9
    assert notes.said == ["features: each of the 1 columns is standardised on the 40 training nodes."]
    rows = train(quick(mine, conv="mlp", features="rows"), tmp_path / "rows")
    assert accuracy(rows) < 0.7  # every row divided by its sum is 1
    labels = np.array([int(label) for label in predict(run).labels()])
    with np.load(mine) as arrays:
        assert (labels == arrays["y"]).mean() > 0.9


def test_the_option_of_the_command(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    common = ["train", "--dataset", str(mine), "--conv", "mlp", "--epochs", "2", "--seeds", "1"]
    result = CliRunner().invoke(app, [*common, "--out", str(tmp_path / "auto")])
    assert result.exit_code == 0, result.output
    assert "Note: features: each of the 1 columns is standardised on the 40 training nodes." in result.stderr
    result = CliRunner().invoke(app, [*common, "--out", str(tmp_path / "none"), "--features", "none"])
    assert "Note: features: taken as they are." in result.stderr
    config = Run.open(tmp_path / "none").config
    assert isinstance(config, NodesConfig)
    assert config.features == "none"
    result = CliRunner().invoke(app, [*common, "--out", str(tmp_path / "no"), "--features", "row"])
    assert result.exit_code == 2
    assert "Did you mean 'rows'" in result.stderr
    assert not (tmp_path / "no").exists()
    with pytest.raises(UnknownNameError):
        NodesConfig(features="Rows")


def as_old(run: Path) -> None:
    """Make the folder what armagnn 0.1 wrote, which did not know how features are scaled."""
    content = json.loads((run / "config.json").read_text())
    del content["config"]["features"]
    (run / "config.json").write_bytes(to_bytes(content))
    manifest = Manifest.read(run)
    manifest.files["config.json"] = sha256_of(to_bytes(content))
    manifest.write(run)


def test_an_old_run_predicts_what_it_predicted(mine: Path, tmp_path: Path) -> None:
    run = train(quick(mine, conv="arma", features="kind"), tmp_path / "run")
    assert run.dataset_sha256 == sha256_of(mine.read_bytes())  # as armagnn 0.1 wrote it
    before = predict(run).probabilities
    assert torch.equal(predict(train(quick(mine, features="rows"), tmp_path / "rows")).probabilities, before)
    as_old(tmp_path / "run")
    old = Run.open(tmp_path / "run")
    assert torch.equal(predict(old).probabilities, before)
    assert train(old.config, tmp_path / "run", resume=True).complete


def test_an_old_run_of_another_graph_is_refused(tmp_path: Path) -> None:
    """Armagnn 0.1 took one-directional edges as they are: those weights belong to another operator."""
    path = above_five(tmp_path / "directed.npz", directed=True)
    run = train(quick(path, features="kind"), tmp_path / "run")
    assert run.dataset_sha256 != sha256_of(path.read_bytes())
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    content["dataset_sha256"] = sha256_of(path.read_bytes())
    (tmp_path / "run" / "config.json").write_bytes(to_bytes(content))
    manifest = Manifest.read(tmp_path / "run")
    manifest.files["config.json"] = sha256_of(to_bytes(content))
    manifest.write(tmp_path / "run")
    with pytest.raises(RunError, match=r"another file.*or an older armagnn read it otherwise"):
        predict(Run.open(tmp_path / "run"))


def test_directions_and_weights_reach_the_network(mine: Path, tmp_path: Path) -> None:
    plain = predict(train(quick(mine), tmp_path / "plain")).probabilities
    notes = Notes()
    one_way = above_five(tmp_path / "one-way.npz", directed=True)
    run = train(quick(one_way), tmp_path / "one-way", observer=notes)
    assert torch.equal(predict(run).probabilities, plain)
    assert "were listed in one direction; the other direction was added" in notes.said[1]
    weighted = train(quick(above_five(tmp_path / "w.npz", weighted=True)), tmp_path / "weighted", observer=notes)
    assert not torch.equal(predict(weighted).probabilities, plain)
    assert notes.said[-1] == "edges: weights are used, 1 to 3."
    again = train(quick(tmp_path / "w.npz"), tmp_path / "again")
    assert torch.equal(predict(again).probabilities, predict(weighted).probabilities)
    mu, other = learned_responses(weighted)[0], learned_responses(run)[0]
    assert not torch.allclose(mu, other)  # the frequencies are those of the weighted graph
