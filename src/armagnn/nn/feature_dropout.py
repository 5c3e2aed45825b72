"""Dropout of node features, dense or sparse, from the one source of randomness."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import DTypeError, shown
from armagnn.kernels.random import draw_seed, pass_seed
from armagnn.operators import CSR, GraphOperator

Features = TypeVar("Features", Tensor, CSR, Tensor | CSR)


class Zero(float):
    """A drop rate of 0 that uses up the seed of its mask, as a tensor that is 0 would.

    So the masks of a trial do not depend on whether the other trials of its batch drop something here.
    """


def check_rate(p: float | Tensor) -> None:
    """Raise unless it is a probability in [0, 1), or a tensor without axes, whose value is not read."""
    if not isinstance(p, Tensor):
        checks.probability("a drop rate", p)
    elif p.dim() or not p.is_floating_point():
        raise DTypeError(f"a drop rate must be a number or a float tensor without axes, got {shown(p)}.")


def mask_seed(p: float | Tensor, training: bool, device: torch.device) -> Tensor | None:
    """Draw the seed of a mask; None if nothing is dropped."""
    if not training:
        return None
    if isinstance(p, Tensor) or p > 0:
        return draw_seed(device)
    if isinstance(p, Zero):
        pass_seed()
    return None


def drop(x: Features, p: float | Tensor, training: bool, op: GraphOperator | None = None) -> Features:
    """Return x with each entry zeroed with probability p and the others divided by 1 - p, if training.

    Sparse features are dropped among their stored values (a dropped zero is a zero) and stay sparse. The probability
    may be a tensor without axes, as when it differs between trials; its value is not read here. An operator whose rows
    lie on many ranks numbers the entries of its nodes.
    """
    seed = mask_seed(p, training, x.device)
    if seed is None:
        return x
    if op is None:
        return (
            x.with_value(kernels.dropout(x.value, seed, p, 0)) if isinstance(x, CSR) else kernels.dropout(x, seed, p, 0)
        )
    return x.with_value(op._entry_dropout(x.value, seed, p)) if isinstance(x, CSR) else op._dropout(x, seed, p, 0)
