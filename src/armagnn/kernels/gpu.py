"""The kernels for the GPU, in Triton.

``act(A x + dropout(skip) + bias)`` is one launch: a program gathers one row's neighbours for one block of columns,
holds the sums in registers, and finishes the row before it is written. Blocks of columns vary slowest, so that a graph
whose block of x fits the second-level cache reads it from there. No atomics anywhere: the same bits in every run.

Rows of very many neighbours (hubs) would keep one program busy while the rest of the grid is done. Their nonzeros are
cut into segments that a first launch adds up side by side; the row's own program then only adds the segments' sums.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from armagnn.kernels import reference
from armagnn.kernels.random import DROPOUT, threshold

sort_coo, transpose = reference.sort_coo, reference.transpose  # integer sorts: torch's are as good as any
affine, finish, stack_matmul = reference.affine, reference.finish, reference.stack_matmul
stack_mean = reference.stack_mean

IN_PLACE = True
"""`gcs` may write over its skip connection: every entry is read and written by one program alone."""

HUB = 2048
"""A row with more nonzeros than this is cut into segments of this length."""

_ACTIVATIONS = {"none": 0, "relu": 1, "leaky_relu": 2, "elu": 3, "tanh": 4, "sigmoid": 5}


@triton.jit
def _keep(index, seed, step, limit, PURPOSE: tl.constexpr):
    block = index >> 2
    lo, hi = (block & 0xFFFFFFFF).to(tl.uint32), (block >> 32).to(tl.uint32)
    zero = lo * 0
    w0, w1, w2, w3 = tl.philox(seed, lo, hi, zero + step, zero + PURPOSE)
    lane = index & 3
    word = tl.where(lane == 0, w0, tl.where(lane == 1, w1, tl.where(lane == 2, w2, w3)))
    return word.to(tl.int64) >= limit


@triton.jit
def _gather(
    value, col, x, start, end, columns, inside, width,
    WEIGHTED: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    total = tl.zeros((BLOCK_E, BLOCK_C), dtype=ACC)
    lanes = tl.arange(0, BLOCK_E)
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        valid = j < end
        if WEIGHTED:
            neighbour = tl.load(col + j, mask=valid, other=0).to(tl.int64)
            weight = tl.load(value + j, mask=valid, other=0.0).to(ACC)
        else:
            neighbour = j.to(tl.int64)
        rows = tl.load(
            x + neighbour[:, None] * width + columns[None, :], mask=valid[:, None] & inside[None, :], other=0.0
        )
        if WEIGHTED:
            total += weight[:, None] * rows.to(ACC)
        else:
            total += rows.to(ACC)
    return tl.sum(total, axis=0)


@triton.jit
def _segments_kernel(
    value, col, x, partial, starts, ends, width, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr
):
    segment = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < width
    start, end = tl.load(starts + segment), tl.load(ends + segment)
    total = _gather(value, col, x, start, end, columns, inside, width, True, BLOCK_E, BLOCK_C, ACC)
    tl.store(partial + segment * width + columns, total, mask=inside)


@triton.jit
def _rows_kernel(
    rowptr, col, value, x, partial, first_segment, skip, bias, seed, out, width, step, limit, scale,
    SLOPE: tl.constexpr, HUBS: tl.constexpr, HUB_SIZE: tl.constexpr, SKIP: tl.constexpr, BIAS: tl.constexpr,
    DROP: tl.constexpr, PURPOSE: tl.constexpr, ACT: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < width
    start, end = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    if HUBS:
        hub = end - start > HUB_SIZE
        own_end = tl.where(hub, start, end)
        total = _gather(value, col, x, start, own_end, columns, inside, width, True, BLOCK_E, BLOCK_C, ACC)
        if hub:
            first = tl.load(first_segment + row)
            last = first + (end - start + HUB_SIZE - 1) // HUB_SIZE
            total = _gather(value, col, partial, first, last, columns, inside, width, False, BLOCK_E, BLOCK_C, ACC)
    else:
        total = _gather(value, col, x, start, end, columns, inside, width, True, BLOCK_E, BLOCK_C, ACC)
    index = row * width + columns
    if SKIP:
        added = tl.load(skip + index, mask=inside, other=0.0).to(ACC)
        if DROP:
            added = tl.where(_keep(index, tl.load(seed), step, limit, PURPOSE), added * scale, 0.0)
        total += added
    if BIAS:
        total += tl.load(bias + columns, mask=inside, other=0.0).to(ACC)
    if ACT == 1:
        total = tl.where(total < 0, 0.0, total)
    elif ACT == 2:
        total = tl.where(total < 0, total * SLOPE, total)
    elif ACT == 3:
        total = tl.where(total < 0, SLOPE * (tl.exp(total) - 1.0), total)
    elif ACT == 4:
        total = 1.0 - 2.0 / (tl.exp(2.0 * total) + 1.0)
    elif ACT == 5:
        total = 1.0 / (1.0 + tl.exp(-total))
    tl.store(out + index, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _sddmm_kernel(row, col, a, b, out, count, width, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr):
    j = tl.program_id(0).to(tl.int64) * BLOCK_E + tl.arange(0, BLOCK_E)
    valid = j < count
    left, right = tl.load(row + j, mask=valid, other=0).to(tl.int64), tl.load(col + j, mask=valid, other=0).to(tl.int64)
    total = tl.zeros((BLOCK_E, BLOCK_C), dtype=ACC)
    for first in range(0, width, BLOCK_C):
        columns = first + tl.arange(0, BLOCK_C)
        mask = valid[:, None] & (columns < width)[None, :]
        total += tl.load(a + left[:, None] * width + columns[None, :], mask=mask, other=0.0).to(ACC) * tl.load(
            b + right[:, None] * width + columns[None, :], mask=mask, other=0.0
        ).to(ACC)
    tl.store(out + j, tl.sum(total, axis=1).to(out.dtype.element_ty), mask=valid)


@triton.jit
def _dropout_kernel(
    x, seed, out, count, step, limit, scale, PURPOSE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr
):
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    number = tl.load(x + index, mask=inside, other=0.0).to(ACC)
    kept = tl.where(_keep(index, tl.load(seed), step, limit, PURPOSE), number * scale, 0.0)
    tl.store(out + index, kept.to(out.dtype.element_ty), mask=inside)


class _Hubs(NamedTuple):
    """Where the segments of a matrix's long rows start and end, and the first segment of each row."""

    starts: Tensor
    ends: Tensor
    first: Tensor


