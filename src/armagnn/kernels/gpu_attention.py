"""Attention over the neighbours of every node, on the GPU; `attention` says what is computed.

A program gathers one row for one block of columns. Each column finds the weights of its own head: what the columns of a
head work out several times is cheaper than to tell one another.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _scored(x, SLOPE: tl.constexpr):
    return tl.where(x > 0, x, SLOPE * x)


@triton.jit
def _place(rowptr, heads, width, BLOCK_C: tl.constexpr):
    """Return the program's row, where its nonzeros start and end, its columns, which exist, and the head of each."""
    row = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = c < heads * width
    return row, tl.load(rowptr + row), tl.load(rowptr + row + 1), c, inside, tl.where(inside, c // width, 0)


@triton.jit
def _attend_kernel(
    rowptr, col, z, s, d, out, log, slopes, slanted, heads, width,
    SLOPE: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    i, start, end, c, inside, head = _place(rowptr, heads, width, BLOCK_C)
    lanes = tl.arange(0, BLOCK_E)
    shift = tl.load(d + i * heads + head)
    own = tl.load(s + i * heads + head)
    most = own
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        valid = j < end
        k = tl.load(col + j, mask=valid, other=0).to(tl.int64)
        score = tl.load(s + k[:, None] * heads + head[None, :], mask=valid[:, None], other=float("-inf"))
        most = tl.maximum(most, tl.max(score, axis=0))
    most = _scored(most + shift, SLOPE)  # it rises, so the largest number has the largest score
    total = tl.zeros((BLOCK_E, BLOCK_C), dtype=ACC)
    flat, sums, slants = total, total, total
    for first in range(start, end, BLOCK_E):
        j = first + lanes
        k = tl.load(col + j, mask=j < end, other=0).to(tl.int64)
        valid = ((j < end) & (k != i))[:, None]  # the node itself comes last, once
        x = tl.load(s + k[:, None] * heads + head[None, :], mask=valid, other=0.0) + shift[None, :]
        weight = tl.where(valid, tl.exp(_scored(x, SLOPE) - most[None, :]), 0.0)
        slant = tl.where(x > 0, weight, SLOPE * weight)
        numbers = tl.load(z + k[:, None] * (heads * width) + c[None, :], mask=valid & inside[None, :], other=0.0)
        total += weight
        flat += slant
        sums += weight * numbers
        slants += slant * numbers
    index = i * heads * width + c
    numbers = tl.load(z + index, mask=inside, other=0.0)
    x = own + shift
    weight = tl.exp(_scored(x, SLOPE) - most)
    slant = tl.where(x > 0, weight, SLOPE * weight)
    whole = tl.sum(total, axis=0) + weight
    tl.store(out + index, (tl.sum(sums, axis=0) + weight * numbers) / whole, mask=inside)
    tl.store(slanted + index, (tl.sum(slants, axis=0) + slant * numbers) / whole, mask=inside)
    once = inside & (c % width == 0)
    tl.store(log + i * heads + head, most + tl.log(whole), mask=once)
    tl.store(slopes + i * heads + head, (tl.sum(flat, axis=0) + slant) / whole, mask=once)


@triton.jit
def _back_kernel(
    rowptr, col, g, q, s, d, log, by_z, turned, rest, heads, width,
    SLOPE: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    j, start, end, c, inside, head = _place(rowptr, heads, width, BLOCK_C)
    lanes = tl.arange(0, BLOCK_E)
    own = tl.load(s + j * heads + head)
    sums = tl.zeros((BLOCK_E, BLOCK_C), dtype=ACC)
    slants, rests = sums, sums
    for first in range(start, end, BLOCK_E):
        e = first + lanes
        i = tl.load(col + e, mask=e < end, other=0).to(tl.int64)
        valid = ((e < end) & (i != j))[:, None]
        place = i[:, None] * heads + head[None, :]
        x = own[None, :] + tl.load(d + place, mask=valid, other=0.0)
        weight = tl.where(valid, tl.exp(_scored(x, SLOPE) - tl.load(log + place, mask=valid, other=0.0)), 0.0)
        slant = tl.where(x > 0, weight, SLOPE * weight)
        gradient = tl.load(g + i[:, None] * (heads * width) + c[None, :], mask=valid & inside[None, :], other=0.0)
        sums += weight * gradient
        slants += slant * gradient
        rests += slant * tl.load(q + place, mask=valid, other=0.0)
    index, place = j * heads * width + c, j * heads + head
    x = own + tl.load(d + place)
    weight = tl.exp(_scored(x, SLOPE) - tl.load(log + place))
    slant = tl.where(x > 0, weight, SLOPE * weight)
    gradient = tl.load(g + index, mask=inside, other=0.0)
    tl.store(by_z + index, tl.sum(sums, axis=0) + weight * gradient, mask=inside)
    tl.store(turned + index, tl.sum(slants, axis=0) + slant * gradient, mask=inside)
    tl.store(rest + place, tl.sum(rests, axis=0) + slant * tl.load(q + place), mask=inside & (c % width == 0))


def _launch(kernel: Any, x: Tensor, slope: float, *tensors: Tensor) -> None:
    nodes, heads, width = x.shape
    if x.numel() == 0:
        return
    block_c = max(4, min(128, triton.next_power_of_2(heads * width)))
    kernel[(nodes, triton.cdiv(heads * width, block_c))](
        *tensors, heads, width, SLOPE=float(slope), BLOCK_E=max(2, min(64, 256 // block_c)), BLOCK_C=block_c,
        ACC=tl.float64 if x.dtype == torch.float64 else tl.float32, num_warps=1,
    )  # fmt: skip


def attend(
    rowptr: Tensor, col: Tensor, z: Tensor, s: Tensor, d: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the output, the logarithm of what the weights were divided by, and for the gradients the averages of the
    slopes of the activation, and of the slopes times z.
    """
    out, log, slopes, slanted = torch.empty_like(z), torch.empty_like(s), torch.empty_like(s), torch.empty_like(z)
    _launch(_attend_kernel, z, slope, rowptr, col, z, s, d, out, log, slopes, slanted)
    return out, log, slopes, slanted


def attend_back(
    t_rowptr: Tensor, t_col: Tensor, g: Tensor, q: Tensor, s: Tensor, d: Tensor, log: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradient of z, and for that of s the sums of the slopes times g, and times q."""
    by_z, turned, rest = torch.empty_like(g), torch.empty_like(g), torch.empty_like(s)
    _launch(_back_kernel, g, slope, t_rowptr, t_col, g, q, s, d, log, by_z, turned, rest)
    return by_z, turned, rest
