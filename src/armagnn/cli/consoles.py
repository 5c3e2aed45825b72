"""Where the commands print to. No text is taken for markup, and no character that a stream cannot show ends a command.

Names of datasets, methods and files are the user's: ``[/x]`` in one of them is text, as ``:cat:`` is.
"""

from __future__ import annotations

import codecs
import sys
from typing import Any, Final

from rich.console import Console
from rich.table import Table

PLAIN: Final[dict[str, Any]] = {"markup": False, "emoji": False, "highlight": False}
PLAIN_WIDTH: Final = 200

IN_ASCII: Final = {
    "±": "+-", "×": "x", "·": "*", "‖": "||", "₂": "2", "²": "^2", "≤": "<=", "≥": ">=", "−": "-", "–": "-", "—": "-",
    "→": "->", "…": "...", "•": "*", "‘": "'", "’": "'", "“": '"', "”": '"', "λ": "lambda", "μ": "mu", "γ": "gamma",
    "σ": "sigma", "ε": "epsilon", "θ": "theta", "α": "alpha", "β": "beta", "τ": "tau", "Δ": "Delta",
}  # fmt: skip


def output_console() -> Console:
    """The console of results."""
    return Console(**PLAIN)


def notes_console() -> Console:
    """The console of notes and progress: standard error."""
    return Console(stderr=True, **PLAIN)


def table_console() -> Console:
    """The console for a table that may be wide: what is no terminal has no width, so nothing is cut or wrapped there.

    Example:
        >>> table_console().width >= 80
        True
    """
    console = output_console()
    return console if console.is_terminal else Console(width=PLAIN_WIDTH, **PLAIN)


def whole_table(*columns: str, names: int = 1, **options: Any) -> Table:
    """A table that cuts nothing off, however narrow the terminal is: the first columns, which are `names`, stay on one
    line where they can, and what is too long for its column goes on in the next line.

    Example:
        >>> [column.no_wrap for column in whole_table("dataset", "method", "file", names=2).columns]
        [True, True, False]
    """
    table = Table(**options)
    for place, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=place < names)
    return table


def write_what_can_be_written() -> None:
    """Let the standard streams write in ASCII what their encoding does not have, or a question mark.

    UTF-8 has no bytes for the names of files that are not text; of ASCII, as a job of cron has it, a ± is too much.
    """
    codecs.register_error("armagnn", _in_ascii)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # what stands in for a stream need not have it
        if reconfigure is not None:
            reconfigure(errors="armagnn")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(IN_ASCII.get(character, "?") for character in text), error.end
