"""The progress of long work in a log: a line now and then. On a terminal a bar shows it, and there are no lines."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console

BETWEEN_LINES: Final = 60.0
"""Seconds from a line in a log to the next, at least."""


class LogLines:
    """Lines of a log, at least `BETWEEN_LINES` seconds apart, the first that long after the start.

    Example:
        >>> lines = LogLines(Console(stderr=True))
        >>> if lines.due():
        ...     lines.say("3 of 20 trials")
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self.start()

    def start(self) -> None:
        """Begin to measure time."""
        self._said = time.monotonic()

    def due(self) -> bool:
        """Is it time for a line?"""
        return not self._console.is_terminal and time.monotonic() - self._said >= BETWEEN_LINES

    def say(self, text: str) -> None:
        """Write a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
        self._said = time.monotonic()
