"""What is shown of trainings: their progress, and what they reached.

Progress is a bar on a terminal; elsewhere a line now and then, and one for each finished cell.
"""

from __future__ import annotations

import math
import shlex
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from types import TracebackType
from typing import Final, Self

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from armagnn import training
from armagnn.cli.app import whole_table
from armagnn.training.config import Config
from armagnn.training.outcome import Outcome
from armagnn.training.record import CellName, Record
from armagnn.training.trainer import Observer

MAIN_METRICS: Final = ("accuracy", "micro_f1", "mse")
"""The first of them that a trial has is shown."""

BETWEEN_LINES: Final = 60.0
"""Seconds from a line in a log to the next, at least; those of finished cells do not wait."""


class TrainingProgress(Observer):
    """A bar over what `unit` counts, or in a log a line now and then; notes and Ctrl-C in either.

    Used for a training as it is, its bar counts the epochs of the batch. `TableProgress` counts trials.
    """

    def __init__(self, config: Config | None, console: Console, unit: str = "epochs") -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        self._console = console
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task(unit, total=config.epochs if config else None, note="")
        self._total, self._most = (config.seeds, config.epochs) if config else (0, 0)
        self._done = self._new = 0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def start(self, total: int) -> None:
        """Begin to count, and to measure time."""
        self._total = total
        self._began = self._said = time.monotonic()

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        """Move the bar."""
        note = f"{running} of {self._total} trials running, {self._done} finished; validation: loss {val_loss:.3f}"
        if not math.isnan(val_accuracy):  # real targets have none
            note += f", accuracy {100 * val_accuracy:.1f} %"
        self._progress.update(self._task, completed=epoch, note=note)
        self._say_if_due(f"epoch {epoch} of at most {self._most}: {note}")

    def trial(self, trial: Outcome | Record, *, new: bool) -> None:
        """Count a finished trial."""
        self._done += 1
        self._new += new

    def stopping(self) -> None:
        """Say that Ctrl-C was heard; a bar that is off says nothing."""
        self._progress.update(self._task, description="stopping", note="a moment, to keep it all (Ctrl-C: at once)")

    def note(self, text: str) -> None:
        """Say it, on a terminal or not."""
        self._say(f"Note: {text}", "yellow")

    def _say(self, text: str, style: str | None = None) -> None:
        self._console.print(text, style=style, soft_wrap=True, highlight=False, markup=False)

    def _say_if_due(self, text: str) -> None:
        """Say something in a log, if the last line is old enough."""
        if not self._console.is_terminal and time.monotonic() - self._said >= BETWEEN_LINES:
            self._say(text)
            self._said = time.monotonic()


class TableProgress(TrainingProgress):
    """Trials done, the running mean of the cell at work, and the time left; Ctrl-C tells how to continue.

    `planned` says how many trials each cell will have, so that its line is shown as soon as it is finished; cells
    not in it are shown at the end. `command` is what to type to continue, by default what was typed.

    Example:
        >>> with TableProgress(notes_console()) as progress:  # doctest: +SKIP
        ...     execute(jobs, work, store, observer=progress)
    """

    def __init__(
        self, console: Console, planned: Mapping[CellName, int] | None = None, command: str | None = None
    ) -> None:
        super().__init__(None, console, "trials")
        self._planned = dict(planned or {})
        self._command = command or shlex.join(["armagnn", *sys.argv[1:]])
        self._values: dict[CellName, list[float]] = {}  # of the cells that are not shown yet
        self._metric: dict[CellName, str] = {}
        self._last: CellName | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None:
            for cell in sorted(self._values):
                self._show(cell)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            kept = f"{self._done} of {self._total} trials are kept"
            self._say(f"Interrupted. {kept}. Continue with: {self._command}", "yellow")
            raise typer.Exit(130)

    def start(self, total: int) -> None:
        """Begin to count, and to measure time."""
        super().start(total)
        self._progress.update(self._task, total=total)

    def trial(self, trial: Outcome | Record, *, new: bool) -> None:
        """Count a trial."""
        super().trial(trial, new=new)
        assert isinstance(trial, Record)
        cell = trial.cell
        metric = self._metric.setdefault(cell, main_metric(trial))
        values = self._values.setdefault(cell, [])
        values.append(trial.metrics[metric])
        self._progress.update(self._task, completed=self._done, note=f"{self._left()}  {self._line(cell)}")
        if len(values) == self._planned.get(cell):
            self._show(cell)
        self._last = cell

    def batch(self) -> None:
        """Say in a log how far it is. After the first trial of a batch one cannot say how long the others take."""
        if self._last is not None and self._last in self._values:
            self._say_if_due(f"{self._done} of {self._total} trials, {self._left()}; {self._line(self._last)}")

    def lost(self, reason: str) -> None:
        """Say that a worker died."""
        self.note(f"a worker died ({reason}); its trials are given to another one.")

    def _left(self) -> str:
        # Trials that were in the store already took no time.
        if not self._new:
            return ""
        seconds = (time.monotonic() - self._began) / self._new * (self._total - self._done)
        return f"{duration(seconds)} left"

    def _line(self, cell: CellName) -> str:
        values = self._values[cell]
        return f"{' '.join(cell)}: {self._metric[cell]} {mean_std(values)} ({len(values)})"

    def _show(self, cell: CellName) -> None:
        self._say(self._line(cell))
        del self._values[cell]


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


# --------------------------------------------------------------------------------------------------- what a run reached

