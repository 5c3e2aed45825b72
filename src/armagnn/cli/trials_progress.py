"""The progress of many trials: a bar on a terminal, a line now and then elsewhere, and one per finished cell."""

from __future__ import annotations

import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from armagnn.cli.log_lines import LogLines
from armagnn.training.engine import TrialWatcher
from armagnn.training.record import Record

MAIN_METRICS = ("accuracy", "micro_f1", "mse")  # the first of them that a trial has is shown
Cell = tuple[str, str, str]  # dataset, method, protocol


class TrialsProgress(TrialWatcher):
    """Trials done, the running mean of the cell at work, and the time left; Ctrl-C tells how to continue.

    `planned` says how many trials each cell will have, so that its line is shown as soon as it is finished; cells
    not in it are shown at the end. `command` is what to type to continue, by default what was typed.

    Example:
        >>> with TrialsProgress(Console(stderr=True)) as progress:  # doctest: +SKIP
        ...     execute(jobs, work, store, watcher=progress)
    """

    def __init__(self, console: Console, planned: Mapping[Cell, int] | None = None, command: str | None = None) -> None:
        note = TextColumn("{task.fields[note]}", markup=False)
        columns = (TextColumn("trials"), BarColumn(), MofNCompleteColumn(), note)
        self._console = console
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("trials", total=None, note="")
        self._planned = dict(planned or {})
        self._command = command or shlex.join(["armagnn", *sys.argv[1:]])
        self._values: dict[Cell, list[float]] = {}  # of the cells that are not shown yet
        self._metric: dict[Cell, str] = {}
        self._last: Cell | None = None
        self._total = self._done = self._new = 0
        self._began = time.monotonic()
        self._log = LogLines(console)  # lines of finished cells do not wait

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        if kind is None:
            for cell in sorted(self._values):
                self._show(cell)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            self._say(
                f"Interrupted. {self._done} of {self._total} trials are kept. Continue with: {self._command}", "yellow"
            )
            raise typer.Exit(130)

    def start(self, total: int) -> None:
        """Begin to count, and to measure time."""
        self._total = total
        self._began = time.monotonic()
        self._log.start()
        self._progress.update(self._task, total=total)

    def trial(self, record: Record, *, new: bool) -> None:
        """Count a trial."""
        self._done += 1
        self._new += new
        cell = record.cell
        metric = self._metric.setdefault(cell, main_metric(record))
        values = self._values.setdefault(cell, [])
        values.append(record.metrics[metric])
        self._progress.update(self._task, completed=self._done, note=f"{self._left()}  {self._line(cell)}")
        if len(values) == self._planned.get(cell):
            self._show(cell)
        self._last = cell

    def batch(self) -> None:
        """Say in a log how far it is. After the first trial of a batch one cannot say how long the others take."""
        if self._last in self._values and self._log.due():
            self._log.say(f"{self._done} of {self._total} trials, {self._left()}; {self._line(self._last)}")

    def lost(self, reason: str) -> None:
        """Say that a worker died."""
        self._say(f"Note: a worker died ({reason}); its trials are given to another one.", "yellow")

    def _left(self) -> str:
        # Trials that were in the store already took no time.
        if not self._new:
            return ""
        seconds = (time.monotonic() - self._began) / self._new * (self._total - self._done)
        return f"{duration(seconds)} left"

    def _line(self, cell: Cell) -> str:
        values = self._values[cell]
        return f"{' '.join(cell)}: {self._metric[cell]} {mean_std(values)} ({len(values)})"

    def _show(self, cell: Cell) -> None:
        self._say(self._line(cell))
        del self._values[cell]

    def _say(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)


def main_metric(record: Record) -> str:
    """The metric that stands for a trial."""
    return next((name for name in MAIN_METRICS if name in record.metrics), min(record.metrics, default=""))


def mean_std(values: Sequence[float]) -> str:
    """Mean ± sample deviation, with the digits that mean something; a single value has no deviation.

    Example:
        >>> mean_std([83.0, 84.0]), mean_std([0.0123])
        ('83.50 ± 0.71', '0.01230')
    """
    mean = statistics.fmean(values)
    digits = 2 if abs(mean) >= 1 else 5
    return f"{mean:.{digits}f}" + (f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else "")


def duration(seconds: float) -> str:
    """A time to read.

    Example:
        >>> duration(42), duration(3 * 60 + 5), duration(2 * 3600 + 60)
        ('42 s', '3 min 05 s', '2 h 01 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
