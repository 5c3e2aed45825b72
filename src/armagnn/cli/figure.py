"""``armagnn figure``: the figures of the paper, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from armagnn.paper import training_time as times
from armagnn.training.atomic import write_atomic

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")


@app.callback()
def frame() -> None:
    """Make a figure of the paper again."""


@app.command("training-time")
def training_time(
    dataset: Annotated[str, typer.Option(help="The dataset; the paper's is ppi.")] = "ppi",
    method: Annotated[list[str] | None, typer.Option(help="Methods; by default those of the figure.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    epochs: Annotated[int, typer.Option(help="Most epochs of a training.")] = 2000,
    out: Annotated[Path, typer.Option(help="The picture; the numbers go beside it as CSV.")] = Path(
        "figures", "training-time.png"
    ),
) -> None:
    """Figure 4: time per epoch and to the best validation score, for GCN, Chebyshev, CayleyNet and ARMA on PPI."""
    console, timings = Console(), []
    table = Table("method", "ms per epoch", "best epoch", "s to best", "val. acc. %", title=f"Training on {dataset}")
    for timing in times.measure(dataset, method or times.METHODS, device, epochs):
        timings.append(timing)
        Console(stderr=True).print(f"{timing.method}: {1e3 * timing.seconds_per_epoch:.1f} ms per epoch")
        table.add_row(
            timing.method, f"{1e3 * timing.seconds_per_epoch:.2f}", str(timing.best_epoch),
            f"{timing.seconds_to_best:.2f}", f"{timing.val_accuracy:.1f}",
        )  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, times.draw(timings, dataset))
    write_atomic(out.with_suffix(".csv"), times.to_csv(timings).encode())
    console.print(table)
    console.print(f"Written to {out} and {out.with_suffix('.csv')}", highlight=False, soft_wrap=True)
