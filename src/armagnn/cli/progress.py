"""The progress display of a training: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from armagnn.training import TrainConfig, Trial, Watcher


class ProgressBars(Watcher):
    """Finished trials, and the epochs of those at work with their validation results."""

    def __init__(self, config: TrainConfig, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._trials = self._progress.add_task("trials", total=config.seeds, note="")
        self._epochs: dict[int, TaskID] = {}  # of the trials at work, by seed
        self._most = config.epochs

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def epoch(self, seed: int, epoch: int, val_loss: float, val_accuracy: float) -> None:
        """Move the bar of the trial `seed`."""
        if seed not in self._epochs:
            self._epochs[seed] = self._progress.add_task(f"seed {seed}", total=self._most, note="")
        note = f"validation: loss {val_loss:.3f}, accuracy {100 * val_accuracy:.1f} %"
        self._progress.update(self._epochs[seed], completed=epoch, note=note)

    def trial(self, trial: Trial) -> None:
        """Move the bar of the trials."""
        if trial.seed in self._epochs:
            self._progress.remove_task(self._epochs.pop(trial.seed))
        self._progress.update(self._trials, advance=1)
