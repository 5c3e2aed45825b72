"""``armagnn predict``: labels and probabilities of every node, as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn.training import Run
from armagnn.training import predict as predict_nodes
from armagnn.training.atomic import write_atomic


def predict(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    out: Annotated[Path | None, typer.Option(help="The CSV file to write.", show_default="standard output")] = None,
) -> None:
    """Write the label (or labels) and the class probabilities of every node as CSV.

    Columns: node, split (train, val, test or empty), label (the most probable), p_0, p_1, ... Where a node may have
    many labels, as in PPI: node, graph, split, labels (those more probable than not, with blanks between), p_0, ...,
    each with a probability of its own. The weights are those of the trial that is best on validation.
    """
    table = predict_nodes(Run.open(run)).to_csv()
    if out is None:
        typer.echo(table, nl=False)
    else:
        write_atomic(out, table.encode())
        typer.echo(f"{out}: {table.count(chr(10)) - 1} nodes", err=True)
