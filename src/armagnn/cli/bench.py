"""``armagnn bench``: how fast this is, beside PyTorch Geometric, on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console

from armagnn.errors import DeviceError


class Device(StrEnum):
    """What can be measured."""

    CPU = "cpu"
    GPU = "gpu"


def bench(
    device: Annotated[Device, typer.Argument(help="What to measure on.")] = Device.CPU,
    out: Annotated[Path | None, typer.Option(help="Also write the numbers to this JSON file.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side, a few runs each; the median counts.")] = 5,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which kernels run on which device, and leave.")
    ] = False,
) -> None:
    """Compare with PyTorch Geometric's ARMAConv in one run and print the ratios."""
    from armagnn import bench as room
    from armagnn.kernels import backend

    console = Console()
    if explain:
        for kind in ("cpu", "cuda"):
            module = backend(kind)
            console.print(f"{kind}: {module.__name__} — {(module.__doc__ or '').splitlines()[0]}", soft_wrap=True)
        return
    source: Iterable[room.Row]
    if device is Device.GPU:
        if not torch.cuda.is_available():
            raise DeviceError("torch sees no GPU here. Use: armagnn bench cpu")
        from armagnn.bench.gpu import compare_gpu

        source = compare_gpu(runs=20 * rounds)
    else:
        source = (row for rows in (room.compare_layers(rounds), room.compare_products(rounds=rounds)) for row in rows)
    rows: list[room.Row] = []
    for row in source:
        rows.append(row)
        console.print(
            f"{row.work}: {row.ours:.3f} {row.unit}, peer {row.peer:.3f} {row.unit}, {row.ratio:.2f}×", soft_wrap=True
        )
    console.print(room.table(rows, "peer"))
    if out is not None:
        room.write(out, rows, f"armagnn bench {device.value} --rounds {rounds}")
        console.print(f"Written to {out}")
