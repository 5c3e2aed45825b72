"""What the tests of the commands share: a terminal of a fixed width, a finished run, an interrupted one."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from armagnn.training import Observer, train
from cli.quick_run import CONFIG


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    train(CONFIG, path)
    return path


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    class Interrupt(Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            raise KeyboardInterrupt

    path = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        train(CONFIG, path, observer=Interrupt())
    return path
