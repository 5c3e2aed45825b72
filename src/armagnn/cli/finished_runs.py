"""``armagnn show``, ``predict`` and ``report``: how well a run was trained, and what it says about its data or new."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from armagnn import training
from armagnn.cli.app import notes_console, output_console
from armagnn.errors import ParameterError
from armagnn.files import check_writable, write_atomic


def show(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
) -> None:
    """Show what was trained and how well. Every file of the run is checked on the way."""
    from armagnn.cli.progress import print_folds, print_report  # it imports torch, which the help does not wait for

    if training.has_folds(run):
        print_folds(output_console(), training.open_folds(run))
        return
    opened = training.Run.open(run)
    console = output_console()
    for name, value in opened.config.to_json().items():
        console.print(f"{name.replace('_', '-'):>14}  {value}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"{'data sha256':>14}  {opened.dataset_sha256}", highlight=False, markup=False, soft_wrap=True)
    versions = ", ".join(f"{name} {version}" for name, version in opened.versions.items())
    console.print(f"{'versions':>14}  {versions}", highlight=False, markup=False, soft_wrap=True)
    seconds = sum(trial.seconds for trial in opened.trials())
    console.print(f"{'trained':>14}  {len(opened.finished_seeds)} of {opened.config.seeds} trials, {seconds:.0f} s")
    if opened.complete:
        print_report(console, opened)
    else:
        console.print(
            f"Not finished. Continue with: {opened.resume_command}", highlight=False, markup=False, soft_wrap=True
        )


def predict(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    data: Annotated[
        str | None,
        typer.Option(
            help="New graphs, for a run on graphs: a folder in TU's format, or an .npz file.",
            show_default="those of the run",
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(help="A table of new nodes, for a run on tables.", show_default="those of the run"),
    ] = None,
    edges: Annotated[
        str | None, typer.Option(help="Their edges, among themselves or also to nodes of the run.", show_default="none")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The CSV file to write.", show_default="standard output")] = None,
) -> None:
    """Write the label (or labels) and the class probabilities of every node, graph or signal, as CSV.

    Of a run on nodes: node, split (train, val, test or empty), label (the most probable), p_0, p_1, ... Where a node
    may have many labels, as in PPI: node, graph, split, labels (those more probable than not, with blanks between),
    p_0, ..., the probability of each label. Of a regression: node, split, target (the value, in its own units).

    Of a run on graphs (`armagnn train graphs`): graph, label, and p_CLASS for each class, or the real targets in their
    own units; with --data of new graphs, which need no labels (and the training data are not needed then), without it
    of those of the run, with their split. Graphs are counted as in the data: from 1 in a folder, from 0 elsewhere.

    Of a run on tables (`armagnn train nodes`): your ids, split, label (the name of a class), p_CLASS for each; of
    several labels these with | between them; or the number. With --nodes and --edges for new nodes, which need no
    target: if an edge names a node of the run, they join its graph, otherwise they are a graph of their own.

    The weights are those of the trial that is best on validation.
    """
    if (nodes is None) != (edges is None) or (nodes is not None and data is not None):
        raise ParameterError("new nodes need both tables, --nodes FILE --edges FILE; --data is for graphs.")
    new = data if nodes is None else (nodes, edges)
    if training.has_folds(run):
        found = training.predict_folds(training.open_folds(run), new)
    else:
        found = training.predict(training.Run.open(run), new)
    for note in getattr(found, "notes", ()):
        notes_console().print(f"Note: {note}", style="yellow", soft_wrap=True)
    if os.environ.get("RANK", "0") != "0":  # of ranks that torchrun started, the first one writes
        return
    table = found.to_csv()
    if out is None:
        typer.echo(table, nl=False)
    else:
        write_atomic(out, table.encode())
        typer.echo(f"{out}: {table.count(chr(10)) - 1} {found.what}", err=True)


def report(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write.", show_default="report.html in the run folder")
    ] = None,
    responses: Annotated[
        bool | None,
        typer.Option(
            "--responses/--no-responses",
            help="Show what every stack does to the spectrum (Eq. 20), which takes all eigenvectors of the graph.",
            show_default="of graphs with at most 4000 nodes",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
) -> None:
    """Write a report of a finished run: one HTML file to look at, to print, to mail.

    It has the data, learning curves, confusions or residuals, calibration, what the run is least sure of, what the
    graph brings over two simpler methods, what every stack does to the spectrum, and the command that makes the run
    again. It opens without a network.
    """
    from armagnn.explore.report_page import run_report
    from armagnn.training.run_folder import Run

    opened = Run.open(run)
    opened.require_complete()
    out = run / "report.html" if out is None else out
    check_writable(out)
    page = run_report(opened, responses=responses).encode()
    write_atomic(out, page)
    notes_console().print(f"{out}: {len(page) / 1e3:.0f} kB. Open it in a browser, or mail it.", soft_wrap=True)
    if browser:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
