"""A log gets a line at the end of a stage, and in between now and then."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from armagnn.cli import stage_bars
from armagnn.cli.stage_bars import StageBars


def test_lines_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    with StageBars(Console(file=log)) as bars:
        bars.tell("count", 5, 0)
        bars.tell("count", 9, 9)
        monkeypatch.setattr(stage_bars, "PAUSE", 0.0)
        bars.tell("sort", 3, 0)
    assert log.getvalue() == "count: 9 of 9, 0 s\nsort: 3, 0 s\n"


def test_a_bar_on_a_terminal() -> None:
    screen = io.StringIO()
    with StageBars(Console(file=screen, force_terminal=True, width=80)) as bars:
        bars.tell("count", 5, 0)
        bars.tell("sort", 3, 7)
        bars.progress.refresh()
    assert "sort" in screen.getvalue()
    assert "3/7" in screen.getvalue()
