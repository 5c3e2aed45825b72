"""A step of Adam on the processor in one pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, compiled, to_numpy
from armagnn.kernels.cpu.threads import Chunk, begin


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
