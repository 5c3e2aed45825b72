"""One step of Lanczos' recursion on the processor, with all directions and answers that follow from it, in one pass.

Sums over rows are made block by block, `BLOCK` rows each, whatever the number of threads: the same bits every time.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import Array, compiled, to_numpy
from armagnn.kernels.cpu.threads import Chunk, begin

BLOCK: Final = 1024
"""Rows whose products are added up before they are added to those of the other blocks."""

MIN_NUMBERS: Final = 1 << 16
"""Numbers of a vector for which a second thread pays."""


@compiled()
def _dot_rows(chunk: Chunk, x: Array, y: Array, sums: Array) -> None:
    lo, hi = begin(chunk)
    for block in range(lo, hi):
        total = sums[block]
        for i in range(block * BLOCK, min((block + 1) * BLOCK, x.shape[0])):
            a, b = x[i], y[i]
            for c in range(a.size):
                total[c] += np.float64(a[c]) * np.float64(b[c])


@compiled()
def _step_rows(
    chunk: Chunk, u: Array, v: Array, before: Array, factors: Array, running: Array, real: Array, along: Array,
    step: Array, d: Array, z: Array, sums: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    for block in range(lo, hi):
        total = sums[block]
        for i in range(block * BLOCK, min((block + 1) * BLOCK, u.shape[0])):
            new, old, older = u[i], v[i], before[i]
            for n in range(running.size):
                k = running[n]
                low, s = along[k], step[k]
                dr, zr = d[k, 0, i], z[k, 0, i]
                if real[k]:
                    for c in range(old.size):
                        dr[c] = factors[3, c] * old[c] + low[0, c] * dr[c]
                        zr[c] += s[0, c] * dr[c]
                else:
                    di, zi = d[k, 1, i], z[k, 1, i]
                    for c in range(old.size):
                        re = factors[3, c] * old[c] + low[0, c] * dr[c] - low[1, c] * di[c]
                        im = low[0, c] * di[c] + low[1, c] * dr[c]
                        zr[c] += s[0, c] * re - s[1, c] * im
                        zi[c] += s[0, c] * im + s[1, c] * re
                        dr[c] = re
                        di[c] = im
            for c in range(old.size):
                new[c] = factors[0, c] * new[c] + factors[1, c] * old[c] + factors[2, c] * older[c]
                total[c] += np.float64(new[c]) * np.float64(new[c])


def _bounds(x: Tensor, vectors: int) -> tuple[list[int], int]:
    """Return where the blocks are cut for threads, and their number."""
    blocks = -(-x.shape[0] // BLOCK)
    chunks = max(1, min(blocks, threads.num_chunks(vectors * x.numel(), MIN_NUMBERS)))
    return [blocks * k // chunks for k in range(chunks + 1)], blocks


def column_dots(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of the columns of two matrices (N, C), shape (C), float64."""
    bounds, blocks = _bounds(x, 2)
    sums = np.zeros((blocks, x.shape[1]))
    threads.run(_dot_rows, (to_numpy(x), to_numpy(y), sums), bounds)
    return torch.from_numpy(sums.sum(0))


def lanczos_step(
    u: Tensor, v: Tensor, before: Tensor, factors: Tensor, running: list[int], real: list[bool], along: Tensor,
    step: Tensor, d: Tensor, z: Tensor,
) -> Tensor:  # fmt: skip
    """Take a step in place; see `armagnn.kernels.lanczos`."""
    bounds, blocks = _bounds(u, 4 + 4 * len(running))
    sums = np.zeros((blocks, u.shape[1]))
    small: Any = (to_numpy(t.to(u.dtype)) for t in (factors, along, step))
    factor, lower, length = small
    arguments = (
        u.numpy(), v.numpy(), before.numpy(), factor, np.array(running, dtype=np.int64), np.array(real), lower, length,
        d.numpy(), z.numpy(), sums,
    )  # fmt: skip
    threads.run(_step_rows, arguments, bounds)
    return torch.from_numpy(sums.sum(0))
