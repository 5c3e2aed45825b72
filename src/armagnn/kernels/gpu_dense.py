"""Products with the weights, on the GPU, with all that stands around them: small matrices that stay in registers.

A float32 product is six products of the thirds of its factors on the tensor cores, which together are as exact as
float32. Where the shapes or the type do not fit, a function here returns None, and the caller goes product by product.

What all kernels share stands here too: which entries dropout keeps, activations and their gradients.

A step of Adam is one launch. By torch's operations, one by one, it is eighteen for each parameter: more than the rest
of a step on small graphs.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.reference import BETA1, BETA2, EPSILON
from armagnn.randomness import DROPOUT, threshold

ACTIVATIONS: Final = {"none": 0, "relu": 1, "leaky_relu": 2, "elu": 3, "tanh": 4, "sigmoid": 5}
"""How the kernels name an activation."""

MOST_CHANNELS: Final = 64
"""The widest X and W whose products are kept in registers."""

ROWS: Final = 16
"""Rows that a program of the backward step takes at a time: with more, fewer programs find room in the registers."""

COLUMNS: Final = 1 << 15
"""Columns of all programs together, about, where each leaves a part of a gradient that is to be read and added up."""


# --------------------------------------------------------------------------------------- rules that other kernels share


@triton.jit
def keep(index, seed, step, limit, PURPOSE: tl.constexpr):
    """Return which entries dropout keeps; `armagnn.randomness` says how they are drawn."""
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
    """Return the limit of a drop rate in float64, for `keep`: what `armagnn.randomness.thresholds` returns."""
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


# ---------------------------------------------------------------------------------------------------- a step of a layer


@triton.jit
def _early_kernel(
    x, propagated, v, w0, bias, w, seed, skip, state, after, rows, fan_in, width, group, step, limit, scale,
    SLOPE: tl.constexpr, BIAS: tl.constexpr, DROP: tl.constexpr, FOURS: tl.constexpr, ACT: tl.constexpr,
    PURPOSE: tl.constexpr, KEEP_SKIP: tl.constexpr, KEEP_STATE: tl.constexpr, NEXT: tl.constexpr,
    PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_I: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    i, c = tl.arange(0, BLOCK_I), tl.arange(0, BLOCK_C)
    columns = tl.program_id(1) * group + c
    rows_in, cols_in, wide_in = r < rows, c < group, i < fan_in
    source = r[:, None] * fan_in + i[None, :]
    source_in = rows_in[:, None] & wide_in[None, :]
    matrix = i[:, None] * width + columns[None, :]
    matrix_in = wide_in[:, None] & cols_in[None, :]
    index = r[:, None] * width + columns[None, :]
    index_in = rows_in[:, None] & cols_in[None, :]
    kind = x.dtype.element_ty
    total = tl.dot(
        tl.load(x + source, mask=source_in, other=0.0), tl.load(v + matrix, mask=matrix_in, other=0.0),
        input_precision=PRECISION,
    )  # fmt: skip
    if BIAS:
        shift = tl.load(bias + columns, mask=cols_in, other=0.0).to(tl.float32)[None, :]
        if not DROP:
            total += shift
    if KEEP_SKIP:
        tl.store(skip + index, total.to(kind), mask=index_in)
    if DROP:
        if FOURS:
            block = (r * width + tl.program_id(1) * group)[:, None] // 4 + tl.arange(0, BLOCK_C // 4)[None, :]
            kept = keep_fours(block, tl.load(seed), step, limit, PURPOSE)
        else:
            kept = keep(index, tl.load(seed), step, limit, PURPOSE)
        total = tl.where(kept, total * scale, 0.0)
        if BIAS:
            total += shift
    total = tl.dot(
        tl.load(propagated + source, mask=source_in, other=0.0), tl.load(w0 + matrix, mask=matrix_in, other=0.0),
        total, input_precision=PRECISION,
    )  # fmt: skip
    total = activated(total, ACT, SLOPE)
    if KEEP_STATE:
        tl.store(state + index, total.to(kind), mask=index_in)
    if NEXT:
        square = tl.program_id(1) * group * group + c[:, None] * group + c[None, :]
        weight = tl.load(w + square, mask=cols_in[:, None] & cols_in[None, :], other=0.0)
        total = tl.where(cols_in[None, :], total, 0.0)  # an activation need not keep the padding at zero
        tl.store(after + index, tl.dot(total.to(kind), weight, input_precision=PRECISION).to(kind), mask=index_in)


@triton.jit
def _late_kernel(
    down, below, w, skip, seed, rate, partial, rows, width, group, stacks, tiles, step, limit, scale,
    SLOPE: tl.constexpr, ACT: tl.constexpr, SKIP: tl.constexpr, DROP: tl.constexpr, FOURS: tl.constexpr,
    RATES: tl.constexpr, FRESH: tl.constexpr, PURPOSE: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    stack = tl.program_id(1)
    m, c = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_C)
    cols_in = c < group
    square_in = cols_in[:, None] & cols_in[None, :]
    transposed = tl.load(w + stack * group * group + c[None, :] * group + c[:, None], mask=square_in, other=0.0)
    kind = down.dtype.element_ty
    if DROP:
        layer = stack // stacks
        key = tl.load(seed + layer)
        if RATES:
            p = tl.load(rate + layer)
            limit, scale = limit_of(p), (1.0 / (1.0 - p)).to(tl.float32)
    outer = tl.zeros((BLOCK_C, BLOCK_C), dtype=tl.float32)
    column = tl.zeros((BLOCK_C,), dtype=tl.float32)
    first = tl.program_id(0).to(tl.int64) * tiles * BLOCK_M
    for tile in range(tiles):
        r = first + tile * BLOCK_M + m
        index = r[:, None] * width + stack * group + c[None, :]
        inside = (r < rows)[:, None] & cols_in[None, :]
        gradient = tl.load(down + index, mask=inside, other=0.0)
        state = tl.load(below + index, mask=inside, other=0.0)
        outer += tl.dot(tl.trans(state), gradient, input_precision=PRECISION)
        up = tl.dot(gradient, transposed, input_precision=PRECISION)
        up = through(up, state.to(tl.float32), ACT, SLOPE)
        tl.store(down + index, up.to(kind), mask=inside)
        column += tl.sum(up, axis=0)
        if SKIP:
            if DROP:  # an entry has the index that it has in its own layer
                own = (r * (stacks * group) + stack % stacks * group)[:, None]
                if FOURS:
                    kept = keep_fours(own // 4 + tl.arange(0, BLOCK_C // 4)[None, :], key, step, limit, PURPOSE)
                else:
                    kept = keep(own + c[None, :], key, step, limit, PURPOSE)
                up = tl.where(kept, up * scale, 0.0)
            total = tl.load(skip + index, mask=inside, other=0.0).to(tl.float32) + up
            tl.store(skip + index, total.to(kind), mask=inside)
    place = (tl.program_id(0).to(tl.int64) * tl.num_programs(1) + stack) * (group + 1) * group
    square, row = place + c[:, None] * group + c[None, :], place + group * group + c
    if not FRESH:
        outer += tl.load(partial + square, mask=square_in, other=0.0)
        column += tl.load(partial + row, mask=cols_in, other=0.0)
    tl.store(partial + square, outer, mask=square_in)
    tl.store(partial + row, column, mask=cols_in)


class EarlyStep(NamedTuple):
    """What the first step leaves: X V (with the bias, if nothing is dropped), its state, and the state times W."""

    skip: Tensor | None
    state: Tensor | None
    after: Tensor | None


def early_step(
    x: Tensor, propagated: Tensor, v: Tensor, w0: Tensor, bias: Tensor | None, w: Tensor | None,
    act: str, slope: float, seed: Tensor | None, p: float, group: int, keep_skip: bool, keep_state: bool,
) -> EarlyStep | None:  # fmt: skip
    """Return the step ``act((L X) W0 + dropout(X V) + bias)`` and its product with the next W, in one pass.

    Three products that each fit a tile follow one another in registers, so memory is read and written once.
    """
    rows, fan_in = x.shape
    width = v.shape[1]
    if not _fits(x, max(fan_in, group)):
        return None
    new = [x.new_empty(rows, width) if wanted else None for wanted in (keep_skip, keep_state, w is not None)]
    block_m = 128
    _early_kernel[(triton.cdiv(rows, block_m), width // group)](
        x.contiguous(), propagated, v.contiguous(), w0.contiguous(), x if bias is None else bias,
        x if w is None else w.contiguous(), x if seed is None else seed,
        *(x if tensor is None else tensor for tensor in new),
        rows, fan_in, width, group, 0, threshold(p), 1.0 / (1.0 - p),
        SLOPE=float(slope), BIAS=bias is not None, DROP=seed is not None, FOURS=group % 4 == 0, ACT=ACTIVATIONS[act],
        PURPOSE=DROPOUT, KEEP_SKIP=keep_skip, KEEP_STATE=keep_state, NEXT=w is not None,
        PRECISION=precision(x),
        BLOCK_M=block_m, BLOCK_I=max(16, triton.next_power_of_2(fan_in)),
        BLOCK_C=max(16, triton.next_power_of_2(group)), num_warps=4,
    )  # fmt: skip
    return EarlyStep(*new)


def late_step(
    down: Tensor, below: Tensor, w: Tensor, act: str, slope: float, layers: int = 1, skip: Tensor | None = None,
    drop: tuple[Tensor, float | Tensor, int] | None = None, parts: Tensor | None = None,
) -> Tensor | None:  # fmt: skip
    """Go back through ``act`` and the product with W in one pass; return parts of the gradients of W and of the bias.

    ``down``, the gradient of ``below[:, k] W[k]`` for states ``below`` of shape (M, K, F) behind the activation, is
    written over by the gradient before that activation, ``down[:, k] W[k]^T act'``. That is added to ``skip`` as well,
    where its skip connection kept it: ``drop`` is (seed, rate, step) of the masks, or those of ``layers`` layers with a
    seed and a rate each, whose stacks are side by side.

    No atomics: every program keeps parts of its own, of shape (K, F + 1, F): the gradient of W, and below it the sums
    of the columns of the gradient. They are added to ``parts``, if given, and all have to be summed at the end.
    """
    rows, stacks, group = below.shape
    tensors = (down, below) if skip is None else (down, below, skip)
    if not _fits(below, group) or not all(tensor.is_contiguous() for tensor in tensors):
        return None
    block_c = max(16, triton.next_power_of_2(group))
    blocks = triton.cdiv(rows, ROWS)
    tiles = triton.cdiv(blocks, max(1, COLUMNS // block_c // stacks))
    chunks = triton.cdiv(blocks, tiles)
    fresh = parts is None
    if parts is None:
        parts = torch.empty(chunks, stacks, group + 1, group, dtype=torch.float32, device=below.device)
    seed, p, step = (down, 0.0, 0) if drop is None else drop
    rates = isinstance(p, Tensor)
    rate, own = (p.double().contiguous(), stacks // layers) if isinstance(p, Tensor) else (down, stacks)
    limit, scale = (0, 1.0) if isinstance(p, Tensor) else (threshold(p), 1.0 / (1.0 - p))
    _late_kernel[(chunks, stacks)](
        down, below, w.contiguous(), down if skip is None else skip, seed.contiguous(), rate, parts,
        rows, stacks * group, group, own, tiles, step, limit, scale,
        SLOPE=float(slope), ACT=ACTIVATIONS[act], SKIP=skip is not None, DROP=drop is not None,
        FOURS=group % 4 == 0, RATES=rates, FRESH=fresh, PURPOSE=DROPOUT, PRECISION=precision(below), BLOCK_M=ROWS,
        BLOCK_C=block_c, num_warps=4,
    )  # fmt: skip
    return parts


def _fits(x: Tensor, widest: int) -> bool:
    return x.dtype in (torch.float32, torch.bfloat16) and widest <= MOST_CHANNELS and x.shape[0] > 0


def precision(x: Tensor) -> str:
    """Return how the tensor cores multiply numbers of the type of x, which must be as exact as the type."""
    return "bf16x6" if x.dtype == torch.float32 else "ieee"


# ----------------------------------------------------------------------------------------------------------------- Adam


BLOCK = 1024


@triton.jit
def _adam_kernel(
    param, grad, mean, square, lr, decay, step, count, trials, inner,
    BETA_1: tl.constexpr, BETA_2: tl.constexpr, LOG_1: tl.constexpr, LOG_2: tl.constexpr, EPS: tl.constexpr,
    ACC: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    index = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = index < count
    trial = index // inner % trials
    time = tl.load(step)
    size = (tl.load(lr + trial) / (1.0 - tl.exp(time * LOG_1))).to(ACC)
    root = tl.sqrt(1.0 - tl.exp(time * LOG_2)).to(ACC)
    number = tl.load(param + index, mask=inside, other=0.0).to(ACC)
    slope = tl.load(grad + index, mask=inside, other=0.0).to(ACC) + number * tl.load(decay + trial).to(ACC)
    first = tl.load(mean + index, mask=inside, other=0.0).to(ACC)
    first += (slope - first) * (1.0 - BETA_1)
    second = tl.load(square + index, mask=inside, other=0.0).to(ACC)
    second = second * BETA_2 + slope * slope * (1.0 - BETA_2)
    number -= size * (first / (tl.sqrt(second) / root + EPS))
    kind = param.dtype.element_ty
    tl.store(mean + index, first.to(kind), mask=inside)
    tl.store(square + index, second.to(kind), mask=inside)
    tl.store(param + index, number.to(kind), mask=inside)


def adam(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, lr: Tensor, decay: Tensor, step: Tensor, axis: int = 0
) -> None:
    """Take one step of Adam in place, with a rate lr and a weight decay (R) for every trial along an axis."""
    if not all(tensor.is_contiguous() for tensor in (param, mean, square)):
        reference.adam(param, grad, mean, square, lr, decay, step, axis)
        return
    accumulator: Any = tl.float64 if param.dtype == torch.float64 else tl.float32
    if param.numel():
        _adam_kernel[(triton.cdiv(param.numel(), BLOCK),)](
            param, grad.contiguous(), mean, square, lr.double(), decay.double(), step.double(),
            param.numel(), param.shape[axis], math.prod(param.shape[axis + 1 :]),
            BETA_1=BETA1, BETA_2=BETA2, LOG_1=math.log(BETA1), LOG_2=math.log(BETA2), EPS=EPSILON,
            ACC=accumulator, SIZE=BLOCK,
        )  # fmt: skip
