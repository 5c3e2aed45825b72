"""The maximum over the neighbours of every node, on the GPU: a program gathers one row, as for a product."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _max_kernel(rowptr, col, x, most, ties, width, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < width
    start, end = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    best, count = tl.full((BLOCK_C,), float("-inf"), dtype=ACC), tl.zeros((BLOCK_C,), dtype=ACC)
    broken = tl.zeros((BLOCK_C,), dtype=tl.int32)  # where a number is NaN, so is the maximum
    lanes = tl.arange(0, BLOCK_E)
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        valid = j < end
        neighbour = tl.load(col + j, mask=valid, other=0).to(tl.int64)
        mask = valid[:, None] & inside[None, :]
        numbers = tl.load(x + neighbour[:, None] * width + columns[None, :], mask=mask, other=float("-inf")).to(ACC)
        top = tl.max(numbers, axis=0)
        same = tl.sum(((numbers == top[None, :]) & valid[:, None]).to(ACC), axis=0)
        count = tl.where(top > best, same, tl.where(top == best, count + same, count))
        best = tl.maximum(best, top)
        broken += tl.sum((numbers != numbers).to(tl.int32), axis=0)
    index = row * width + columns
    empty = start == end
    best = tl.where(broken > 0, float("nan"), best)
    tl.store(most + index, tl.where(empty, 0.0, best).to(most.dtype.element_ty), mask=inside)
    tl.store(ties + index, tl.where(empty, 1.0, count).to(ties.dtype.element_ty), mask=inside)


@triton.jit
def _back_kernel(
    rowptr, col, x, most, shares, out, width, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < width
    start, end = tl.load(rowptr + row), tl.load(rowptr + row + 1)
    index = row * width + columns
    own = tl.load(x + index, mask=inside, other=0.0)
    total = tl.zeros((BLOCK_E, BLOCK_C), dtype=ACC)
    lanes = tl.arange(0, BLOCK_E)
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        valid = j < end
        other = tl.load(col + j, mask=valid, other=0).to(tl.int64)[:, None] * width + columns[None, :]
        mask = valid[:, None] & inside[None, :]
        has = tl.load(most + other, mask=mask, other=0.0) == own[None, :]
        total += tl.where(has, tl.load(shares + other, mask=mask, other=0.0).to(ACC), 0.0)
    tl.store(out + index, tl.sum(total, axis=0).to(out.dtype.element_ty), mask=inside)


def _shape(x: Tensor) -> tuple[int, int]:
    """Return (BLOCK_E, BLOCK_C) for one warp."""
    block_c = max(4, min(128, triton.next_power_of_2(x.shape[1])))
    return max(4, min(64, 512 // block_c)), block_c


def row_max(rowptr: Tensor, col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maxima, and how many neighbours have each; `reference.row_max` is the same in plain torch."""
    most = torch.empty(rowptr.shape[0] - 1, x.shape[1], dtype=x.dtype, device=x.device)
    ties = torch.empty_like(most)
    if most.numel():
        block_e, block_c = _shape(x)
        _max_kernel[(most.shape[0], triton.cdiv(x.shape[1], block_c))](
            rowptr, col, x, most, ties, x.shape[1],
            BLOCK_E=block_e, BLOCK_C=block_c, ACC=_accumulator(x), num_warps=1,
        )  # fmt: skip
    return most, ties


def row_max_back(t_rowptr: Tensor, t_col: Tensor, x: Tensor, most: Tensor, shares: Tensor) -> Tensor:
    """Return the gradient of x; `reference.row_max_back` is the same in plain torch."""
    out = torch.empty_like(x)
    if out.numel():
        block_e, block_c = _shape(x)
        _back_kernel[(x.shape[0], triton.cdiv(x.shape[1], block_c))](
            t_rowptr, t_col, x, most, shares, out, x.shape[1],
            BLOCK_E=block_e, BLOCK_C=block_c, ACC=_accumulator(x), num_warps=1,
        )  # fmt: skip
    return out


def _accumulator(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32
