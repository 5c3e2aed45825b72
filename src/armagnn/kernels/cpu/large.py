"""Products ``A x`` whose x is larger than a core's caches, so that rows of x come from far away.

Two things keep the memory busy. While a row of x is added, the rows of later nonzeros are fetched already, into the
second-level cache: a core waits for many more lines there than in its first-level cache. And the result, which is
written for the first time, lies in huge pages: the system then clears 2 MiB at a time, not 4 KiB.

The sums are those of `sparse`, in the same order: the same bits.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import Array, compiled
from armagnn.kernels.cpu.gather import WIDEST, blocks, gather
from armagnn.kernels.cpu.threads import Chunk, begin

LARGE: Final = 6 << 20
"""Bytes of an x that is fetched ahead. To fetch a smaller one ahead costs as much as it brings."""

NEAR: Final = 40
"""Nonzeros from the one that is added to the one whose row of x is fetched."""

SHORT: Final = 128
"""Bytes of a row of x up to which it is the `NEAREST`."""

NEAREST: Final = 32
"""With more short rows under way, a core fetches fewer lines at a time."""

HUGE: Final = 4 << 20
"""Bytes of a result that is worth a huge page."""


@compiled()
def _large_rows(
    chunk: Chunk, rowptr: Array, col: Array, value: Array, x: Array, skip: Array, bias: Array, has_skip: bool,
    relu: bool, slope: Any, starts: Array, widths: Array, out: Array, ahead: int,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    for block in range(starts.size):
        c, width = starts[block], widths[block]
        for i in range(lo, hi):
            k = i if has_skip else 0
            start, end = np.int64(rowptr[i]), np.int64(rowptr[i + 1])
            gather(out, i, c, width, skip, k, bias, x, col, value, start, end, relu, slope, ahead)


def is_large(x: Tensor) -> bool:
    """Return whether rows of x are worth fetching ahead."""
    return x.nbytes >= LARGE


def product(arguments: tuple[Any, ...], bounds: list[int]) -> None:
    """Do what `sparse` does with these arguments of its kernel, for an x that is large."""
    *matrix, _starts, _widths, out = arguments
    x = matrix[3]
    ahead = NEAR if x.shape[1] * x.itemsize > SHORT else NEAREST
    # No block stays in a cache, so blocks are wide: fewer passes over the nonzeros.
    threads.run(_large_rows, (*matrix, *_blocks(x.shape[1]), out, ahead), bounds)


@functools.lru_cache
def _blocks(width: int) -> tuple[Array, Array]:
    starts, widths = blocks(width, 2 * WIDEST)
    return np.array(starts, dtype=np.int64), np.array(widths, dtype=np.int64)


# --------------------------------------------------------------------------------------------------------------- pages


def empty(*shape: int, dtype: torch.dtype) -> Tensor:
    """Return a tensor without values, in huge pages if it is large and the system has them.

    Example:
        >>> empty(2, 3, dtype=torch.float32).shape
        torch.Size([2, 3])
    """
    made = torch.empty(*shape, dtype=dtype)
    size = made.nbytes
    if size >= HUGE and (advise := _advise()) is not None:
        first = made.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
        advise(first, made.data_ptr() + size - first, mmap.MADV_HUGEPAGE)  # it is advice: whatever it says is fine
    return made


@functools.cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return the C library's ``madvise``, or None where there are no huge pages to ask for."""
    if sys.platform != "linux" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    return function
