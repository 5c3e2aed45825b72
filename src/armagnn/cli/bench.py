"""``armagnn bench``: how fast this is, beside PyTorch Geometric, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def bench(
    out: Annotated[Path | None, typer.Option(help="Also write the numbers to this JSON file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side, a few runs each; the median counts.")] = 5,
    products: Annotated[bool, typer.Option(help="Also compare the candidates for op @ x.")] = True,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which kernels run on which device, and leave.")
    ] = False,
) -> None:
    """Compare with PyTorch Geometric's ARMAConv in one run and print the ratios."""
    from armagnn import bench as room
    from armagnn.kernels import backend

    console = Console()
    if explain:
        for device in ("cpu", "cuda"):
            module = backend(device)
            console.print(f"[bold]{device}[/]: {module.__name__} — {(module.__doc__ or '').splitlines()[0]}")
        return
    rows: list[room.Row] = []
    for source in (room.compare_layers(rounds), room.compare_products() if products else ()):
        for row in source:
            rows.append(row)
            console.print(f"{row.work}: {row.ours:.2f} {row.unit}, peer {row.peer:.2f} {row.unit}, {row.ratio:.2f}×")
    console.print(room.table(rows, "peer"))
    if out is not None:
        room.write(out, rows, f"armagnn bench --rounds {rounds}")
        console.print(f"Written to {out}")
