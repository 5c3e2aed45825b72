"""``armagnn reproduce convergence | reservoir | pace``: the experiments that are no table of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn.checks import choice, integer
from armagnn.cli.consoles import notes_console, output_console, whole_table
from armagnn.errors import ArmagnnError
from armagnn.files import check_writable
from armagnn.sealed import rows_csv, write_sealed
from armagnn_paper import convergence as theorem_1
from armagnn_paper import convergence_cost, forecast
from armagnn_paper.table import Cell
from armagnn_paper.tables import TABLES


def convergence(
    dataset: Annotated[list[str] | None, typer.Option(help="cora, citeseer, chain-50, chain-100.")] = None,
    runs: Annotated[int, typer.Option(help="Seeds of a cell.")] = 10,
    out: Annotated[Path, typer.Option(help="The table; what is in it is not done again.")] = Path(
        "results", "convergence.csv"
    ),
    cost: Annotated[bool, typer.Option("--cost", help="Measure time and memory of a training step instead.")] = False,
) -> None:
    """Theorem 1: ARMA iterated until it converges, and with T = 10 and T = 100 steps.

    Citation networks, and chains whose labels are decided 50 and 100 hops away.
    """
    integer("runs", runs, 1)
    console = output_console()
    if cost:
        table = whole_table("layer", "steps", "processor ms", "peak MiB", title="One training step on Cora's graph")
        for case, steps, milliseconds, memory in convergence_cost.table():
            table.add_row(case, f"{steps:.4g}", f"{milliseconds:.4g}", f"{memory:.4g}")
        console.print(table)
        return
    for line in theorem_1.run(out, dataset or theorem_1.DATASETS, runs):
        console.print(line, soft_wrap=True)


def reservoir(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="cora, citeseer, bench-hard, mutag; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs, each with a seed of its own.")] = 10,
    out: Annotated[Path, typer.Option(help="The table.")] = Path("results", "reservoir.csv"),
) -> None:
    """Reservoir ARMA (Section 4.1): random stacks and a trained readout; about 25 minutes on a CPU."""
    from armagnn_paper import reservoir_table as room  # scikit-learn takes a second to import

    check_writable(out)
    rows = [row for name in dataset or room.DATASETS for row in room.measure(name, runs)]
    write_sealed(out, rows_csv(room.ReservoirRow, rows))


def pace(
    table: Annotated[list[str] | None, typer.Argument(help="Tables, e.g. graph-signal; by default all four.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")] = "cpu",
    out: Annotated[Path, typer.Option(help="The table; what is in it is not measured again.")] = Path(
        "results", forecast.PACE
    ),
) -> None:
    """Measure an epoch of every cell of the tables, for `--plan`: many minutes, and hours on a processor.

    Cells that have trials on such a device in the exported tables need none; neither do those without settings.
    """
    for name in table or ():
        choice("table", name, tuple(TABLES))
    for name in table or TABLES:
        own = TABLES[name]
        known = forecast.known_times(own, out.parent, ()).spent
        wanted = []
        for cell in forecast.cells(own):
            if (cell, not device.startswith("cuda")) in known:
                continue
            try:
                wanted.append((Cell(*cell), own.config(Cell(*cell))))
            except ArmagnnError as error:
                notes_console().print(f"{' '.join(cell)} is left out: {error}", soft_wrap=True)
        for found in forecast.measure(own, wanted, out, device) if wanted else ():
            shown = f"{found.dataset} {found.method} {found.protocol}"
            output_console().print(f"{shown}: {found.seconds:.3g} s an epoch and training", soft_wrap=True)
