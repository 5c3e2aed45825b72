"""Columns of a mask on the processor, in numba: one row of numbers at a time, which stays in a cache."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.compiled import compiled
from armagnn.kernels.cpu_arrays import Array
from armagnn.kernels.cpu_dropout import philox
from armagnn.kernels.random import DROPOUT, MASK, threshold


@compiled()
def _keep_rows(
    kept: Array, start: int, width: int, key0: int, key1: int, step: int, purpose: int, limit: int
) -> None:  # fmt: skip
    rows, count = kept.shape
    words = np.empty((count + 6) // 4 * 4, np.uint32)
    least = np.uint32(limit)
    for i in range(rows):
        first = start + i * width
        offset = first & 3
        philox(first >> 2, (offset + count + 3) // 4, key0, key1, step, purpose, words)
        own, out = words[offset : offset + count], kept[i]
        for j in range(count):
            out[j] = own[j] >= least


def keep_columns(seed: Tensor, p: float, step: int, shape: tuple[int, int], columns: slice) -> Tensor:
    """Return ``keep_mask(seed, p, step, shape)[:, columns]``, as `masks.keep_columns`."""
    rows, width = shape
    kept = torch.empty(rows, columns.stop - columns.start, dtype=torch.bool)
    key = int(seed.item())
    _keep_rows(
        kept.numpy(), columns.start, width, key & MASK, (key >> 32) & MASK, step, DROPOUT, threshold(p)
    )  # fmt: skip
    return kept
