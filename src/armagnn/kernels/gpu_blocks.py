"""Products with a dense block-diagonal matrix on the GPU, in one launch, whatever the sizes of the blocks are."""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from armagnn.kernels.blocks import DenseBlocks
from armagnn.kernels.gpu_dense import precision

TILE: Final = 64
"""Rows and columns of a result that a program finds, at most."""

SUMMED: Final = 32
"""Products of a sum that a program adds up at a time, at most."""


@triton.jit
def _blocks_kernel(
    store, first, ptr, x, out, count, columns,
    TRANSPOSED: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr, LANES: tl.constexpr,
    BLOCK_I: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_J: tl.constexpr,
):  # fmt: skip
    # Every program finds out anew which tile of which block is its own: sizes are known on the device only.
    lanes, tile = tl.arange(0, LANES), tl.program_id(0)
    there = lanes < count
    begins = tl.load(ptr + lanes, mask=there, other=0)
    sizes = tl.load(ptr + lanes + 1, mask=there, other=0) - begins
    tiles = (sizes + BLOCK_I - 1) // BLOCK_I
    ends = tl.cumsum(tiles, 0)
    owner = tl.sum((there & (ends <= tile)).to(tl.int32), 0)
    if owner < count:
        mine = lanes == owner
        size, begin = tl.sum(tl.where(mine, sizes, 0), 0), tl.sum(tl.where(mine, begins, 0), 0)
        at = tl.load(first + owner)
        i = (tile - tl.sum(tl.where(mine, ends - tiles, 0), 0)) * BLOCK_I + tl.arange(0, BLOCK_I)
        j = tl.program_id(1).to(tl.int64) * BLOCK_J + tl.arange(0, BLOCK_J)
        total = tl.zeros((BLOCK_I, BLOCK_J), dtype=tl.float64 if out.dtype.element_ty == tl.float64 else tl.float32)
        for start in range(0, tl.where(at >= 0, size, 0), BLOCK_M):  # a block without numbers is one of zeros
            m = start + tl.arange(0, BLOCK_M)
            place = m[None, :] * size + i[:, None] if TRANSPOSED else i[:, None] * size + m[None, :]
            inside = (i < size)[:, None] & (m < size)[None, :]
            left = tl.load(store + at + place, mask=inside, other=0.0)
            given = (m < size)[:, None] & (j < columns)[None, :]
            right = tl.load(x + (begin + m)[:, None] * columns + j[None, :], mask=given, other=0.0)
            if DOT:
                total += tl.dot(left, right, input_precision=PRECISION)
            else:
                total += tl.sum(left[:, :, None] * right[None, :, :], axis=1)
        kept = (i < size)[:, None] & (j < columns)[None, :]
        tl.store(out + (begin + i)[:, None] * columns + j[None, :], total.to(out.dtype.element_ty), mask=kept)


def block_product(blocks: DenseBlocks, x: Tensor, transposed: bool) -> Tensor:
    """Return what `armagnn.kernels.blocks.block_product` promises; nothing waits for the device."""
    (rows, columns), count = x.shape, blocks.first.shape[0]
    x, out = x.contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    if not rows * columns * count:
        return out.zero_()
    double = x.dtype == torch.float64  # tensor cores have products of these too, but not of every shape
    most, least = (16, 16) if double else (TILE, 16)
    block_i, block_j = (min(most, max(least, triton.next_power_of_2(n))) for n in (blocks.longest, columns))
    block_m = min(most if double else SUMMED, max(least, triton.next_power_of_2(blocks.longest)))
    _blocks_kernel[(triton.cdiv(rows, block_i) + count, triton.cdiv(columns, block_j))](
        blocks.store, blocks.first.contiguous(), blocks.ptr.contiguous(), x, out, count, columns,
        TRANSPOSED=transposed, DOT=not double, PRECISION=precision(x), LANES=triton.next_power_of_2(count),
        BLOCK_I=block_i, BLOCK_M=block_m, BLOCK_J=block_j, num_warps=4,
    )  # fmt: skip
    return out
