"""Products of many trials on the GPU, whose sums may be long and whose results small: gradients of weights, above all.

A batched product of cuBLAS gives each tile of a result one block of the GPU, however long its sum is. Here long sums
are shared out, and their parts are added in a fixed order.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from armagnn.kernels.gpu_dense import precision

TILE: Final = 64
"""Rows and columns of a result that a program finds, at most."""

SUMMED: Final = 32
"""Products of a sum that a program adds up at a time."""

SHORTEST: Final = 4
"""The fewest times that it does so: a shorter part is not worth being written and read."""

PROGRAMS: Final = 512
"""Programs that keep a GPU busy."""


@triton.jit
def _parts_kernel(
    a, b, parts, rows, columns, length, across, times,
    a_trial, a_row, a_sum, b_trial, b_sum, b_column,
    PRECISION: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_J: tl.constexpr,
):  # fmt: skip
    trial, tile = tl.program_id(1).to(tl.int64), tl.program_id(2)
    i = (tile // across).to(tl.int64) * BLOCK_I + tl.arange(0, BLOCK_I)
    j = (tile % across).to(tl.int64) * BLOCK_J + tl.arange(0, BLOCK_J)
    first = tl.program_id(0).to(tl.int64) * times * BLOCK_M
    left_at, right_at = a + trial * a_trial + i[None, :] * a_row, b + trial * b_trial + j[None, :] * b_column
    total = tl.zeros((BLOCK_I, BLOCK_J), dtype=tl.float32)
    for time in range(times):
        m = first + time * BLOCK_M + tl.arange(0, BLOCK_M)
        left = tl.load(left_at + m[:, None] * a_sum, mask=(m < length)[:, None] & (i < rows)[None, :], other=0.0)
        right = tl.load(right_at + m[:, None] * b_sum, mask=(m < length)[:, None] & (j < columns)[None, :], other=0.0)
        total += tl.dot(tl.trans(left), right, input_precision=PRECISION)
    place = (tl.program_id(0) * tl.num_programs(1) + trial) * rows * columns
    inside = (i < rows)[:, None] & (j < columns)[None, :]
    tl.store(parts + place + i[:, None] * columns + j[None, :], total, mask=inside)


def trial_products(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a[r] @ b[r]`` for every trial r, shape (R, I, J), of a (R, I, M) and b (R, M, J).

    The factors may lie in memory in any order. Where the rows of the trials stand side by side in ``a``, as the
    features of a node do, they do so in a result whose sums are short, and no layer behind has to bring them there.
    """
    (trials, rows, length), columns = a.shape, b.shape[2]
    block_i, block_j = (min(TILE, max(16, triton.next_power_of_2(size))) for size in (rows, columns))
    down, across = triton.cdiv(rows, block_i), triton.cdiv(columns, block_j)
    blocks, programs = triton.cdiv(length, SUMMED), trials * down * across
    times = max(SHORTEST, triton.cdiv(blocks, max(1, PROGRAMS // max(1, programs))))
    chunks = triton.cdiv(blocks, times)
    known = a.dtype == b.dtype and a.dtype in (torch.float32, torch.bfloat16) and b.shape[:2] == (trials, length)
    if chunks < 2 or not known or not programs:
        if trials > 1 and a.stride(0) < a.stride(1):
            # no view: what follows may work in place
            return torch.bmm(a, b, out=a.new_empty_strided(a.shape[:2] + b.shape[2:], (columns, trials * columns, 1)))
        return torch.bmm(a, b)
    parts = torch.empty(chunks, trials, rows, columns, dtype=torch.float32, device=a.device)
    _parts_kernel[(chunks, trials, down * across)](
        a, b, parts, rows, columns, length, across, times, *a.stride(), *b.stride(),
        PRECISION=precision(a), BLOCK_I=block_i, BLOCK_M=SUMMED, BLOCK_J=block_j, num_warps=4,
    )  # fmt: skip
    return parts.sum(0).to(a.dtype)


def outer(x: Tensor, g: Tensor) -> Tensor:
    """Return ``x[:, r]^T g[:, r]`` for every trial r, shape (R, F, C), of x (M, R, F) and g (M, R, C)."""
    return trial_products(x.permute(1, 2, 0), g.transpose(0, 1))
