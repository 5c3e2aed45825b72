"""The kernels for the GPU, in Triton.

``act(A x + dropout(skip) + bias)`` is one launch: a program gathers one row's neighbours for one block of columns,
holds the sums in registers, and finishes the row before it is written. Blocks of columns vary slowest, so that a graph
whose block of x fits the second-level cache reads it from there. No atomics anywhere: the same bits in every run.

Rows of very many neighbours (hubs) would keep one program busy while the rest of the grid is done. Their nonzeros are
cut into segments that a first launch adds up side by side; the row's own program then only adds the segments' sums.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from armagnn.kernels import gpu_aggregation, gpu_blocks, gpu_dense, reference
from armagnn.kernels.gpu_dense import ACTIVATIONS, activated, keep, keep_fours, limit_of
from armagnn.kernels.reference import LONG, Segments, cut_long_rows
from armagnn.randomness import DROPOUT, threshold

sort_coo, transpose = reference.sort_coo, reference.transpose  # integer sorts: torch's are as good as any
affine, finish, stack_matmul = reference.affine, reference.finish, reference.stack_matmul
stack_mean, nonzeros, plan = reference.stack_mean, reference.nonzeros, reference.plan
blank, column_dots = reference.blank, reference.column_dots
lanczos_vector, combine_states = reference.lanczos_vector, reference.combine_states
early_step, late_step = gpu_dense.early_step, gpu_dense.late_step
MOST_CHANNELS, adam = gpu_dense.MOST_CHANNELS, gpu_dense.adam
outer, trial_products = gpu_blocks.outer, gpu_blocks.trial_products
block_product, take_padded = gpu_blocks.block_product, gpu_blocks.take_padded
row_max, row_max_back = gpu_aggregation.row_max, gpu_aggregation.row_max_back
attend, attend_back, attends = gpu_aggregation.attend, gpu_aggregation.attend_back, gpu_aggregation.attends

CACHED = 1 << 23
"""Numbers of x that stay in the second-level cache (50 MB on an H200, shared with everything else)."""

MOST_COLUMNS = 256
"""Columns that a program takes of a row, at most."""

HUB = LONG
"""A row with more nonzeros than this is cut into segments of this length."""


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
    value, col, x, partial, starts, ends, width, group, stride,
    BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    segment = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(group, BLOCK_C)
    member = tl.program_id(1) // tiles
    lanes = tl.program_id(1) % tiles * BLOCK_C + tl.arange(0, BLOCK_C)
    columns, inside = member * group + lanes, lanes < group
    value += member.to(tl.int64) * stride
    start, end = tl.load(starts + segment), tl.load(ends + segment)
    total = _gather(value, col, x, start, end, columns, inside, width, True, BLOCK_E, BLOCK_C, ACC)
    tl.store(partial + segment * width + columns, total, mask=inside)


@triton.jit
def _rows_kernel(
    rowptr, col, value, x, partial, first_segment, skip, bias, seed, out, width, group, stride,
    step, limit, scale, scale_rest,
    STACKS: tl.constexpr, SLOPE: tl.constexpr, HUBS: tl.constexpr, HUB_SIZE: tl.constexpr, SKIP: tl.constexpr,
    BIAS: tl.constexpr, DROP: tl.constexpr, FOURS: tl.constexpr, PURPOSE: tl.constexpr, ACT: tl.constexpr,
    BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    # A row is width = signals * STACKS * group numbers, and the output the mean of its STACKS: signals * group numbers.
    # Signals are signals of a batch, or trials, each of which may have values of its own (stride > 0).
    row = tl.program_id(0).to(tl.int64)
    tiles = tl.cdiv(group, BLOCK_C)
    signal = tl.program_id(1) // tiles
    first_lane = tl.program_id(1) % tiles * BLOCK_C
    lanes = first_lane + tl.arange(0, BLOCK_C)
    inside = lanes < group
    start, end = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    value += signal.to(tl.int64) * stride
    mean = tl.zeros((BLOCK_C,), dtype=ACC)
    for stack in tl.static_range(STACKS):
        columns = (signal * STACKS + stack) * group + lanes
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
                factor = scale.to(ACC) + scale_rest.to(ACC)
                if FOURS:
                    block = (row * width + (signal * STACKS + stack) * group + first_lane) // 4
                    kept = keep_fours(block + tl.arange(0, BLOCK_C // 4), tl.load(seed), step, limit, PURPOSE)
                else:
                    kept = keep(index, tl.load(seed), step, limit, PURPOSE)
                added = tl.where(kept, added * factor, 0.0)
            total += added
        if BIAS:
            total += tl.load(bias + columns, mask=inside, other=0.0).to(ACC)
        mean += activated(total, ACT, SLOPE)
    if STACKS > 1:
        mean = mean * (1.0 / STACKS)
    tl.store(out + row * (width // STACKS) + signal * group + lanes, mean.to(out.dtype.element_ty), mask=inside)


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
    x, seed, out, count, step, limit, scale, scale_rest,
    PURPOSE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    number = tl.load(x + index, mask=inside, other=0.0).to(ACC)
    factor = scale.to(ACC) + scale_rest.to(ACC)
    block = tl.program_id(0).to(tl.int64) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    kept = tl.where(keep_fours(block, tl.load(seed), step, limit, PURPOSE), number * factor, 0.0)
    tl.store(out + index, kept.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _trial_dropout_kernel(
    x, seed, rate, out, columns, trials, size, step, PURPOSE: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    # trial r of (M, R, C): entry (m, c) has index m * C + c, as if the trial were alone
    trial = tl.program_id(1).to(tl.int64)
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < size
    place = (index // columns * trials + trial) * columns + index % columns
    number = tl.load(x + place, mask=inside, other=0.0).to(ACC)
    p = tl.load(rate + trial)
    block = tl.program_id(0).to(tl.int64) * (BLOCK // 4) + tl.arange(0, BLOCK // 4)
    kept = keep_fours(block, tl.load(seed + trial), step, limit_of(p), PURPOSE)
    kept = tl.where(kept, number * (1.0 / (1.0 - p)).to(ACC), 0.0)
    tl.store(out + place, kept.to(out.dtype.element_ty), mask=inside)


_plans: Any = WeakTensorKeyDictionary()


def _hubs(rowptr: Tensor, nonzeros: int) -> Segments | None:
    """Return the segments of the long rows, or None where there are none; found once for a matrix.

    While a stream is captured they are found without waiting, and not kept: what is made then is the recording's.
    """
    if rowptr in _plans:
        plan: Segments | None = _plans[rowptr]
        return plan
    if rowptr.is_cuda and torch.cuda.is_current_stream_capturing():
        return cut_long_rows(rowptr, nonzeros)
    _plans[rowptr] = plan = cut_long_rows(rowptr)
    return plan


def keep_rows_whole(rowptr: Tensor) -> None:
    """Cut no row of a matrix."""
    _plans[rowptr] = None


def cut_rows(rowptr: Tensor, nonzeros: int) -> None:
    """Cut the long rows of a matrix that has so many nonzeros, and wait for no device."""
    _plans[rowptr] = cut_long_rows(rowptr, nonzeros)


def _tile(width: int) -> tuple[int, int, int]:
    """Return (BLOCK_E, BLOCK_C, warps): 16-byte loads, about four of them in flight per thread.

    Few programs with much to do each are faster than many: what limits short rows is how soon the next one starts.
    """
    block_c = max(4, min(MOST_COLUMNS, triton.next_power_of_2(width)))
    return max(4, min(64, 512 // block_c)), block_c, max(1, block_c // 128)


def _scale(p: float) -> tuple[float, float]:
    """Return 1 / (1 - p) as the sum of two float32 numbers: Triton takes a Python float as one, also beside float64."""
    whole = 1.0 / (1.0 - p)
    first = torch.tensor(whole, dtype=torch.float32).item()
    return first, whole - first


def _accumulator(dtype: torch.dtype) -> tuple[torch.dtype, Any]:
    return (torch.float64, tl.float64) if dtype == torch.float64 else (torch.float32, tl.float32)


def gcs(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor | None, bias: Tensor | None,
    act: str, slope: float, seed: Tensor | None = None, p: float = 0.0, step: int = 0, target: Tensor | None = None,
    stacks: int = 1, group: int | None = None,
) -> Tensor:  # fmt: skip
    """Return ``act(A x + dropout(skip) + bias)``, or of ``stacks`` neighbouring groups of columns the mean.

    It may write over its skip connection: every entry is read and written by one program alone.
    """
    rows, width = rowptr.shape[0] - 1, x.shape[1]
    trials, stride = value.shape if value.dim() == 2 else (1, 0)
    group = width // trials if group is None else group
    value = value.contiguous()
    out = torch.empty(rows, width // stacks, dtype=x.dtype, device=x.device) if target is None else target
    if out.numel() == 0:
        return out
    x = x.contiguous()
    skip = None if skip is None else skip.contiguous()
    dtype, acc = _accumulator(x.dtype)
    block_e, block_c, warps = _tile(group)
    columns = width // group * triton.cdiv(group, block_c)
    hubs = _hubs(rowptr, col.shape[0])
    partial = out
    if hubs is not None:
        partial = torch.empty(hubs.starts.shape[0], width, dtype=dtype, device=x.device)
        _segments_kernel[(hubs.starts.shape[0], columns)](
            value, col, x, partial, hubs.starts, hubs.ends, width, group, stride,
            BLOCK_E=block_e, BLOCK_C=block_c, ACC=acc, num_warps=warps,
        )  # fmt: skip
    _rows_kernel[(rows, columns // stacks)](
        rowptr, col, value, x, partial, rowptr if hubs is None else hubs.first,
        out if skip is None else skip, out if bias is None else bias, rowptr if seed is None else seed, out,
        width, group, stride, step, threshold(p), *_scale(p), STACKS=stacks, SLOPE=float(slope),
        HUBS=hubs is not None, HUB_SIZE=HUB, SKIP=skip is not None, BIAS=bias is not None,
        DROP=seed is not None and skip is not None, FOURS=block_c > 4 and group % 4 == 0, PURPOSE=DROPOUT,
        ACT=ACTIVATIONS[act], BLOCK_E=block_e, BLOCK_C=block_c, ACC=acc, num_warps=warps,
    )  # fmt: skip
    return out


def gcs_mean(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor, bias: Tensor | None, act: str, slope: float,
    seed: Tensor | None, p: float, step: int, stacks: int, width: int,
) -> Tensor | None:  # fmt: skip
    """Return the mean over the stacks of what `gcs` returns, in passing where the states would leave the cache.

    That saves two passes over the states, and costs the locality of blocks of columns where those fit a cache.
    """
    if stacks == 1 or x.numel() // stacks <= CACHED:
        return None
    out = gcs(rowptr, col, value, x, skip, bias, act, slope, seed, p, step, stacks=stacks, group=width)
    return out.view(-1, width)


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
            x, seed, out, x.numel(), step, threshold(p), *_scale(p),
            PURPOSE=DROPOUT, BLOCK=1024, ACC=_accumulator(x.dtype)[1],
        )  # fmt: skip
    return out


def dropout_trials(x: Tensor, seed: Tensor, p: Tensor, step: int, target: Tensor | None = None) -> Tensor:
    """Return x of shape (M, R, C) with entries of trial r zeroed with probability ``p[r]``; target may be x itself."""
    x = x.contiguous()
    rows, trials, columns = x.shape
    out = torch.empty_like(x) if target is None else target
    if out.numel():
        _trial_dropout_kernel[(triton.cdiv(rows * columns, 1024), trials)](
            x, seed.contiguous(), p.double().contiguous(), out, columns, trials, rows * columns, step,
            PURPOSE=DROPOUT, BLOCK=1024, ACC=_accumulator(x.dtype)[1],
        )  # fmt: skip
    return out
