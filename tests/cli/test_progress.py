"""What is said while a training goes on, on a terminal and in a log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.cli.progress import TrainingProgress
from armagnn.training import Run
from cli.quick_run import CONFIG, QUICK


def test_the_bar_says_who_runs(finished: Path) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=150)
    with TrainingProgress(CONFIG, console) as bar:
        bar.trial(Run.open(finished).load_trial(0), new=True)
        bar.epochs(5, 1, 1.25, 0.5)
        bar._progress.refresh()
        assert "1 of 2 trials running, 1 finished; validation: loss 1.250, accuracy 50.0 %" in screen.getvalue()
        bar.stopping()
        bar._progress.refresh()
        assert "Ctrl-C: at once" in screen.getvalue()


@pytest.mark.parametrize(("terminal", "seconds", "lines"), [(False, 0.0, 2), (False, 1e9, 0), (True, 0.0, 0)])
def test_a_log_of_a_training_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: float, lines: int
) -> None:
    monkeypatch.setattr("armagnn.cli.progress.BETWEEN_LINES", seconds)
    text = io.StringIO()
    bar = TrainingProgress(
        CONFIG, Console(file=text, force_terminal=terminal, width=80)
    )  # not entered: no bar is drawn
    bar.epochs(5, 2, 1.25, 0.5)
    bar.epochs(8, 1, 1.0, float("nan"))
    assert (
        text.getvalue().splitlines()
        == [
            "epoch 5 of at most 8: 2 of 2 trials running, 0 finished; validation: loss 1.250, accuracy 50.0 %",
            "epoch 8 of at most 8: 1 of 2 trials running, 0 finished; validation: loss 1.000",
        ][:lines]
    )


def test_a_training_in_a_log_says_how_far_it_is(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armagnn.cli.progress.BETWEEN_LINES", 0.0)
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert result.exit_code == 0, result.output
    assert "epoch 5 of at most 8: 2 of 2 trials running" in result.stderr
    assert "epoch 5" not in result.stdout


def test_a_note_is_said_without_a_terminal() -> None:
    screen = io.StringIO()
    with TrainingProgress(CONFIG, Console(file=screen)) as bar:
        bar.epochs(5, 2, 1.0, 0.5)
        bar.stopping()
        assert screen.getvalue() == ""
        bar.note("it is so")
    assert screen.getvalue() == "Note: it is so\n"
