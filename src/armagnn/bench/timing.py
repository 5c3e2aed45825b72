"""Timing two things fairly: interleaved, after a warm-up, by their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def medians(functions: dict[str, Callable[[], object]], repeats: int, warmup: int = 2) -> dict[str, float]:
    """Return the median time of each function in milliseconds.

    The functions take turns, so that what the machine does besides (a slow minute, another process) meets all of them.

    Example:
        >>> sorted(medians({"one": lambda: None, "two": lambda: None}, repeats=3))
        ['one', 'two']
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(warmup + repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            elapsed = time.perf_counter() - start
            if turn >= warmup:
                times[name].append(elapsed * 1e3)
    return {name: statistics.median(values) for name, values in times.items()}
