"""Blocks of a block-diagonal matrix, taken out of it on the GPU in one launch.

By torch's operations, one by one, it is about fifty, each of which does next to nothing: a good part of a training step
on a batch of small graphs.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from armagnn.kernels.slicing import Blocks, Structure, Taken

MOST_BLOCKS: Final = 256
"""Blocks that are taken at a time, at most: every program looks at all of them."""

PAIRS: Final = 4096
"""Rows (or nonzeros) of a program, times the blocks that they are compared with: what its registers hold."""


@triton.jit
def _at(table, owner, lanes):
    """Return ``table[owner]`` for tables that are in registers."""
    return tl.sum(tl.where(owner[:, None] == lanes[None, :], table[None, :], 0), axis=1)


@triton.jit
def _take_kernel(
    all_starts, ids, rowptr, col, value, t_rowptr, t_col, perm,
    starts, out_rowptr, out_col, out_value, t_out_rowptr, t_out_col, out_perm, origin, block,
    stride, count, rows, nonzeros, TRANSPOSED: tl.constexpr, LANES: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    # Every program finds out anew where the blocks start. The last one, behind those that are taken, is the padding.
    lanes = tl.arange(0, LANES)
    taken = lanes < count
    chosen = tl.load(ids + lanes, mask=taken, other=0)
    first_row = tl.load(all_starts + chosen, mask=taken, other=0)
    first_nonzero = tl.load(all_starts + stride + chosen, mask=taken, other=0)
    row_ends = tl.cumsum(tl.load(all_starts + chosen + 1, mask=taken, other=0) - first_row, 0)
    nonzero_ends = tl.cumsum(tl.load(all_starts + stride + chosen + 1, mask=taken, other=0) - first_nonzero, 0)
    all_rows, all_nonzeros = tl.max(row_ends, 0), tl.max(nonzero_ends, 0)
    rows_left, left = tl.maximum(rows - all_rows, 1), tl.maximum(nonzeros - all_nonzeros, 1)
    if tl.program_id(0) == 0:
        tl.store(starts, all_rows * 0)
        tl.store(starts + count + 2, all_rows * 0)
        tl.store(starts + 1 + lanes, row_ends, mask=taken)
        tl.store(starts + count + 3 + lanes, nonzero_ends, mask=taken)
        tl.store(starts + count + 1, all_rows * 0 + rows)
        tl.store(starts + 2 * count + 3, all_rows * 0 + nonzeros)
    # by how much the rows and the nonzeros of a block move; where its own end is, less how many it has
    row_shift = row_ends - tl.load(all_starts + chosen + 1, mask=taken, other=0)
    nonzero_shift = nonzero_ends - tl.load(all_starts + stride + chosen + 1, mask=taken, other=0)
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)

    inside = place < rows
    owner = tl.sum(((row_ends[None, :] <= place[:, None]) & taken[None, :]).to(tl.int32), axis=1)
    padding = owner == count
    source = tl.where(padding, 0, place - _at(row_shift, owner, lanes))
    along = _at(nonzero_shift, owner, lanes)
    tl.store(origin + place, source, mask=inside)
    tl.store(block + place, owner.to(tl.int64), mask=inside)
    # row i of m has the zeros floor(n i / m) ... of n; so zero j is in row floor((m (j + 1) - 1) / n)
    first_zero = all_nonzeros + left * (place - all_rows) // rows_left
    kind = out_rowptr.dtype.element_ty
    pointer = tl.load(rowptr + source, mask=inside, other=0).to(tl.int64) + along
    pointer = tl.where(place == rows, nonzeros, tl.where(padding, first_zero, pointer))
    tl.store(out_rowptr + place, pointer.to(kind), mask=place <= rows)
    if TRANSPOSED:
        pointer = tl.load(t_rowptr + source, mask=inside, other=0).to(tl.int64) + along
        pointer = tl.where(place == rows, nonzeros, tl.where(padding, first_zero, pointer))
        tl.store(t_out_rowptr + place, pointer.to(kind), mask=place <= rows)

    inside = place < nonzeros
    owner = tl.sum(((nonzero_ends[None, :] <= place[:, None]) & taken[None, :]).to(tl.int32), axis=1)
    padding = owner == count
    along = _at(nonzero_shift, owner, lanes)
    source = tl.where(padding, 0, place - along)
    down = _at(row_shift, owner, lanes)
    own_row = all_rows + (rows_left * (place - all_nonzeros + 1) - 1) // left
    there = inside & (padding == 0)  # a matrix may have no nonzeros at all
    column = tl.where(padding, own_row, tl.load(col + source, mask=there, other=0).to(tl.int64) + down)
    tl.store(out_col + place, column.to(kind), mask=inside)
    tl.store(out_value + place, tl.load(value + source, mask=there, other=0.0), mask=inside)
    if TRANSPOSED:
        column = tl.where(padding, own_row, tl.load(t_col + source, mask=there, other=0).to(tl.int64) + down)
        tl.store(t_out_col + place, column.to(kind), mask=inside)
        across = tl.where(padding, place, tl.load(perm + source, mask=there, other=0).to(tl.int64) + along)
        tl.store(out_perm + place, across.to(kind), mask=inside)


def take_padded(
    blocks: Blocks, all_starts: Tensor, ids: Tensor, rows: int, nonzeros: int, index: torch.dtype
) -> Taken | None:
    """Return what `Slicer.take_padded` promises; None for very many blocks at a time, or values that are trained."""
    count = ids.shape[0]
    if count > MOST_BLOCKS or blocks.value.requires_grad:
        return None

    def new(size: int, dtype: torch.dtype = index) -> Tensor:
        return torch.empty(size, dtype=dtype, device=ids.device)

    starts = torch.empty(2, count + 2, dtype=torch.int64, device=ids.device)
    origin, block = new(rows, torch.int64), new(rows, torch.int64)
    structure: Structure = (new(rows + 1), new(nonzeros), new(nonzeros, blocks.value.dtype))
    transposed: Structure | None = None
    if blocks.transposed is not None:
        transposed = (new(rows + 1), new(nonzeros), new(nonzeros))
    matrix = blocks.rowptr, blocks.col, blocks.value
    lanes = triton.next_power_of_2(max(count, 1))
    size = min(128, PAIRS // lanes)
    _take_kernel[(triton.cdiv(max(rows + 1, nonzeros), size),)](
        all_starts, ids.contiguous(), *matrix, *(blocks.transposed or matrix),
        starts, *structure, *(transposed or structure), origin, block, all_starts.shape[1], count, rows, nonzeros,
        TRANSPOSED=transposed is not None, LANES=lanes, SIZE=size, num_warps=4,
    )  # fmt: skip
    return Taken(Blocks(starts, *structure, transposed), origin, block)
