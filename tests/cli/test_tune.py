from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from armagnn.cli import app
from armagnn.training import Run
from data.tables.small_tables import write_people

pytest.importorskip("optuna")


def call(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_from_a_search_to_a_run_with_logs(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    nodes, edges = write_people(tmp_path)
    tables = ["--nodes", nodes, "--edges", edges, "--target", "label", "--ignore", "income"]
    short = ["--epochs", 6, "--seeds", 2, "--over", "lr,hidden=4|8"]
    done = call("tune", "nodes", *tables, *short, "--trials", 4, "--at-once", 2, "--out", tmp_path / "tuned")
    assert done.exit_code == 0, done.output
    assert "The best of 4 settings" in done.output
    best = tmp_path / "tuned" / "best.json"
    done = call("train", "nodes", "--config", best, "--seeds", 1, "--out", tmp_path / "run", "--tensorboard")
    assert done.exit_code == 0, done.output
    config, wanted = Run.open(tmp_path / "run").config, json.loads(best.read_text())
    assert (config.lr, config.to_json()["hidden"], config.seeds) == (wanted["lr"], wanted["hidden"], 1)
    assert list((tmp_path / "run" / "tensorboard").glob("*/seed-0/events*"))
    again = ["--out", tmp_path / "run", "--overwrite"]
    assert call("train", "nodes", "--config", tmp_path / "run" / "config.json", *again).exit_code == 0
    done = call(
        "tune", "nodes", *tables, *short, "--trials", 4, "--at-once", 2, "--out", tmp_path / "tuned", "--resume"
    )
    assert done.exit_code == 0, done.output


def test_bad_input_has_one_message(tmp_path: Path) -> None:
    for words in (
        ["tune", "--over", "hiden", "--out", tmp_path / "a"],
        ["tune", "--lr", "0.1", "graphs"],
        ["tune", "graphs"],
        ["tune", "--trials", "0", "--out", tmp_path / "a"],
        ["train", "--config", tmp_path / "missing.json"],
    ):
        done = call(*words)
        assert done.exit_code == 2, words
        assert done.stderr.count("Error:") == 1
    assert not (tmp_path / "a").exists()


def test_the_help_names_the_options_of_the_search() -> None:
    text = call("tune", "nodes", "--help").output
    for option in ("--trials", "--over", "--at-once", "--nodes", "--resume"):
        assert option in text
    assert "--tensorboard" not in text
