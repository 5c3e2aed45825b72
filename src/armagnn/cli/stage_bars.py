"""Bars for work that goes through stages: one on a terminal, lines in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PAUSE: Final = 30.0
"""Seconds between two lines of a stage in a log."""


class StageBars:
    """A bar for each stage on a terminal; in a log a line now and then, and one at the end of a stage.

    Example:
        >>> import io
        >>> with StageBars(Console(file=(log := io.StringIO()))) as bars:
        ...     bars.tell("edges", 3, 3)
        >>> log.getvalue()
        'edges: 3 of 3, 0 s\\n'
    """

    def __init__(self, console: Console) -> None:
        parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.console, self.stage, self.began = console, "", time.monotonic()
        self.said = self.began
        self.progress = Progress(*parts, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def tell(self, stage: str, done: int, total: int) -> None:
        """Move the bar of a stage; a total of 0 is not known yet."""
        if stage != self.stage:
            self.stage = stage
            self.progress.reset(self.task, total=total or None, description=stage)
        self.progress.update(self.task, completed=done, total=total or None)
        now = time.monotonic()
        if not self.console.is_terminal and (done == total or now - self.said >= PAUSE):
            self.said = now
            of = f" of {total}" if total else ""
            self.console.print(f"{stage}: {done}{of}, {now - self.began:.0f} s", soft_wrap=True)