COLUMNS: Final = {
    "accuracy": "acc. %", "micro_f1": "micro-F1 %", "macro_f1": "macro-F1 %", "roc_auc": "ROC-AUC %", "mse": "MSE",
    "r2": "R²",
}  # fmt: skip
PERCENT: Final = ("accuracy", "micro_f1", "macro_f1", "roc_auc")
HIDDEN: Final = (("val", "mse"), ("val", "macro_f1"), ("val", "roc_auc"))
"""What the table of a run leaves out: the first is the loss, the others made no choice."""

ERRORS: Final = {"mae": "mean absolute error", "rmse": "root mean squared error"}
"""Metrics of a target in its own units: "mae NAME"."""

PUBLISHED: Final = "armagnn.published"
"""The group of entry points that know published numbers: functions of a configuration."""


def print_report(console: Console, run: training.Run) -> None:
    """Print the table of a finished run and what is to be known about it."""
    metrics, config = run.metrics(), run.config
    shown = [(split, name) for split in ("val", "test") for name in COLUMNS if name in metrics[split]]
    shown = [column for column in shown if column not in HIDDEN]
    heads = [f"{'val.' if split == 'val' else split} {COLUMNS[name]}" for split, name in shown]
    table = whole_table("seed", "epoch", "val. loss", *heads, title=Text(config.title))
    for column in table.columns:
        column.justify = "right"
    for trial in metrics["trials"]:
        chosen = trial["seed"] == metrics["best_seed"]
        table.add_row(
            f"{'* ' if chosen else ''}{trial['seed']}",
            str(trial["best_epoch"]),
            f"{trial['val']['loss']:.4f}",
            *(_number(name, trial[split][name]) for split, name in shown),
        )
    table.add_section()
    several = len(metrics["trials"]) > 1  # a single one has no deviation

    def mean(name: str, found: dict[str, float]) -> str:
        return _number(name, found["mean"]) + (f" ± {_number(name, found['std'])}" if several else "")

    table.add_row("mean", "", "", *(mean(name, metrics[split][name]) for split, name in shown), style="bold")
    published = _published(config)
    if published is not None:
        text = "{:.1f} ± {:.1f}".format(*published)
        table.add_row("paper", "", "", *(text if column == ("test", "accuracy") else "" for column in shown))
    console.print(table)
    _print_baselines(console, run, [column for column in shown if column[0] == "test"])
    for name, found in metrics["test"].items():
        error, _, target = name.partition(" ")
        if error in ERRORS:
            deviation = f" ± {found['std']:.2g}" if several else ""
            console.print(
                f"{target}: {ERRORS[error]} on test {config.kind} {found['mean']:.4g}{deviation}, in its own units",
                highlight=False,
                markup=False,
            )
    if published is not None:
        console.print(
            f"Stopped on validation {config.stop_on}, patience {config.patience}; "
            "the paper's text: accuracy, patience 50.",
            style="dim",
            highlight=False,
        )
    if isinstance(config, training.GraphsConfig):
        train, val, test = training.Description.read(run).sizes
        console.print(
            f"Fold {config.fold} of 10: {train} graphs for training, {val} for stopping, {test} for the test.",
            style="dim",
            highlight=False,
        )
    console.print("* best on validation: its weights are the run's weights.", style="dim")


IGNORES: Final = {"mlp": "no edges (MLP)", "label_propagation": "no features (label propagation)"}
"""What the baselines of a run on tables ignore."""


def _print_baselines(console: Console, run: training.Run, shown: list[tuple[str, str]]) -> None:
    """Print what simpler methods reach on the test nodes, and what the graph brings."""
    baselines = run.baselines()
    if not baselines:
        return
    metrics = run.metrics()
    table = whole_table("on the test nodes", *(COLUMNS[name] for _, name in shown), title="What the graph brings")
    rows = {"this run": metrics["test"]} | {IGNORES[n]: baselines[n]["test"] for n in IGNORES if n in baselines}
    for title, found in rows.items():
        cells = []
        for _, name in shown:
            each = found.get(name)
            deviation = f" ± {_number(name, each['std'])}" if each and each["std"] else ""
            cells.append(_number(name, each["mean"]) + deviation if each else "")
        table.add_row(title, *cells)
    console.print(table)


def print_folds(console: Console, runs: list[training.Run]) -> None:
    """Print the results of all folds and their summary."""
    found = [run.metrics() for run in runs]
    shown = [name for name in COLUMNS if name in found[0]["test"]]
    table = whole_table(
        "fold", "val. loss", *(f"test {COLUMNS[name]}" for name in shown), title=Text(runs[0].config.title)
    )
    for number, metrics in enumerate(found):
        cells = [_number(name, metrics["test"][name]["mean"]) for name in shown]
        table.add_row(str(number), f"{metrics['val']['loss']['mean']:.4f}", *cells)
    table.add_section()
    summary = training.summary_of(runs)
    means = [f"{_number(name, summary[name]['mean'])} ± {_number(name, summary[name]['std'])}" for name in shown]
    table.add_row("mean", "", *means, style="bold")
    console.print(table)
    console.print(
        f"Mean ± deviation over {len(runs)} folds; of each fold the mean over {runs[0].config.seeds} seeds.",
        style="dim",
        highlight=False,
    )


def _published(config: training.Config) -> tuple[float, float] | None:
    """Mean and deviation of the test accuracy that was published for the same task, if a package knows it."""
    for entry in entry_points(group=PUBLISHED):
        found: tuple[float, float] | None = entry.load()(config)
        if found is not None:
            return found
    return None


def _number(metric: str, value: float) -> str:
    return f"{100 * value:.1f}" if metric in PERCENT else f"{value:.4f}"
