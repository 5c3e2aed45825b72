"""The rules of the registered operators for derivatives and for vmap, made of the operators again.

Backwards, `GRADIENTS`: what each keeps, and its backward pass. Forwards, `TANGENTS`: an operator of the tangents, for
all are linear; each takes the arguments, the output and the tangents of the arguments, None where there is none. Under
vmap, `VMAP`: the trials become columns. The import of this module registers all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.kernels.ops import dropout, dropout_trials, gcs, register, sddmm, spmm, stack_matmul, stack_mean, transpose
from armagnn.kernels.reference import gradient_of_activation, inner


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


def _stack_matmul(args: tuple[Any, ...], out: Tensor, tangents: Tangents) -> Tensor | None:
    (h, w), (by_h, by_w) = args, tangents
    parts = [] if by_h is None else [stack_matmul(by_h, w)]
    return _sum(parts if by_w is None else [*parts, stack_matmul(h, by_w)])


def _linear(op: Callable[..., Tensor]) -> Callable[..., Tensor | None]:
    """Return the rule of an operator that is linear in its first argument, and does not depend on the others."""
    return lambda args, _, tangents: None if tangents[0] is None else op(tangents[0], *args[1:])


TANGENTS: Final = {
    "spmm": _spmm,
    "gcs": _gcs,
    "sddmm": _sddmm,
    "dropout": _linear(dropout),
    "dropout_trials": _linear(dropout_trials),
    "stack_matmul": _stack_matmul,
    "stack_mean": _linear(stack_mean),
}
"""The derivative of each operator forwards."""


# ----------------------------------------------------------------------------------------------------------------- vmap


def _fold(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Return (N, batch × C) from a tensor with a batch axis (or without: it is repeated)."""
    x = x.unsqueeze(1).expand(-1, size, -1) if dim is None else x.movedim(dim, 1)
    return x.reshape(x.shape[0], -1)


def _loop(op: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[Tensor, int]:
    """One call a batch element: for batched values or seeds, which no single product can serve."""
    results = [
        op(*(a if d is None else a.select(d, k) for a, d in zip(args, in_dims, strict=True)))
        for k in range(info.batch_size)
    ]
    return torch.stack(results), 0


def _values_of_trials(in_dims: tuple[Any, ...], args: tuple[Any, ...]) -> list[Any] | None:
    """Return the matrix with values of shape (R, nonzeros), or None if more than fixed values differ."""
    matrix = list(args[:8])
    varying = [k for k in range(8) if in_dims[k] is not None]
    if any(k not in (2, 5) or matrix[k].dim() != 2 for k in varying) or matrix[2].requires_grad:
        return None
    if not varying and matrix[2].dim() == 2:  # values of the trials of another vmap, whose columns must stay together
        return None
    for k in varying:
        matrix[k] = matrix[k].movedim(in_dims[k], 0).contiguous()
    return matrix if len(varying) in (0, 2) else None


def _spmm_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    matrix = _values_of_trials(in_dims, args)
    if matrix is None:
        return _loop(spmm, info, in_dims, args)
    out = spmm(*matrix, _fold(args[8], in_dims[8], info.batch_size))
    return out.view(out.shape[0], info.batch_size, -1), 1


def _gcs_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    *_, x, skip, bias, seed, p, step, act, slope = args
    matrix, size = _values_of_trials(in_dims, args), info.batch_size
    if matrix is None:
        return _loop(gcs, info, in_dims, args)
    if seed is not None and skip is not None:
        skip, dim = _dropout_vmap(info, (in_dims[9], in_dims[11], None, None), skip, seed, p, step)
    else:
        dim = in_dims[9]
    skip = None if skip is None else _fold(skip, dim, size)
    if bias is not None:
        bias = (bias.expand(size, -1) if in_dims[10] is None else bias.movedim(in_dims[10], 0)).reshape(-1)
    out = gcs(*matrix, _fold(x, in_dims[8], size), skip, bias, None, 0.0, step, act, slope)
    return out.view(out.shape[0], size, -1), 1


def _dropout_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    x, seed, p, step = args
    size = info.batch_size
    x = x.unsqueeze(0).expand(size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
    rows = x.shape[1] if x.dim() > 2 else 1  # node-major if there are rows, as the products leave it
    folded = x.reshape(size, rows, -1).transpose(0, 1)
    seed = seed.reshape(-1).expand(size) if in_dims[1] is None else seed.movedim(in_dims[1], 0).reshape(size)
    rate = torch.full((size,), p, dtype=torch.float64, device=x.device)
    out = dropout_trials(folded, seed, rate, step)
    return out.transpose(0, 1).reshape(x.shape), 0


def _dropout_trials_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    x, seed, p, step = args
    size = info.batch_size
    x = x.unsqueeze(1).expand(-1, size, -1, -1) if in_dims[0] is None else x.movedim(in_dims[0], 1)
    seed, p = (t.expand(size, -1) if d is None else t.movedim(d, 0) for t, d in ((seed, in_dims[1]), (p, in_dims[2])))
    out = dropout_trials(x.flatten(1, 2), seed.flatten(), p.flatten(), step)
    return out.view(x.shape), 1


def _stack_matmul_vmap(info: Any, in_dims: tuple[Any, ...], h: Tensor, w: Tensor) -> tuple[Tensor, int]:
    size, stacks = info.batch_size, w.shape[0] if in_dims[1] is None else w.movedim(in_dims[1], 0).shape[1]
    h = h.unsqueeze(1).expand(-1, size, -1, -1) if in_dims[0] is None else h.movedim(in_dims[0], 1)
    w = w.expand(size, -1, -1, -1) if in_dims[1] is None else w.movedim(in_dims[1], 0)
    out = stack_matmul(h.flatten(1, 2), w.flatten(0, 1))
    return out.view(out.shape[0], size, stacks, -1), 1


def _stack_mean_vmap(info: Any, in_dims: tuple[Any, ...], h: Tensor) -> tuple[Tensor, int]:
    h = h.movedim(in_dims[0], 1)
    return stack_mean(h.flatten(0, 1)).view(*h.shape[:2], h.shape[3]), 1


VMAP: Final = {
    "spmm": _spmm_vmap,
    "gcs": _gcs_vmap,
    "sddmm": lambda info, in_dims, *args: _loop(sddmm, info, in_dims, args),
    "dropout": _dropout_vmap,
    "dropout_trials": _dropout_trials_vmap,
    "stack_matmul": _stack_matmul_vmap,
    "stack_mean": _stack_mean_vmap,
}
"""The rule of each operator."""

for _name, (_setup, _backward) in GRADIENTS.items():
    register(_name, _setup, _backward, VMAP[_name], TANGENTS[_name])
