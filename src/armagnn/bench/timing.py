"""Timing two things fairly: in turns, after a warm-up, by their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final

from armagnn.checks import integer

MOST_ROUNDS: Final = 10_000
"""Of a comparison; more would take days."""

MOST_SIZE: Final = 2**28
"""Of a graph, a batch, a training."""

BURST = 0.2
"""Seconds that a burst lasts at least, if a run is short."""


def check_sizes(**sizes: Any) -> None:
    """Refuse what is no number of rounds, nodes, epochs, ...: before minutes of work, and by name."""
    for name, size in sizes.items():
        integer(name, size, 1, MOST_ROUNDS if name in ("rounds", "runs") else MOST_SIZE)


def medians(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median time of each function in milliseconds.

    The functions take turns, so that what the machine does besides (a slow minute, another process) meets all of them.
    A turn is a burst of at least four runs, more of a short function, whose first quarter does not count: it pays for
    the caches that the other function left behind.

    Example:
        >>> sorted(medians({"one": lambda: None, "two": lambda: None}, rounds=1))
        ['one', 'two']
    """
    check_sizes(rounds=rounds)
    times: dict[str, list[float]] = {name: [] for name in functions}
    runs = {name: _runs(function) for name, function in functions.items()}
    for _ in range(rounds):
        for name, function in functions.items():
            burst = [_milliseconds(function) for _ in range(runs[name])]
            times[name] += burst[len(burst) // 4 :]
    return {name: statistics.median(values) for name, values in times.items()}


def _milliseconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3


def _runs(function: Callable[[], object]) -> int:
    """Return how many runs make a burst; the first calls also compile and load what is needed once."""
    _milliseconds(function)
    return min(100, max(4, round(BURST * 1e3 / max(_milliseconds(function), 1e-3))))
