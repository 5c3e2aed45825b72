"""How a finished run is shown: one row per trial, then mean ± deviation beside the paper's."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from armagnn.cli.published import PAPER_ACCURACY
from armagnn.training import Run


def print_report(console: Console, run: Run) -> None:
    """Print the table of a finished run and where its files are."""
    metrics = run.metrics()
    table = Table("seed", "epoch", "val. loss", "val. acc. %", "test acc. %", title=run.config.title)
    for column in table.columns:
        column.justify = "right"
    for trial in metrics["trials"]:
        chosen = trial["seed"] == metrics["best_seed"]
        table.add_row(
            f"{'* ' if chosen else ''}{trial['seed']}",
            str(trial["best_epoch"]),
            f"{trial['val_loss']:.4f}",
            f"{100 * trial['val_accuracy']:.1f}",
            f"{100 * trial['test_accuracy']:.1f}",
        )
    table.add_section()
    mean_std = {name: _percent(metrics[name]) for name in ("val_accuracy", "test_accuracy")}
    table.add_row("mean", "", "", mean_std["val_accuracy"], mean_std["test_accuracy"], style="bold")
    if run.config.dataset in PAPER_ACCURACY:
        mean, std = PAPER_ACCURACY[run.config.dataset]
        table.add_row("paper", "", "", "", f"{mean:.1f} ± {std:.1f}")
    console.print(table)
    if run.config.dataset in PAPER_ACCURACY:
        console.print(
            f"Stopped on validation {run.config.stop_on}, patience {run.config.patience}; "
            "the paper's text: accuracy, patience 50.",
            style="dim",
            highlight=False,
        )
    console.print("* best on validation: its weights are the run's weights.", style="dim")


def _percent(value: dict[str, float]) -> str:
    return f"{100 * value['mean']:.1f} ± {100 * value['std']:.1f}"