_plans: Any = WeakTensorKeyDictionary()


def _hubs(rowptr: Tensor) -> _Hubs | None:
    """Return the segments of the long rows, or None where there are none; found once for a matrix."""
    if rowptr not in _plans:
        degree = rowptr[1:] - rowptr[:-1]
        rows = (degree > HUB).nonzero().squeeze(1)
        if rows.numel() == 0:
            _plans[rowptr] = None
        else:
            pieces = (degree[rows].long() + HUB - 1) // HUB
            owner = torch.repeat_interleave(torch.arange(rows.numel(), device=rows.device), pieces)
            offset = pieces.cumsum(0) - pieces
            rank = torch.arange(owner.numel(), device=rows.device) - offset[owner]
            starts = rowptr[rows][owner].long() + rank * HUB
            ends = torch.minimum(starts + HUB, rowptr[rows + 1][owner].long())
            first = torch.zeros_like(degree, dtype=torch.int64)
            first[rows] = offset
            _plans[rowptr] = _Hubs(starts, ends, first)
    plan: _Hubs | None = _plans[rowptr]
    return plan


def _tile(width: int) -> tuple[int, int]:
    """Return (BLOCK_E, BLOCK_C): one warp, 16-byte loads, about four of them in flight per thread."""
    block_c = max(4, min(64, triton.next_power_of_2(width)))
    return max(8, min(64, 512 // block_c)), block_c


def _accumulator(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    return (torch.float64, tl.float64) if dtype == torch.float64 else (torch.float32, tl.float32)


def gcs(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor | None, bias: Tensor | None,
    act: str, slope: float, seed: Tensor | None = None, p: float = 0.0, step: int = 0, target: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``act(A x + dropout(skip) + bias)``."""
    rows, width = rowptr.shape[0] - 1, x.shape[1]
    out = torch.empty(rows, width, dtype=x.dtype, device=x.device) if target is None else target
    if out.numel() == 0:
        return out
    x = x.contiguous()
    skip = None if skip is None else skip.contiguous()
    dtype, acc = _accumulator(x.dtype)
    block_e, block_c = _tile(width)
    columns = triton.cdiv(width, block_c)
    hubs = _hubs(rowptr)
    partial = out
    if hubs is not None:
        partial = torch.empty(hubs.starts.shape[0], width, dtype=dtype, device=x.device)
        _segments_kernel[(hubs.starts.shape[0], columns)](
            value, col, x, partial, hubs.starts, hubs.ends, width,
            BLOCK_E=block_e, BLOCK_C=block_c, ACC=acc, num_warps=1,
        )  # fmt: skip
    _rows_kernel[(rows, columns)](
        rowptr, col, value, x, partial, rowptr if hubs is None else hubs.first,
        out if skip is None else skip, out if bias is None else bias, rowptr if seed is None else seed, out,
        width, step, threshold(p), 1.0 / (1.0 - p), SLOPE=float(slope),
        HUBS=hubs is not None, HUB_SIZE=HUB, SKIP=skip is not None, BIAS=bias is not None,
        DROP=seed is not None and skip is not None, PURPOSE=DROPOUT, ACT=_ACTIVATIONS[act],
        BLOCK_E=block_e, BLOCK_C=block_c, ACC=acc, num_warps=1,
    )  # fmt: skip
    return out


def sddmm(rowptr: Tensor, col: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``<a[i], b[j]>`` for every nonzero (i, j)."""
    out = torch.empty(col.shape[0], dtype=a.dtype, device=a.device)
    if out.numel():
        block_c = max(4, min(64, triton.next_power_of_2(max(1, a.shape[1]))))
        block_e = max(2, 1024 // block_c)
        _sddmm_kernel[(triton.cdiv(col.shape[0], block_e),)](
            reference.rows_of(rowptr, col.shape[0]), col, a.contiguous(), b.contiguous(), out, col.shape[0], a.shape[1],
            BLOCK_E=block_e, BLOCK_C=block_c, ACC=_accumulator(a.dtype)[1], num_warps=2,
        )  # fmt: skip
    return out


def dropout(x: Tensor, seed: Tensor, p: float, step: int) -> Tensor:
    """Return ``x`` with each entry zeroed with probability p, the others scaled by 1 / (1 - p)."""
    x = x.contiguous()
    out = torch.empty_like(x)
    if out.numel():
        _dropout_kernel[(triton.cdiv(x.numel(), 1024),)](
            x,
            seed,
            out,
            x.numel(),
            step,
            threshold(p),
            1.0 / (1.0 - p),
            PURPOSE=DROPOUT,
            BLOCK=1024,
            ACC=_accumulator(x.dtype)[1],
        )
    return out
