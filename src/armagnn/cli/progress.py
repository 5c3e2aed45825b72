"""The progress display of a training: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from armagnn.cli.log_lines import LogLines
from armagnn.training import RunConfig, Trial, Watcher


class ProgressBar(Watcher):
    """The epochs of the batch, the trials that still run, and their mean validation results."""

    def __init__(self, config: RunConfig, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._console = console
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task("epochs", total=config.epochs, note="")
        self._epochs, self._trials, self._finished = config.epochs, config.seeds, 0
        self._log = LogLines(console)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        """Move the bar, or say in a log how far it is."""
        note = f"{running} of {self._trials} trials running, {self._finished} finished; validation: loss {val_loss:.3f}"
        if not math.isnan(val_accuracy):  # real targets have none
            note += f", accuracy {100 * val_accuracy:.1f} %"
        self._progress.update(self._task, completed=epoch, note=note)
        if self._log.due():
            self._log.say(f"epoch {epoch} of at most {self._epochs}: {note}")

    def trial(self, trial: Trial) -> None:
        """Count a finished trial."""
        self._finished += 1

    def stopping(self) -> None:
        """Say that Ctrl-C was heard; a bar that is off says nothing."""
        self._progress.update(self._task, description="stopping", note="a moment, to keep it all (Ctrl-C: at once)")

    def note(self, text: str) -> None:
        """Say it, on a terminal or not."""
        self._console.print(f"Note: {text}", style="yellow", soft_wrap=True, highlight=False, markup=False)
