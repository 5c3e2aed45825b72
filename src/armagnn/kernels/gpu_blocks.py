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
    store, first, ptr, owners, offsets, x, out, count, columns,
    TRANSPOSED: tl.constexpr, DOT: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_I: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_J: tl.constexpr,
):  # fmt: skip
    owner = tl.load(owners + tl.program_id(0))
    if owner < count:
        begin, at = tl.load(ptr + owner), tl.load(first + owner)
        size = tl.load(ptr + owner + 1) - begin
        i = tl.load(offsets + tl.program_id(0)) + tl.arange(0, BLOCK_I)
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


def _tiles(blocks: DenseBlocks, rows: int, height: int) -> tuple[Tensor, Tensor]:
    """Return which block each tile of so many rows is in, and its first row there; as many tiles as there may be."""
    known: tuple[Tensor, Tensor] | None = blocks.known.get((rows, height))
    if known is None:
        tiles = (blocks.ptr.diff() + height - 1) // height
        ends, count = tiles.cumsum(0), len(tiles)
        number = torch.arange(triton.cdiv(rows, height) + count, device=ends.device)
        owners = torch.searchsorted(ends, number, right=True)  # B for those that are too many
        offsets = (number - (ends - tiles).index_select(0, owners.clamp(max=count - 1))) * height
        known = blocks.known[rows, height] = owners, offsets
    return known


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
    owners, offsets = _tiles(blocks, rows, block_i)
    _blocks_kernel[(len(owners), triton.cdiv(columns, block_j))](
        blocks.store, blocks.first.contiguous(), blocks.ptr.contiguous(), owners, offsets, x, out, count, columns,
        TRANSPOSED=transposed, DOT=not double, PRECISION=precision(x),
        BLOCK_I=block_i, BLOCK_M=block_m, BLOCK_J=block_j, num_warps=4,
    )  # fmt: skip
    return out
