"""The dropout masks of some of the stacks: those columns of the masks that one process would draw for all stacks.

A layer numbers the entries of X V, shape (N * batch, K * F_out), row by row, and an entry's number decides whether it
is dropped (`armagnn.randomness`). A rank that holds a few of the stacks draws the numbers of these stacks only.
"""

from __future__ import annotations

import importlib.util
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.randomness import DROPOUT, MASK, philox, threshold

HAS_NUMBA: Final = importlib.util.find_spec("numba") is not None
if HAS_NUMBA:
    from armagnn.kernels.cpu import threads
    from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, accumulator, compiled
    from armagnn.kernels.cpu.masks import philox as cpu_philox
    from armagnn.kernels.cpu.threads import Chunk, begin

CHUNK = 1 << 16
"""Numbers drawn at a time, so that what they are computed with stays in a cache."""

PIECE: Final = 1024
"""Entries that a compiled kernel drops at a time."""


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
        >>> from armagnn.randomness import keep_mask
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


def drop_run(x: Tensor, seed: Tensor, p: float, step: int, first: int, target: Tensor | None = None) -> Tensor:
    """Return x with each entry zeroed with probability p, where x is a run of the entries of a larger tensor.

    Args:
        x: of any shape, contiguous.
        seed: of the masks, shape (1,).
        p: the probability with which an entry is dropped.
        step: the step t of the recursion.
        first: the number of the first entry of x in the larger tensor.
        target: where the result may be written; it may be x itself.

    Example:
        >>> import torch
        >>> from armagnn.kernels import dropout
        >>> x, seed = torch.ones(5, 4), torch.tensor([7])
        >>> torch.equal(drop_run(x[2:], seed, 0.5, 0, 8), dropout(x, seed, 0.5, 0)[2:])
        True
    """
    if not x.numel():
        return x
    if x.device.type != "cpu" or not HAS_NUMBA:
        keep = _keep_columns(seed, p, step, (1, first + x.numel()), slice(first, first + x.numel())).view(x.shape)
        out = torch.where(keep, x * (1.0 / (1.0 - p)), x.new_zeros(()))
        return out if target is None else target.copy_(out)
    work = accumulator(x.dtype)
    fits = target is not None and target.dtype == work
    numbers = x.to(work).contiguous()
    out = target if target is not None and fits else torch.empty_like(numbers)
    given, taken = numbers.view(-1).numpy(), out.view(-1).numpy()
    key = int(seed.item())
    pieces = -(-given.size // PIECE)
    chunks = min(pieces, threads.num_chunks(given.size, MIN_PRODUCTS // 4))
    fixed = (first, key & MASK, (key >> 32) & MASK, step, DROPOUT, threshold(p), given.dtype.type(1.0 / (1.0 - p)))
    threads.run(_drop_run, (given, taken, *fixed), [pieces * k // chunks for k in range(chunks + 1)])
    return out if fits or (target is None and x.dtype == work) else out.to(x.dtype)


if HAS_NUMBA:

    @compiled()
    def _drop_run(
        chunk: Chunk, x: Array, out: Array, number: int, key0: int, key1: int, step: int, purpose: int, limit: int,
        scale: Any,
    ) -> None:  # fmt: skip
        """Draw the numbers of a piece of entries, and drop those entries, while the numbers are in a cache."""
        lo, hi = begin(chunk)
        words = np.empty(PIECE + 8, np.uint32)
        least, zero = np.uint32(limit), x.dtype.type(0)
        for piece in range(lo, hi):
            start = piece * PIECE
            count = min(PIECE, x.size - start)
            offset = (number + start) & 3
            cpu_philox((number + start) >> 2, (offset + count + 3) // 4, key0, key1, step, purpose, words)
            own, given, taken = words[offset : offset + count], x[start : start + count], out[start : start + count]
            for j in range(count):
                taken[j] = given[j] * scale if own[j] >= least else zero

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
