"""Finished trials as plain text."""

from __future__ import annotations

import csv
from pathlib import Path

from armagnn.training.export import export_csv
from finished_trials import finished


def test_export(tmp_path: Path) -> None:
    trials = [finished(10), finished(2), finished(2, "gcn", metrics={"loss": 0.5, "accuracy": 0.1 + 0.2})]
    export_csv(trials, tmp_path / "a" / "b" / "table.csv")
    export_csv(reversed(trials), tmp_path / "again.csv")
    content = (tmp_path / "a" / "b" / "table.csv").read_bytes()
    assert content == (tmp_path / "again.csv").read_bytes()
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert list(rows[0]) == [
        "dataset", "method", "protocol", "run", "fold", "metric", "value",
        "seed", "epochs", "seconds", "device", "config_hash",
    ]  # fmt: skip
    assert [(r["method"], r["run"], r["metric"]) for r in rows] == [
        ("arma", "2", "accuracy"), ("arma", "10", "accuracy"), ("gcn", "2", "accuracy"), ("gcn", "2", "loss"),
    ]  # fmt: skip
    assert float(rows[2]["value"]) == 0.1 + 0.2
    assert rows[0]["config_hash"] == rows[1]["config_hash"] != rows[2]["config_hash"]
