"""Share ranges of rows out over threads.

numba's own thread pools abort in forked data-loader workers and ignore ``torch.set_num_threads``; compiled code that
releases the interpreter lock needs no more than a few ordinary Python threads. Every row is computed by one thread
in a fixed order, so the number of threads never changes a bit of the result.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import torch

CHUNKS_PER_THREAD = 4
"""More chunks than threads: after a torch operation its idle threads spin for a while and hold a core back."""

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def _forget_pool() -> None:
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):  # the threads of a pool do not survive a fork
    os.register_at_fork(after_in_child=_forget_pool)


def _get_pool(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < size:
        _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="armagnn"), size
    return _pool


def num_chunks(work: int, minimum: int) -> int:
    """Return into how many chunks ``work`` units are cut, each of at least about ``minimum`` units."""
    threads = torch.get_num_threads()
    return 1 if threads == 1 or work < 2 * minimum else min(threads * CHUNKS_PER_THREAD, work // minimum)


def run(function: Callable[[int, int], None], bounds: list[int]) -> None:
    """Call ``function(lo, hi)`` for every pair of neighbours in ``bounds``, on torch's number of threads."""
    chunks = deque((lo, hi) for lo, hi in pairwise(bounds) if lo < hi)

    def drain() -> None:
        while True:
            try:
                lo, hi = chunks.popleft()
            except IndexError:
                return
            function(lo, hi)

    helpers = min(torch.get_num_threads(), len(chunks)) - 1
    futures = [_get_pool(helpers).submit(drain) for _ in range(helpers)]
    drain()
    for future in futures:
        future.result()
