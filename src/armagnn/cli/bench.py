"""``armagnn bench``: how fast this is, compared with PyTorch Geometric, and how well layers learn filters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from armagnn.cli.app import output_console
from armagnn.errors import DeviceError
from armagnn.files import check_writable


class What(StrEnum):
    """What can be measured."""

    CPU = "cpu"
    GPU = "gpu"
    BATCHES = "batches"
    SIGNALS = "signals"
    TRIALS = "trials"
    PEERS = "peers"
    BANDWIDTH = "bandwidth"
    FILTER_LEARNING = "filter-learning"


class Images(StrEnum):
    """What filters are learned from."""

    PHOTOGRAPHS = "photographs"
    GRID = "grid"


def bench(
    what: Annotated[
        What, typer.Argument(help="The speed on a CPU (of all, or one of its parts) or a GPU; or learning filters.")
    ] = What.CPU,
    out: Annotated[
        Path | None, typer.Option(help="Also write the numbers to this file: JSON, of filter-learning CSV.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each side, a few runs each; the median counts.")] = 5,
    data: Annotated[
        Images, typer.Option(help="Images of filter-learning: photographs, or the 50 of BernNet's benchmark.")
    ] = Images.PHOTOGRAPHS,
    images: Annotated[int, typer.Option(min=1, max=50, help="Images of the grid to train on.")] = 50,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the responses learned from the grid into this file.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say which kernels run on which device, and leave.")
    ] = False,
) -> None:
    """Compare with PyTorch Geometric's ARMAConv in one run and print the ratios; or compare layers as learners.

    `batches` is a training step on 64 molecules also with PyG's loader, `signals` one of the network for MNIST,
    `trials` ten seeds as one batch and ten trainings in a row, `peers` GAT, GraphSAGE and GIN here and in PyG,
    `bandwidth` products with large graphs beside copies; all are parts of `cpu`.
    `filter-learning` trains ARMA, Chebyshev, GCN, Cayley and polynomial layers with one budget of parameters to filter
    images like a low-pass, high-pass, band-pass, band-rejection and comb filter.
    With `--data grid` it is BernNet's benchmark: one linear filter for each of 50 images and five responses, in
    polynomial bases and as a rational filter, with 9, 13 and 17 coefficients each, and as an ARMA layer with 9, 12
    and 15, three for a stack.
    """
    from armagnn import bench as room
    from armagnn.kernels import backend

    console = output_console()
    if explain:
        for kind in ("cpu", "cuda"):
            module = backend(kind)
            console.print(f"{kind}: {module.__name__} — {(module.__doc__ or '').splitlines()[0]}", soft_wrap=True)
        return
    check_writable(out)
    check_writable(picture)
    if what is What.FILTER_LEARNING:
        if data is Images.GRID:
            _grid(console, out, images, picture)
        else:
            _filter_learning(console, out)
        return
    source: Iterable[room.Comparison]
    if what is What.GPU:
        import torch

        if not torch.cuda.is_available():
            raise DeviceError("torch sees no GPU here. Use: armagnn bench cpu")
        from armagnn.bench.gpu_rows import compare_gpu

        source = compare_gpu(runs=20 * rounds)
    else:
        parts: dict[What, Callable[[], Iterable[room.Comparison]]] = {
            What.BATCHES: lambda: room.compare_batches(rounds=rounds),
            What.SIGNALS: lambda: room.compare_signals(min(rounds, 2)),  # PyG takes many seconds for a step
            What.TRIALS: lambda: room.compare_trials(min(rounds, 3)),
            What.PEERS: lambda: room.compare_peers(min(rounds, 3)),
            What.BANDWIDTH: lambda: room.compare_bandwidth(min(rounds, 3)),
        }
        speed: list[Callable[[], Iterable[room.Comparison]]] = [
            lambda: room.compare_layers(rounds),
            lambda: room.compare_products(rounds=rounds),
            *parts.values(),
        ]
        source = (row for part in ([parts[what]] if what in parts else speed) for row in part())
    rows: list[room.Comparison] = []
    for row in source:
        rows.append(row)
        console.print(
            f"{row.work}: {row.ours:.3f} {row.unit}, peer {row.peer:.3f} {row.unit}, {row.ratio:.2f}×", soft_wrap=True
        )
    console.print(room.table(rows, "peer"))
    if out is not None:
        room.write(out, rows, f"armagnn bench {what.value} --rounds {rounds}")
        console.print(f"Written to {out}")


def _filter_learning(console: Console, out: Path | None) -> None:
    from armagnn.bench import filter_learning as learning
    from armagnn.sealed import rows_csv, write_sealed

    data, results = learning.filter_data(), []
    for method in learning.OPTIONS:
        results += learning.learn(method, data)
        console.print(f"{method}: {len(results)} trainings done")
    console.print(learning.table(results))
    if out is not None:
        write_sealed(out, rows_csv(learning.Result, results, 6))
        console.print(f"Written to {out}", highlight=False, soft_wrap=True)


def _grid(console: Console, out: Path | None, images: int, picture: Path | None) -> None:
    from armagnn.bench import grid_training as grid
    from armagnn.bench.grid_filters import grid_data
    from armagnn.bench.grid_training import draw, table
    from armagnn.sealed import rows_csv, write_sealed

    data, learned = grid_data(images), []
    for method, protocol, coefficients, own in grid.plan(images):
        learned.append(grid.learn_grid(data.first(own), method, protocol, coefficients))
        errors = " ".join(f"{error:.2g}" for error in learned[-1].sse.mean(1))
        console.print(f"{method}, {protocol}, {coefficients} coefficients, {own} images: {errors}", soft_wrap=True)
    console.print(table(learned))
    if out is not None:
        write_sealed(out, rows_csv(grid.Row, [row for one in learned for row in one.rows()], 6))
        console.print(f"Written to {out}", highlight=False, soft_wrap=True)
    if picture is not None:
        draw(learned, picture)
        console.print(f"Written to {picture}", highlight=False, soft_wrap=True)
