"""What several Triton kernels share: which entries dropout keeps, activations and their gradients."""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl

ACTIVATIONS: Final = {"none": 0, "relu": 1, "leaky_relu": 2, "elu": 3, "tanh": 4, "sigmoid": 5}
"""How the kernels name an activation."""


@triton.jit
def keep(index, seed, step, limit, PURPOSE: tl.constexpr):
    """Return which entries dropout keeps; `armagnn.kernels.random` says how they are drawn."""
    block = index >> 2
    lo, hi = (block & 0xFFFFFFFF).to(tl.uint32), (block >> 32).to(tl.uint32)
    zero = lo * 0
    w0, w1, w2, w3 = tl.philox(seed, lo, hi, zero + step, zero + PURPOSE)
    lane = index & 3
    word = tl.where(lane == 0, w0, tl.where(lane == 1, w1, tl.where(lane == 2, w2, w3)))
    return word.to(tl.int64) >= limit


@triton.jit
def keep_fours(block, seed, step, limit, PURPOSE: tl.constexpr):
    """Return what `keep` does for the indices 4 block, ..., 4 block + 3, side by side along the last axis.

    A draw has four words. Here each is used; by `keep`, which may be asked for any index, one of them.
    """
    lo, hi = (block & 0xFFFFFFFF).to(tl.uint32), (block >> 32).to(tl.uint32)
    zero = lo * 0
    w0, w1, w2, w3 = tl.philox(seed, lo, hi, zero + step, zero + PURPOSE)
    return tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3)).to(tl.int64) >= limit


@triton.jit
def limit_of(p):
    """Return the limit of a drop rate in float64, for `keep`: what `armagnn.kernels.random.thresholds` returns."""
    # to the nearest integer, the even one of two: what follows the point does not fit behind 2^52
    limit = ((p * 4294967296.0 + 4503599627370496.0) - 4503599627370496.0).to(tl.int64)
    return limit - (limit >> 32)  # at most 2^32 - 1


@triton.jit
def activated(total, ACT: tl.constexpr, SLOPE: tl.constexpr):
    """Return the activation of a total."""
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
    return total


@triton.jit
def through(gradient, out, ACT: tl.constexpr, SLOPE: tl.constexpr):
    """Return the gradient before an activation, from that behind it and its output; that of ReLU at 0 is 0."""
    if ACT == 1:
        gradient = tl.where(out > 0, gradient, 0.0)
    elif ACT == 2:
        gradient = tl.where(out > 0, gradient, gradient * SLOPE)
    elif ACT == 3:
        gradient = tl.where(out > 0, gradient, gradient * (out + SLOPE))
    elif ACT == 4:
        gradient = gradient * (1.0 - out * out)
    elif ACT == 5:
        gradient = gradient * (1.0 - out) * out
    return gradient
