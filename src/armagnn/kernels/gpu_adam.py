"""A step of Adam on the GPU in one launch.

By torch's operations, one by one, it is eighteen for each parameter: more than the rest of a step on small graphs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.reference import BETA1, BETA2, EPSILON

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
