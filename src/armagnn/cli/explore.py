"""``armagnn explore``: responses to move in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from armagnn.cli.app import notes_console, output_console
from armagnn.errors import ParameterError
from armagnn.files import check_writable, write_atomic


def explore(
    run: Annotated[
        Path | None, typer.Argument(help="The folder of a finished run, whose layers are shown too.", metavar="[RUN]")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write the explorer to this file, which opens by a double click, and leave."),
    ] = None,
    a: Annotated[
        str | None, typer.Option("-a", help='Coefficients of a filter to start with: "0.9, 0.5+0.2j".')
    ] = None,
    b: Annotated[str | None, typer.Option("-b", help="Its coefficients b.")] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Move the poles of a filter and see its response, in the browser; look at the layers of a trained run.

    The page is served on this machine only, at an address with a token, until Ctrl-C. With --html it is one file that
    needs neither a server nor a network.
    """
    from armagnn.explore.explorer_page import explorer_page
    from armagnn.explore.serve import serve

    check_writable(html)
    filter = _filter(a, b)
    if run is None:
        page = explorer_page(filter)
    else:
        from armagnn.training import Run

        page = explorer_page(filter, run=Run.open(run))
    if html is not None:
        write_atomic(html, page.encode())
        notes_console().print(f"{html}: {len(page.encode()) / 1e3:.0f} kB. Open it in a browser.", soft_wrap=True)
        return
    serve(page, lambda url: _show(url, browser))


def _show(url: str, browser: bool) -> None:
    console = output_console()
    console.print(f"The explorer is at {url}\nCtrl-C ends it.", soft_wrap=True)
    if browser:
        import webbrowser

        webbrowser.open(url)


def _filter(a: str | None, b: str | None) -> Any:
    if a is None and b is None:
        return None
    if a is None or b is None:
        raise ParameterError("a filter has both: give -a and -b, as many numbers each.")
    from armagnn.filters import ARMAFilter

    return ARMAFilter(_numbers("a", a), _numbers("b", b))


def _numbers(name: str, text: str) -> list[complex]:
    try:
        return [complex(part.strip().replace(" ", "")) for part in text.split(",")]
    except ValueError as error:
        raise ParameterError(f'-{name} {text!r}: give numbers with commas between them, as "0.9, 0.5+0.2j".') from error
