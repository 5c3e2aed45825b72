"""``armagnn show``: finished, unfinished, and with many labels for each node."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import load
from armagnn.data.arrays import pack_arrays
from armagnn.data.data_folder import add
from armagnn.training import Run
from cli.quick_run import QUICK
from data.tiny import multilabel_arrays


def test_show(run: CliRunner, finished: Path) -> None:
    result = run.invoke(app, ["show", str(finished)])
    assert result.exit_code == 0
    for text in ("cora", "lr  0.01", "stop-on  loss", "2 of 2 trials", load("cora").sha256, "83.4 ± 0.6", "paper"):
        assert text in result.stdout


def test_an_unfinished_run(run: CliRunner, interrupted: Path) -> None:
    shown = run.invoke(app, ["show", str(interrupted)])
    assert shown.exit_code == 0
    assert "0 of 2 trials" in shown.stdout
    assert f"armagnn train --out {interrupted} --resume" in shown.stdout
    predicted = run.invoke(app, ["predict", str(interrupted)])
    assert predicted.exit_code == 2
    assert "0 of 2 trials are finished" in predicted.stderr


@pytest.fixture
def many_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three graphs whose nodes have many labels, as PPI's."""
    monkeypatch.setenv("ARMAGNN_DATA", str(tmp_path / "data"))
    path = tmp_path / "many.npz"
    path.write_bytes(pack_arrays(multilabel_arrays()))
    return add(path)[0]


def test_many_labels_per_node(run: CliRunner, many_labels: str, tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    result = run.invoke(app, ["train", "--dataset", many_labels, "--out", path, *QUICK])
    assert result.exit_code == 0, result.output
    metrics = Run.open(path).metrics()
    assert f"{100 * metrics['test']['micro_f1']['mean']:.1f} ±" in result.stdout
    assert "test micro-F1 %" in result.stdout
    assert "paper" not in result.stdout.replace("paper's", "")
    rows = list(csv.DictReader(io.StringIO(run.invoke(app, ["predict", path]).stdout)))
    data = load(many_labels)
    assert len(rows) == data.num_nodes
    assert data.graph is not None
    assert [int(row["graph"]) for row in rows] == data.graph.tolist()
    for row in rows:
        found = [c for c in range(data.num_classes) if float(row[f"p_{c}"]) > 0.5]
        assert row["labels"] == " ".join(map(str, found))
    entries = [[str(c) in row["labels"].split() for c in range(data.num_classes)] for row in rows]
    right = (torch.tensor(entries) == (data.y > 0))[data.test_idx].double().mean().item()
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert right == pytest.approx(best["test"]["accuracy"])
