"""``armagnn reproduce convergence``: the convergent layer beside fixed numbers of steps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn.cli.consoles import output_console, whole_table
from armagnn.errors import ParameterError
from armagnn.paper import convergence as experiment
from armagnn.paper import convergence_cost


def convergence(
    dataset: Annotated[list[str] | None, typer.Option(help="cora, citeseer, chain-50, chain-100.")] = None,
    runs: Annotated[int, typer.Option(help="Seeds of a cell.")] = 10,
    out: Annotated[Path, typer.Option(help="The table; what is in it is not done again.")] = Path(
        "results", "convergence.csv"
    ),
    cost: Annotated[bool, typer.Option(help="Measure time and memory of a training step instead.")] = False,
) -> None:
    """Theorem 1: ARMA iterated until it converges, beside T = 10 and T = 100 steps.

    Citation networks, and chains whose labels are decided 50 and 100 hops away.
    """
    if runs < 1:
        raise ParameterError(f"runs is {runs}; it must be at least 1.")
    console = output_console()
    if cost:
        table = whole_table("layer", "steps", "processor ms", "peak MiB", title="One training step on Cora's graph")
        for case, steps, milliseconds, memory in convergence_cost.table():
            table.add_row(case, f"{steps:.4g}", f"{milliseconds:.4g}", f"{memory:.4g}")
        console.print(table)
        return
    for line in experiment.run(out, dataset or experiment.DATASETS, runs):
        console.print(line, highlight=False, soft_wrap=True)
