"""Where tables are printed to: what is no terminal has no width, so nothing is cut or wrapped there."""

from __future__ import annotations

from typing import Final

from rich.console import Console

PLAIN_WIDTH: Final = 200


def table_console() -> Console:
    """The console for a table that may be wide.

    Example:
        >>> table_console().width >= 80
        True
    """
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)
