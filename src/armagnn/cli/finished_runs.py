"""``armagnn show`` and ``armagnn predict``: how well a run was trained, and what it says about its data or new ones."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.text import Text

from armagnn import training
from armagnn.cli.consoles import notes_console, output_console, whole_table
from armagnn.errors import ParameterError
from armagnn.files import write_atomic

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


def show(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
) -> None:
    """Show what was trained and how well. Every file of the run is checked on the way."""
    if training.has_folds(run):
        print_folds(output_console(), training.open_folds(run))
        return
    opened = training.Run.open(run)
    console = output_console()
    for name, value in opened.config.to_json().items():
        console.print(f"{name.replace('_', '-'):>14}  {value}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{'data sha256':>14}  {opened.dataset_sha256}", highlight=False, markup=False, soft_wrap=True)
    versions = ", ".join(f"{name} {version}" for name, version in opened.versions.items())
    console.print(f"{'versions':>14}  {versions}", highlight=False, markup=False, soft_wrap=True)
    seconds = sum(trial.seconds for trial in opened.trials())
    console.print(f"{'trained':>14}  {len(opened.finished_seeds)} of {opened.config.seeds} trials, {seconds:.0f} s")
    if opened.complete:
        print_report(console, opened)
    else:
        console.print(
            f"Not finished. Continue with: {opened.resume_command}", highlight=False, markup=False, soft_wrap=True
        )


def predict(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    data: Annotated[
        str | None,
        typer.Option(
            help="New graphs, for a run on graphs: a folder in TU's format, or an .npz file.",
            show_default="those of the run",
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="A table of new nodes, for a run on tables.", show_default="those of the run"),
    ] = None,
    edges: Annotated[
        str | None, typer.Option(help="Their edges, among themselves or also to nodes of the run.", show_default="none")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write.", show_default="standard output")] = None,
) -> None:
    """Write the label (or labels) and the class probabilities of every node, graph or signal, as CSV.

    Of a run on nodes: node, split (train, val, test or empty), label (the most probable), p_0, p_1, ... Where a node
    may have many labels, as in PPI: node, graph, split, labels (those more probable than not, with blanks between),
    p_0, ..., the probability of each label. Of a regression: node, split, target (the value, in its own units).

    Of a run on graphs (`armagnn train graphs`): graph, label, and p_CLASS for each class, or the real targets in their
    own units; with --data of new graphs, which need no labels (and the training data are not needed then), without it
    of those of the run, with their split. Graphs are counted as in the data: from 1 in a folder, from 0 elsewhere.

    Of a run on tables (`armagnn train nodes`): your ids, split, label (the name of a class), p_CLASS for each; of
    several labels these with | between them; or the number. With --nodes and --edges for new nodes, which need no
    target: if an edge names a node of the run, they join its graph, otherwise they are a graph of their own.

    The weights are those of the trial that is best on validation.
    """
    if (nodes is None) != (edges is None) or (nodes is not None and data is not None):
        raise ParameterError("new nodes need both tables, --nodes FILE --edges FILE; --data is for graphs.")
    new = data if nodes is None else (nodes, edges)
    if training.has_folds(run):
        found = training.predict_folds(training.open_folds(run), new)
    else:
        found = training.predict(training.Run.open(run), new)
    for note in getattr(found, "notes", ()):
        notes_console().print(f"Note: {note}", style="yellow", soft_wrap=True)
    table = found.to_csv()
    if out is None:
        typer.echo(table, nl=False)
    else:
        write_atomic(out, table.encode())
        typer.echo(f"{out}: {table.count(chr(10)) - 1} {found.what}", err=True)


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
