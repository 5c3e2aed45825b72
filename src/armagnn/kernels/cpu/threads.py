"""Share ranges of rows out over torch's number of threads.

Every row is computed by one thread in a fixed order, so the number of threads never changes a bit of the result.

numba's OpenMP team does the work where there is one. It must not be used after a fork (numba ends the process), and
some machines have none: there a few ordinary Python threads do, which compiled code that releases the interpreter lock
can share as well. They are slower after a torch operation, whose idle workers spin for a while and hold a core back;
not so for work of many milliseconds, which `share_out` gives to them anyway.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch

from armagnn.kernels.cpu.compile import compiled

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_forked = False
_team: bool | None = None


def _after_fork() -> None:
    global _pool, _pool_size, _forked
    _pool, _pool_size, _forked = None, 0, True  # the threads of a pool do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _has_team() -> bool:
    """Return whether numba's OpenMP layer can be used here; found out once, at the first large product."""
    global _team
    if _team is None:
        try:
            if numba.config.THREADING_LAYER == "default":  # a layer that the user chose stays
                numba.config.THREADING_LAYER = "omp"
            _start_team(np.zeros(2))
            _team = numba.threading_layer() == "omp"
        except (ValueError, ImportError):  # no such layer in this installation
            _team = False
    return _team and not _forked


@compiled(parallel=True)
def _start_team(x: Any) -> None:
    for i in numba.prange(x.size):
        x[i] = i


def _get_pool(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < size:
        _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="armagnn"), size
    return _pool


def num_chunks(work: int, minimum: int) -> int:
    """Return into how many chunks ``work`` units are cut: one a thread, each of at least ``minimum`` units."""
    return max(1, min(torch.get_num_threads(), work // minimum))


def row_bounds(rowptr: npt.NDArray[Any], width: int, minimum: int = 1 << 18) -> list[int]:
    """Cut the rows of a matrix where the work, one unit a nonzero and one a row, is shared out evenly.

    Each unit is work on ``width`` numbers, and a chunk has ``minimum`` of them at least.

    Example:
        >>> row_bounds(np.array([0, 2, 4, 5]), 10)
        [0, 3]
    """
    rows, nonzeros = rowptr.size - 1, int(rowptr[-1])
    chunks = num_chunks((nonzeros + 2 * rows) * width, minimum)  # a row is begun and written besides
    if chunks == 1:
        return [0, rows]
    total = nonzeros + rows
    cuts, low = [0], 0
    for target in range(1, chunks):
        goal, high = total * target // chunks, rows
        while low < high:  # the first row whose work ends at or behind the goal
            middle = (low + high) // 2
            if int(rowptr[middle]) + middle < goal:
                low = middle + 1
            else:
                high = middle
        cuts.append(low)
    return [*cuts, rows]


def run(rows: Callable[..., None], team: Callable[..., None], arguments: tuple[Any, ...], bounds: list[int]) -> None:
    """Call ``rows(*arguments, lo, hi)`` for every pair of neighbours in ``bounds``, side by side.

    ``team(bounds, *arguments)`` does the same as one parallel loop.
    """
    if len(bounds) <= 2:
        rows(*arguments, bounds[0], bounds[-1])
    elif _has_team():
        before = numba.get_num_threads()  # the caller's own numba code keeps its setting
        numba.set_num_threads(min(len(bounds) - 1, numba.config.NUMBA_NUM_THREADS))
        try:
            team(np.array(bounds, dtype=np.int64), *arguments)
        finally:
            numba.set_num_threads(before)
    else:
        share_out(rows, arguments, bounds)


def share_out(rows: Callable[..., None], arguments: tuple[Any, ...], bounds: list[int]) -> None:
    """Call ``rows`` as `run` does, on ordinary threads: each takes the next range when it is done with one.

    A thread whose core somebody else uses takes fewer of them, and the others do not wait for it.
    """
    chunks = deque(pairwise(bounds))

    def drain() -> None:
        while True:
            try:
                lo, hi = chunks.popleft()
            except IndexError:
                return
            rows(*arguments, lo, hi)

    helpers = min(len(chunks), torch.get_num_threads()) - 1
    futures = [_get_pool(helpers).submit(drain) for _ in range(helpers)]
    drain()
    for future in futures:
        future.result()
