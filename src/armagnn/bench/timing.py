"""Timing two things fairly: in turns, after a warm-up, by their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def medians(functions: dict[str, Callable[[], object]], rounds: int, burst: int = 4) -> dict[str, float]:
    """Return the median time of each function in milliseconds.

    The functions take turns, so that what the machine does besides (a slow minute, another process) meets all of them.
    A turn is a burst of runs whose first does not count: it pays for the caches that the other function left behind.

    Example:
        >>> sorted(medians({"one": lambda: None, "two": lambda: None}, rounds=3))
        ['one', 'two']
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 1):  # the first round compiles and warms up
        for name, function in functions.items():
            for run in range(burst):
                start = time.perf_counter()
                function()
                elapsed = time.perf_counter() - start
                if turn and run:
                    times[name].append(elapsed * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}
