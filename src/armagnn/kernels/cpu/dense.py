r"""Products of many small matrices on the processor, :math:`H_k W_k` and :math:`X_k^\top G_k`, all k in one call.

The k lie side by side in every row, as the layers of many trials have them. torch's batched product copies such
matrices, and starts over for every one; here they are multiplied where they are, by the tiles of `tile`. Each number is
summed by one thread in a fixed order: the same bits for every thread count. And a step of Adam in one pass.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, compiled, to_numpy
from armagnn.kernels.cpu.threads import Chunk, begin
from armagnn.kernels.cpu.tile import MULTIPLY, PLAIN, multiply

LARGEST: Final = 1 << 12
"""Numbers of a W, or of a sum X^T G, above which a BLAS is as fast."""

FEWEST: Final = 4
"""Matrices below which it is, too."""

ROWS: Final = 256
"""Rows that are multiplied by all W before the next ones: what lies side by side is read at about the same time."""


@compiled()
def _stack_rows(chunk: Chunk, at: int, h: Array, w: Array, nothing: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    for first in range(lo, hi, ROWS):
        last = min(first + ROWS, hi)
        for k in range(w.shape[0]):
            multiply(at, out[first:last, k], nothing, h[first:last, k], w[k], PLAIN, nothing, nothing[0, 0])


@compiled()
def _outer_stacks(chunk: Chunk, at: int, x: Array, g: Array, nothing: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    for k in range(lo, hi):
        multiply(at, out[k], nothing, x[:, k].T, g[:, k], PLAIN, nothing, nothing[0, 0])


def _pays(a: Tensor, b: Tensor, size: int) -> bool:
    """Return whether the tiles should multiply these, (M, K, F) with others: by W, or to sums, of so many numbers."""
    kind = a.dtype == b.dtype and a.dtype in (torch.float32, torch.float64)
    return kind and size <= LARGEST and a.shape[1] >= FEWEST


def _run(rows: Any, arrays: tuple[Any, ...], parts: int, products: int) -> None:
    chunks = max(1, min(parts, threads.num_chunks(products, MIN_PRODUCTS)))
    threads.run(rows, arrays, [parts * k // chunks for k in range(chunks + 1)])


def stack_matmul(h: Tensor, w: Tensor) -> Tensor:
    """Return ``h[:, k] @ w[k]`` for every k, shape (M, K, G), of h (M, K, F) and w (K, F, G)."""
    if h.shape[1:] != w.shape[:2] or not _pays(h, w, w.shape[1] * w.shape[2]):  # the other refuses what does not fit
        return reference.stack_matmul(h, w)
    out = h.new_empty(h.shape[0], h.shape[1], w.shape[2])
    if out.numel():
        target = out.numpy()
        arrays = (
            MULTIPLY.address(target.dtype),
            to_numpy(h),
            to_numpy(w),
            np.zeros((1, w.shape[2]), target.dtype),
            target,
        )
        _run(_stack_rows, arrays, h.shape[0], h.numel() * w.shape[2])
    return out


def outer(x: Tensor, g: Tensor) -> Tensor:
    """Return ``x[:, k]^T g[:, k]`` for every k, shape (K, F, G), of x (M, K, F) and g (M, K, G)."""
    if x.shape[:2] != g.shape[:2] or not _pays(x, g, x.shape[2] * g.shape[2]):
        return reference.outer(x, g)
    out = x.new_empty(x.shape[1], x.shape[2], g.shape[2])
    if out.numel():
        target = out.numpy()
        arrays = (
            MULTIPLY.address(target.dtype),
            to_numpy(x),
            to_numpy(g),
            np.zeros((1, g.shape[2]), target.dtype),
            target,
        )
        _run(_outer_stacks, arrays, x.shape[1], x.numel() * g.shape[2])
    return out


def stack_mean(h: Tensor) -> Tensor:
    """Return the mean over the stacks, in whole rows: torch's own reduction over an inner axis is not vectorised."""
    first, *others = h.unbind(1)
    if not others:
        return first.clone()
    out = first + others[0]
    for other in others[1:]:
        out += other
    return out.mul_(1.0 / h.shape[1])


# ---------------------------------------------------------------------------------------------------------------- Adam


@compiled()
def _adam_trials(
    chunk: Chunk, param: Array, grad: Array, mean: Array, square: Array, size: Array, decay: Array, root: Any, beta1:
    Any, beta2: Any, epsilon: Any, one: Any, least: Any,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    # What decays towards zero stops short of the numbers that a processor takes a hundred times longer for.
    trials, zero = size.size, one - one
    for row in range(lo, hi):
        step, weight = size[row % trials], decay[row % trials]
        p, q, means, squares = param[row], grad[row], mean[row], square[row]
        for c in range(p.size):
            g = q[c] + weight * p[c]
            m = beta1 * means[c] + (one - beta1) * g
            s = beta2 * squares[c] + (one - beta2) * g * g
            new = p[c] - step * m / (np.sqrt(s) / root + epsilon)
            means[c] = zero if abs(m) <= least else m  # not the other way round: NaN stays
            squares[c] = zero if s <= least else s
            p[c] = zero if abs(new) <= least else new


def adam(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, lr: Tensor, decay: Tensor, step: Tensor, axis: int = 0
) -> None:
    """Take one step of Adam in place, in one pass, with a rate lr and a weight decay (R) for every trial on an axis."""
    kind: Any = to_numpy(param).dtype.type
    count, rows = float(step), math.prod(param.shape[: axis + 1])
    arrays = tuple(tensor.view(rows, -1).numpy() for tensor in (param, grad.contiguous(), mean, square))
    fixed = (
        (lr.numpy() / (1 - reference.BETA1**count)).astype(kind), decay.numpy().astype(kind),
        kind((1 - reference.BETA2**count) ** 0.5), kind(reference.BETA1), kind(reference.BETA2),
        kind(reference.EPSILON), kind(1), kind(np.finfo(kind).tiny / np.finfo(kind).eps),
    )  # fmt: skip
    chunks = min(rows, threads.num_chunks(param.numel(), MIN_PRODUCTS // 8))
    threads.run(_adam_trials, (*arrays, *fixed), [rows * k // chunks for k in range(chunks + 1)])
