"""A kind of task of another package is trained, shown, resumed and asked by the commands that serve ours."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import UnknownNameError
from armagnn.training import Run, predict, train
from armagnn.training.config import KINDS, config_of

HERE = Path(__file__).resolve().parents[1]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the kind "line", which is known in this test only."""
    module = importlib.import_module("toy_task")
    KINDS.pop("line", None)
    monkeypatch.setitem(KINDS, "line", module.LineConfig)
    return module


COMMANDS = """
import csv, io
from typer.testing import CliRunner
from armagnn.cli import app

def run(*words):
    done = CliRunner().invoke(app, [*words])
    assert done.exit_code == 0, done.output
    return done.output

assert "Put a line through points" in run("train", "line", "--help")
assert "line" in run("train", "--help")
run("train", "line", "--epochs", "200", "--out", "run")
run("train", "line", "--out", "run", "--resume")
assert "200" in run("show", "run")
heights = [float(row["height"]) for row in csv.DictReader(io.StringIO(run("predict", "run")))]
assert len(heights) == 20 and abs(heights[0] + 1) < 0.1 and abs(heights[-1] - 3) < 0.1, heights
"""


def test_the_commands_find_it_by_its_entry_point(tmp_path: Path) -> None:
    about = tmp_path / "toy_task-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-task\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[armagnn.tasks]\nline = toy_task\n")
    places = [str(tmp_path), str(HERE), *(place for place in sys.path if place)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr


def test_from_python(toy: Any, tmp_path: Path) -> None:
    run = train(toy.LineConfig(epochs=300), tmp_path / "run")
    found = predict(Run.open(run.path))
    assert isinstance(found, toy.LinePrediction)
    assert found.heights == pytest.approx(toy.Points.y.squeeze(1).tolist(), abs=0.1)


def test_a_kind_that_nobody_brings() -> None:
    with pytest.raises(UnknownNameError, match="line"):
        config_of("line")
