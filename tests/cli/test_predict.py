"""``armagnn predict``: a row for every node."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.data import load


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
