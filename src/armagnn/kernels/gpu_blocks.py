"""Many matrices at once on the GPU: products of many trials, and block-diagonal matrices, multiplied or cut.

Sums may be long and results small: gradients of weights, above all. A batched product of cuBLAS gives each tile of a
result one block of the GPU, however long its sum is. Here long sums are shared out, and their parts are added in a
fixed order. Products with a block-diagonal matrix take one launch, whatever the sizes of the blocks are.

To take blocks out of a block-diagonal matrix is one launch as well. By torch's operations, one by one, it is about
fifty, each of which does next to nothing: a good part of a training step on a batch of small graphs.
"""

from __future__ import annotations

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from armagnn.kernels.blocks import Blocks, DenseBlocks, Structure, Taken
from armagnn.kernels.gpu_dense import precision

TILE: Final = 64
"""Rows and columns of a result that a program finds, at most."""

SUMMED: Final = 32
"""Products of a sum that a program adds up at a time, at most."""

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


# ------------------------------------------------------------------------------------------- products with dense blocks


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


# --------------------------------------------------------------------------------------------- batches of sparse blocks

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
    # Every program adds up the sizes of the blocks itself to find where its own starts. The last block is the padding.
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
