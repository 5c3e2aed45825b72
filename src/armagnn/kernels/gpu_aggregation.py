"""Attention and the maximum over the neighbours of every node, on the GPU; `aggregation` says what is computed.

First the weights are found, one for every edge and head. Then a program collects one row for one block of columns, as
of a product with a matrix that is another one for every head; or, where heads share their features, for all of these
heads at once. A weight has the sign of its x, which tells the slope.

For the maximum a program gathers one row, as for a product.
"""

from __future__ import annotations

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

MOST_COLUMNS: Final = 256
"""Columns of a program that collects."""


@triton.jit
def _weight(x, log, SLOPE: tl.constexpr):
    """Return the weight of x, and its product with the slope of the activation."""
    weight = tl.exp(tl.where(x > 0, x, SLOPE * x) - log)
    return weight, tl.where(x > 0, weight, SLOPE * weight)


@triton.jit
def _place(rowptr, heads, BLOCK_H: tl.constexpr):
    """Return the program's row, where its nonzeros start and end, its heads, and which of them exist."""
    row = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    return row, tl.load(rowptr + row), tl.load(rowptr + row + 1), h, h < heads


@triton.jit
def _weigh_kernel(
    rowptr, col, s, d, log, slopes, weights, heads,
    SLOPE: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_H: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    i, start, end, h, inside = _place(rowptr, heads, BLOCK_H)
    lanes = tl.arange(0, BLOCK_E)
    own = tl.load(s + i * heads + h, mask=inside, other=0.0)
    shift = tl.load(d + i * heads + h, mask=inside, other=0.0)
    most = own
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        k = tl.load(col + j, mask=j < end, other=0).to(tl.int64)
        mask = (j < end)[:, None] & inside[None, :]
        score = tl.load(s + k[:, None] * heads + h[None, :], mask=mask, other=float("-inf"))
        most = tl.maximum(most, tl.max(score, axis=0))
    most = tl.where(most + shift > 0, most + shift, SLOPE * (most + shift))  # it rises: the largest x has most
    total = tl.zeros((BLOCK_E, BLOCK_H), dtype=ACC)
    flat = total
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        k = tl.load(col + j, mask=j < end, other=0).to(tl.int64)
        mask = ((j < end) & (k != i))[:, None] & inside[None, :]  # the node itself comes last, once
        x = tl.load(s + k[:, None] * heads + h[None, :], mask=mask, other=0.0) + shift[None, :]
        weight, slant = _weight(x, most[None, :], SLOPE)
        total += tl.where(mask, weight, 0.0)
        flat += tl.where(mask, slant, 0.0)
    itself, aslant = _weight(own + shift, most, SLOPE)
    whole = tl.sum(total, axis=0) + itself
    most += tl.log(whole)
    tl.store(log + i * heads + h, most, mask=inside)
    tl.store(slopes + i * heads + h, (tl.sum(flat, axis=0) + aslant) / whole, mask=inside)
    for first in range(start, end, BLOCK_E):
        j = (first + lanes).to(tl.int64)
        k = tl.load(col + j, mask=j < end, other=0).to(tl.int64)
        mask = (j < end)[:, None] & inside[None, :]
        x = tl.load(s + k[:, None] * heads + h[None, :], mask=mask, other=0.0) + shift[None, :]
        weight, slant = _weight(x, most[None, :], SLOPE)
        signed = tl.where((k != i)[:, None], tl.where(x > 0, weight, -weight), 0.0)
        tl.store(weights + j[:, None] * heads + h[None, :], signed, mask=mask)


@triton.jit
def _weigh_back_kernel(
    rowptr, col, s, d, log, q, rest, weights, heads,
    SLOPE: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_H: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    j, start, end, h, inside = _place(rowptr, heads, BLOCK_H)
    lanes = tl.arange(0, BLOCK_E)
    own = tl.load(s + j * heads + h, mask=inside, other=0.0)
    sums = tl.zeros((BLOCK_E, BLOCK_H), dtype=ACC)
    for first in range(start, end, BLOCK_E):
        e = (first + lanes).to(tl.int64)
        i = tl.load(col + e, mask=e < end, other=0).to(tl.int64)
        mask = (e < end)[:, None] & inside[None, :]
        place = i[:, None] * heads + h[None, :]
        x = own[None, :] + tl.load(d + place, mask=mask, other=0.0)
        weight, slant = _weight(x, tl.load(log + place, mask=mask, other=0.0), SLOPE)
        other = mask & (i != j)[:, None]
        sums += tl.where(other, slant, 0.0) * tl.load(q + place, mask=mask, other=0.0)
        signed = tl.where(other, tl.where(x > 0, weight, -weight), 0.0)
        tl.store(weights + e[:, None] * heads + h[None, :], signed, mask=mask)
    place = j * heads + h
    x = own + tl.load(d + place, mask=inside, other=0.0)
    weight, slant = _weight(x, tl.load(log + place, mask=inside, other=0.0), SLOPE)
    slant *= tl.load(q + place, mask=inside, other=0.0)
    tl.store(rest + place, tl.sum(sums, axis=0) + slant, mask=inside)


@triton.jit
def _collect_kernel(
    rowptr, col, weights, z, s, d, log, sums, slants, heads, width, blocks,
    SLOPE: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    i = (tl.program_id(0) // blocks).to(tl.int64)
    c = tl.program_id(0) % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    columns = heads * width
    inside = c < columns
    head = tl.where(inside, c // width, 0)
    start, end = tl.load(rowptr + i), tl.load(rowptr + i + 1)
    lanes = tl.arange(0, BLOCK_E)
    straight = tl.zeros((BLOCK_E, BLOCK_C), dtype=ACC)
    slanted = straight
    for first in range(start, end, BLOCK_E):
        j = (first + lanes).to(tl.int64)
        k = tl.load(col + j, mask=j < end, other=0).to(tl.int64)
        mask = (j < end)[:, None] & inside[None, :]
        weight = tl.load(weights + j[:, None] * heads + head[None, :], mask=mask, other=0.0)
        numbers = tl.load(z + k[:, None] * columns + c[None, :], mask=mask, other=0.0)
        straight += tl.abs(weight) * numbers
        slanted += tl.where(weight > 0, weight, -SLOPE * weight) * numbers
    place = i * heads + head
    x = tl.load(s + place) + tl.load(d + place)
    weight, slant = _weight(x, tl.load(log + place), SLOPE)
    index = i * columns + c
    numbers = tl.load(z + index, mask=inside, other=0.0)
    tl.store(sums + index, tl.sum(straight, axis=0) + weight * numbers, mask=inside)
    tl.store(slants + index, tl.sum(slanted, axis=0) + slant * numbers, mask=inside)


@triton.jit
def _collect_shared_kernel(
    rowptr, col, weights, z, s, d, log, sums, slants, heads, each, width, blocks,
    SLOPE: tl.constexpr, UNROLL: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    groups = heads // each
    place = tl.program_id(0) // blocks
    i, group = (place // groups).to(tl.int64), place % groups
    c = tl.program_id(0) % blocks * BLOCK_C + tl.arange(0, BLOCK_C)
    h = tl.arange(0, BLOCK_H)
    none, some, inside = tl.zeros_like(h), h < each, c < width
    head, feature, features = group * each + h, group * width + c, groups * width
    start, end = tl.load(rowptr + i), tl.load(rowptr + i + 1)
    straight = tl.zeros((BLOCK_H, BLOCK_C), dtype=ACC)
    slanted = straight
    for first in range(start, end, UNROLL):
        for further in tl.static_range(UNROLL):
            j = tl.cast(tl.minimum(first + further, end - 1), tl.int64)  # the last may come again, with no weight
            k = tl.load(col + j).to(tl.int64)
            weight = tl.load(weights + j * heads + head, mask=some & (none + first + further < end), other=0.0)
            numbers = tl.load(z + k * features + feature, mask=inside, other=0.0)
            straight += tl.abs(weight)[:, None] * numbers[None, :]
            slanted += tl.where(weight > 0, weight, -SLOPE * weight)[:, None] * numbers[None, :]
    own = i * heads + head
    x = tl.load(s + own, mask=some, other=0.0) + tl.load(d + own, mask=some, other=0.0)
    itself, slant = _weight(x, tl.load(log + own, mask=some, other=0.0), SLOPE)
    own_numbers = tl.load(z + i * features + feature, mask=inside, other=0.0)
    index, mask = own[:, None] * width + c[None, :], some[:, None] & inside[None, :]
    tl.store(sums + index, straight + itself[:, None] * own_numbers[None, :], mask=mask)
    tl.store(slants + index, slanted + slant[:, None] * own_numbers[None, :], mask=mask)


def _weigh(kernel: Any, rowptr: Tensor, col: Tensor, slope: float, s: Tensor, *tensors: Tensor) -> Tensor:
    """Return the weights, shape (E, H), that a kernel finds, which fills the last of the tensors besides."""
    nodes, heads = s.shape
    weights = s.new_empty(col.shape[0], heads)
    if s.numel():
        block_h = min(32, triton.next_power_of_2(heads))
        kernel[(nodes, triton.cdiv(heads, block_h))](
            rowptr, col, s, *tensors, weights, heads,
            SLOPE=float(slope), BLOCK_E=max(4, 128 // block_h), BLOCK_H=block_h, ACC=_accumulator(s), num_warps=1,
        )  # fmt: skip
    return weights


def _collect(
    rowptr: Tensor, col: Tensor, weights: Tensor, z: Tensor, s: Tensor, d: Tensor, log: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """Return the sums of z over the neighbours, with the weights, and with the slopes besides, shape (N, H, C)."""
    nodes, heads, groups, width = *s.shape, *z.shape[1:]
    sums = z.new_empty(nodes, heads, width)
    slants = torch.empty_like(sums)
    if sums.numel() == 0:
        return sums, slants
    given = rowptr, col, weights, z, s, d, log, sums, slants, heads
    options = {"SLOPE": float(slope), "ACC": _accumulator(z)}
    if heads > groups:  # what is read once serves several heads
        block_h = triton.next_power_of_2(heads // groups)
        block_c = max(16, min(64, triton.next_power_of_2(width), 512 // block_h))
        blocks = triton.cdiv(width, block_c)
        _collect_shared_kernel[(nodes * groups * blocks,)](
            *given, heads // groups, width, blocks,
            **options, UNROLL=2, BLOCK_H=block_h, BLOCK_C=block_c, num_warps=1,
        )  # fmt: skip
    else:
        block_c = max(32, min(MOST_COLUMNS, triton.next_power_of_2(heads * width)))
        blocks = triton.cdiv(heads * width, block_c)
        _collect_kernel[(nodes * blocks,)](
            *given, width, blocks, **options, BLOCK_E=4, BLOCK_C=block_c, num_warps=max(1, block_c // 64)
        )
    return sums, slants


def _accumulator(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def attends(kinds: set[torch.dtype]) -> bool:
    """Return whether there are `attend` and `attend_back` for numbers of these types."""
    return kinds in ({torch.float32}, {torch.float64})


def attend(
    rowptr: Tensor, col: Tensor, z: Tensor, s: Tensor, d: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what `cpu.attend` returns."""
    log, slopes = torch.empty_like(s), torch.empty_like(s)
    weights = _weigh(_weigh_kernel, rowptr, col, slope, s, d, log, slopes)
    out, slanted = _collect(rowptr, col, weights, z, s, d, log, slope)
    return out, log, slopes, slanted


def attend_back(
    t_rowptr: Tensor, t_col: Tensor, g: Tensor, q: Tensor, s: Tensor, d: Tensor, log: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `cpu.attend_back` returns."""
    rest = torch.empty_like(s)
    weights = _weigh(_weigh_back_kernel, t_rowptr, t_col, slope, s, d, log, q, rest)
    # a node is its own neighbour with the weight of its own s, d and log: the same in both directions
    by_z, turned = _collect(t_rowptr, t_col, weights, g, s, d, log, slope)
    return by_z, turned, rest


# ---------------------------------------------------------------------------------------------------------- the maximum


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
