"""The derivatives of the registered operators, made of the operators again.

Backwards, `GRADIENTS`: what each keeps, and its backward pass. Forwards, `TANGENTS`: an operator of the tangents, for
all are linear; each takes the arguments, the output and the tangents of the arguments, None where there is none.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from armagnn.kernels.ops import dropout, dropout_trials, sddmm, spmm, stack_matmul, stack_mean, transpose
from armagnn.kernels.reference import inner


def _swap(matrix: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of the transposed matrix."""
    rowptr, col, value, t_rowptr, t_col, t_value, perm, inverse = matrix
    return t_rowptr, t_col, t_value, rowptr, col, value, inverse, perm


def _value_gradient(matrix: tuple[Any, ...], g: Tensor, x: Tensor) -> Tensor:
    rowptr, col, _, t_rowptr, t_col, _, perm, inverse = matrix
    return sddmm(rowptr, col, t_rowptr, t_col, perm, inverse, g, x)


def _spmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *matrix, x = inputs
    ctx.save_for_backward(*matrix, x if ctx.needs_input_grad[2] else None)


def _spmm_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    *matrix, x = ctx.saved_tensors
    g = g.contiguous()
    value_grad = _value_gradient(tuple(matrix), g, x) if ctx.needs_input_grad[2] else None
    x_grad = spmm(*_swap(tuple(matrix)), g) if ctx.needs_input_grad[8] else None
    return None, None, value_grad, None, None, None, None, None, x_grad


def gradient_of_activation(g: Tensor, out: Tensor, act: str, slope: float, target: Tensor | None = None) -> Tensor:
    """Return ``g * act'(z)`` from ``out = act(z)``: one pass, differentiable again in g and out.

    With a ``target``, which may be g or out itself, the gradient is written there.
    """
    aten: Any = torch.ops.aten
    if act == "none":
        return g if target is None else target.copy_(g)
    name, arguments = {
        "relu": ("threshold_backward", (g, out, 0)),
        "leaky_relu": ("leaky_relu_backward", (g, out, slope, True)),
        "elu": ("elu_backward", (g, slope, 1, 1, True, out)),
        "tanh": ("tanh_backward", (g, out)),
        "sigmoid": ("sigmoid_backward", (g, out)),
    }[act]
    operation = getattr(aten, name)
    gradient: Tensor = operation(*arguments) if target is None else operation.grad_input(*arguments, grad_input=target)
    return gradient


def _gcs_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *matrix, x, _skip, _bias, seed, ctx.p, ctx.step, ctx.act, ctx.slope = inputs
    kept = None if ctx.act == "none" else output
    ctx.save_for_backward(*matrix, seed, x if ctx.needs_input_grad[2] else None, kept)


def _gcs_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    *matrix, seed, x, out = ctx.saved_tensors
    g = gradient_of_activation(g, out, ctx.act, ctx.slope).contiguous()
    need = ctx.needs_input_grad
    value_grad = _value_gradient(tuple(matrix), g, x) if need[2] else None
    x_grad = spmm(*_swap(tuple(matrix)), g) if need[8] else None
    skip_grad = None
    if need[9]:  # the mask is drawn again from the seed, not stored
        skip_grad = g if seed is None else dropout(g, seed, ctx.p, ctx.step)
    bias_grad = g.sum(0) if need[10] else None
    return None, None, value_grad, *(None,) * 5, x_grad, skip_grad, bias_grad, *(None,) * 5


def _sddmm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _sddmm_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    rowptr, col, t_rowptr, t_col, perm, inverse, a, b = ctx.saved_tensors
    if perm is None:  # recorded with values that needed no gradient
        perm = transpose(rowptr, col, t_rowptr.shape[0] - 1)[2]
    matrix = (rowptr, col, g, t_rowptr, t_col, g.index_select(0, perm), perm, inverse)
    a_grad = spmm(*matrix, b) if ctx.needs_input_grad[6] else None
    b_grad = spmm(*_swap(matrix), a) if ctx.needs_input_grad[7] else None
    return *(None,) * 6, a_grad, b_grad


def _dropout_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, seed, ctx.p, ctx.step = inputs
    ctx.save_for_backward(seed)


def _dropout_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    (seed,) = ctx.saved_tensors
    return dropout(g, seed, ctx.p, ctx.step), None, None, None


def _dropout_trials_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, seed, p, ctx.step = inputs
    ctx.save_for_backward(seed, p)


def _dropout_trials_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    seed, p = ctx.saved_tensors
    return dropout_trials(g, seed, p, ctx.step), None, None, None


def _stack_matmul_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _stack_matmul_backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
    h, w = ctx.saved_tensors
    h_grad = stack_matmul(g, w.transpose(1, 2)) if ctx.needs_input_grad[0] else None
    w_grad = None
    if ctx.needs_input_grad[1]:
        # one product a stack: cuBLAS splits a single long sum over the GPU, not a batch of them
        w_grad = torch.stack([inner(h[:, k], g[:, k]) for k in range(w.shape[0])])
    return h_grad, w_grad


def _stack_mean_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.stacks = inputs[0].shape[1]


def _stack_mean_backward(ctx: Any, g: Tensor) -> Tensor:
    stacks: int = ctx.stacks
    return (g * (1.0 / stacks)).unsqueeze(1).expand(-1, stacks, -1)


GRADIENTS: Final = {
    "spmm": (_spmm_setup, _spmm_backward),
    "gcs": (_gcs_setup, _gcs_backward),
    "sddmm": (_sddmm_setup, _sddmm_backward),
    "dropout": (_dropout_setup, _dropout_backward),
    "dropout_trials": (_dropout_trials_setup, _dropout_trials_backward),
    "stack_matmul": (_stack_matmul_setup, _stack_matmul_backward),
    "stack_mean": (_stack_mean_setup, _stack_mean_backward),
}
"""What each operator keeps, and its backward pass."""


# ----------------------------------------------------------------------------------------------------------- forwards

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
