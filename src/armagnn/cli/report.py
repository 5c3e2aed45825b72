"""``armagnn report``: what a run gave, as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from armagnn.cli.consoles import notes_console
from armagnn.files import check_writable, write_atomic


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
