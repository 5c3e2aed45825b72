"""Dropout of node features, dense or sparse, from the one source of randomness."""

from __future__ import annotations

from typing import TypeVar

from torch import Tensor

from armagnn import kernels
from armagnn.kernels.random import draw_seed
from armagnn.operators import CSR

Features = TypeVar("Features", Tensor, CSR, Tensor | CSR)


def drop(x: Features, p: float | Tensor, training: bool) -> Features:
    """Return x with each entry zeroed with probability p and the others divided by 1 - p, if training.

    Sparse features are dropped among their stored values (a dropped zero is a zero) and stay sparse. The probability
    may be a tensor without axes, as when it differs between trials; its value is not read here.
    """
    if not training or (not isinstance(p, Tensor) and p == 0):
        return x
    if isinstance(x, CSR):
        return x.with_value(kernels.dropout(x.value, draw_seed(x.device), p, 0))
    return kernels.dropout(x, draw_seed(x.device), p, 0)
