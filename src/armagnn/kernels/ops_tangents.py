"""The derivatives of the registered operators forwards: an operator of the tangents, for all of them are linear.

Each takes the arguments, the output and the tangents of the arguments, None where there is none.
"""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

from armagnn.kernels.ops import dropout, dropout_trials, sddmm, spmm, stack_matmul, stack_mean, transpose
from armagnn.kernels.ops_gradients import gradient_of_activation

Tangents = tuple[Tensor | None, ...]


def _sum(parts: list[Tensor]) -> Tensor | None:
    return sum(parts[1:], parts[0]) if parts else None


def _product(args: tuple[Any, ...], tangents: Tangents) -> list[Tensor]:
    """Return the parts of A dx + dA x."""
    rowptr, col, _, t_rowptr, t_col, _, perm, inverse, x = args[:9]
    by_value, by_t_value, by_x = tangents[2], tangents[5], tangents[8]
    parts = [] if by_x is None else [spmm(*args[:8], by_x)]
    if by_value is not None:
        if perm is None:  # the matrix is its own transpose; what is added to it need not be
            perm = transpose(rowptr, col, t_rowptr.shape[0] - 1)[2]
            by_t_value = None
        by_t_value = by_value.index_select(0, perm) if by_t_value is None else by_t_value
        parts.append(spmm(rowptr, col, by_value, t_rowptr, t_col, by_t_value, perm, inverse, x))
    return parts


def _spmm(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    return _sum(_product(args, tangents))


def _gcs(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    seed, p, step, act, slope = args[11:]
    parts, by_skip, by_bias = _product(args, tangents), tangents[9], tangents[10]
    if by_skip is not None:
        parts.append(by_skip if seed is None else dropout(by_skip, seed, p, step))
    if by_bias is not None:
        parts.append(by_bias.expand_as(out))
    total = _sum(parts)
    return None if total is None else gradient_of_activation(total, out, act, slope)


def _sddmm(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    *pattern, a, b = args
    by_a, by_b = tangents[6:]
    parts = [] if by_a is None else [sddmm(*pattern, by_a, b)]
    return _sum(parts if by_b is None else [*parts, sddmm(*pattern, a, by_b)])


def _dropout(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    return None if tangents[0] is None else dropout(tangents[0], *args[1:])


def _dropout_trials(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    return None if tangents[0] is None else dropout_trials(tangents[0], *args[1:])


def _stack_matmul(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    (h, w), (by_h, by_w) = args, tangents
    parts = [] if by_h is None else [stack_matmul(by_h, w)]
    return _sum(parts if by_w is None else [*parts, stack_matmul(h, by_w)])


def _stack_mean(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    return None if tangents[0] is None else stack_mean(tangents[0])


TANGENTS: Final = {
    "spmm": _spmm,
    "gcs": _gcs,
    "sddmm": _sddmm,
    "dropout": _dropout,
    "dropout_trials": _dropout_trials,
    "stack_matmul": _stack_matmul,
    "stack_mean": _stack_mean,
}
"""The derivative of each operator forwards."""
