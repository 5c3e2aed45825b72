"""How a finished run is shown: one row per trial, then mean ± deviation beside the paper's."""

from __future__ import annotations

from typing import Final

from rich.console import Console
from rich.table import Table

from armagnn.paper.published import ACCURACY
from armagnn.training import Run

COLUMNS: Final = {"accuracy": "acc. %", "micro_f1": "micro-F1 %"}


def print_report(console: Console, run: Run) -> None:
    """Print the table of a finished run and where its files are."""
    metrics, config = run.metrics(), run.config
    shown = [(split, name) for split in ("val", "test") for name in COLUMNS if name in metrics[split]]
    heads = [f"{'val.' if split == 'val' else split} {COLUMNS[name]}" for split, name in shown]
    table = Table("seed", "epoch", "val. loss", *heads, title=config.title)
    for column in table.columns:
        column.justify = "right"
    for trial in metrics["trials"]:
        chosen = trial["seed"] == metrics["best_seed"]
        table.add_row(
            f"{'* ' if chosen else ''}{trial['seed']}",
            str(trial["best_epoch"]),
            f"{trial['val']['loss']:.4f}",
            *(f"{100 * trial[split][name]:.1f}" for split, name in shown),
        )
    table.add_section()
    table.add_row("mean", "", "", *(_percent(metrics[split][name]) for split, name in shown), style="bold")
    published = ACCURACY.get(config.conv, {}).get(config.dataset)
    if published is not None:
        text = "{:.1f} ± {:.1f}".format(*published)
        table.add_row("paper", "", "", *(text if column == ("test", "accuracy") else "" for column in shown))
    console.print(table)
    if published is not None:
        console.print(
            f"Stopped on validation {config.stop_on}, patience {config.patience}; "
            "the paper's text: accuracy, patience 50.",
            style="dim",
            highlight=False,
        )
    console.print("* best on validation: its weights are the run's weights.", style="dim")


def _percent(value: dict[str, float]) -> str:
    return f"{100 * value['mean']:.1f} ± {100 * value['std']:.1f}"
