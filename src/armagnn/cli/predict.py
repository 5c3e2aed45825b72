"""``armagnn predict``: what a run says about nodes, graphs or signals, as CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn import training
from armagnn.files import write_atomic


def predict(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    data: Annotated[
        str | None,
        typer.Option(
            help="New graphs, for a run on graphs: a folder in TU's format, or an .npz file.",
            show_default="those of the run",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write.", show_default="standard output")] = None,
) -> None:
    """Write the label (or labels) and the class probabilities of every node, graph or signal, as CSV.

    Of a run on nodes: node, split (train, val, test or empty), label (the most probable), p_0, p_1, ... Where a node
    may have many labels, as in PPI: node, graph, split, labels (those more probable than not, with blanks between),
    p_0, ..., each with a probability of its own. Of a regression: node, split, target (the value, in its own units).

    Of a run on graphs (`armagnn train graphs`): graph, label, and p_CLASS for each class, or the real targets in their
    own units; with --data of new graphs, which need no labels (and the training data are not needed then), without it
    of those of the run, with their split. Graphs are counted as in the data: from 1 in a folder, from 0 elsewhere.

    The weights are those of the trial that is best on validation.
    """
    found = training.predict(training.Run.open(run), data)
    table = found.to_csv()
    if out is None:
        typer.echo(table, nl=False)
    else:
        write_atomic(out, table.encode())
        typer.echo(f"{out}: {table.count(chr(10)) - 1} {found.what}", err=True)
