"""The dropout masks of some of the stacks: those columns of the masks that one process would draw for all stacks.

A layer numbers the entries of X V, shape (N * batch, K * F_out), row by row, and an entry's number decides whether it
is dropped (`armagnn.kernels.random`). A rank that holds a few of the stacks draws the numbers of these stacks only.
"""

from __future__ import annotations

import importlib.util
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.random import DROPOUT, MASK, philox, threshold

HAS_NUMBA: Final = importlib.util.find_spec("numba") is not None
if HAS_NUMBA:
    from armagnn.kernels.cpu.compile import Array, compiled
    from armagnn.kernels.cpu.masks import philox as cpu_philox

CHUNK = 1 << 16
"""Numbers drawn at a time, so that what they are computed with stays in a cache."""


def keep_columns(
    seed: Tensor, p: float, step: int, shape: tuple[int, int], columns: slice, first_row: int = 0
) -> Tensor:
    """Return ``keep_mask(seed, p, step, shape)[:, columns]`` without the other columns.

    Args:
        seed: of the masks, shape (1,).
        p: the probability with which an entry is dropped.
        step: the step t of the recursion.
        shape: rows and columns of the whole mask.
        columns: those wanted, from a start to a stop.
        first_row: the number of the first row in a mask of more rows, of which these are some.

    Example:
        >>> import torch
        >>> from armagnn.kernels.random import keep_mask
        >>> seed = torch.tensor([7])
        >>> some, all_columns = keep_columns(seed, 0.5, 0, (3, 8), slice(2, 6)), keep_mask(seed, 0.5, 0, (3, 8))
        >>> torch.equal(some, all_columns[:, 2:6])
        True
    """
    rows, width = shape
    before = first_row * width
    columns = slice(columns.start + before, columns.stop + before)  # numbers go on from row to row
    if seed.device.type != "cpu" or not HAS_NUMBA:
        return _keep_columns(seed, p, step, shape, columns)
    kept = torch.empty(rows, columns.stop - columns.start, dtype=torch.bool)
    key = int(seed.item())
    low, high = key & MASK, (key >> 32) & MASK
    _keep_rows(kept.numpy(), columns.start, width, low, high, step, DROPOUT, threshold(p))
    return kept


def _keep_columns(seed: Tensor, p: float, step: int, shape: tuple[int, int], columns: slice) -> Tensor:
    """Do the same in plain torch, on any device."""
    rows, width = shape
    count = columns.stop - columns.start
    device = seed.device
    key = (seed & MASK, (seed >> 32) & MASK)
    blocks = torch.arange((count + 6) // 4, device=device)  # a run may start at any of the four words of its first
    words = torch.arange(count, device=device)
    kept = torch.empty(rows, count, dtype=torch.bool, device=device)
    first = torch.arange(rows, device=device).unsqueeze(1) * width + columns.start
    for some, out in zip(*(t.split(max(1, CHUNK // count)) for t in (first, kept)), strict=True):
        block = (some >> 2) + blocks
        zero = torch.zeros_like(block)
        drawn = torch.stack(philox((block & MASK, block >> 32, zero + step, zero + DROPOUT), key), -1).flatten(1)
        torch.ge(drawn.gather(1, (some & 3) + words), threshold(p), out=out)
    return kept


if HAS_NUMBA:

    @compiled()
    def _keep_rows(
        kept: Array, start: int, width: int, key0: int, key1: int, step: int, purpose: int, limit: int
    ) -> None:
        """Write a mask row by row: the numbers of a row stay in a cache."""
        rows, count = kept.shape
        words = np.empty((count + 6) // 4 * 4, np.uint32)
        least = np.uint32(limit)
        for i in range(rows):
            first = start + i * width
            offset = first & 3
            cpu_philox(first >> 2, (offset + count + 3) // 4, key0, key1, step, purpose, words)
            own, out = words[offset : offset + count], kept[i]
            for j in range(count):
                out[j] = own[j] >= least
