"""``armagnn predict`` writes a row for every node, ``armagnn show`` says how well a run was trained."""

from __future__ import annotations

import csv
import io
import json
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


def test_predict_writes_every_node(run: CliRunner, finished: Path) -> None:
    result = run.invoke(app, ["predict", str(finished)])
    assert result.exit_code == 0
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["node", "split", "label", *(f"p_{c}" for c in range(7))]
    assert [int(row["node"]) for row in rows] == list(range(2708))
    data = load("cora")
    splits = {"train": data.train_idx, "val": data.val_idx, "test": data.test_idx}
    for name, ids in splits.items():
        assert [int(row["node"]) for row in rows if row["split"] == name] == ids.tolist()
    for row in rows[::100]:
        p = [float(row[f"p_{c}"]) for c in range(7)]
        assert sum(p) == pytest.approx(1.0, abs=1e-5)
        assert p[int(row["label"])] == max(p)
    hits = sum(int(rows[node]["label"]) == int(data.y[node]) for node in data.test_idx.tolist())
    metrics = json.loads((finished / "metrics.json").read_text())
    best = next(trial for trial in metrics["trials"] if trial["seed"] == metrics["best_seed"])
    assert hits / 1000 == best["test"]["accuracy"]


def test_predict_to_a_file(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(tmp_path / "labels.csv")])
    assert result.exit_code == 0
    assert result.stdout == ""
    assert (tmp_path / "labels.csv").read_text() == run.invoke(app, ["predict", str(finished)]).stdout


def test_predict_to_where_nothing_can_be_written(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    result = run.invoke(app, ["predict", str(finished), "--out", str(finished / "config.json" / "labels.csv")])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


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
