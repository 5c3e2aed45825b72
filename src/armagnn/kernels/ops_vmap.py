"""The rules of the registered operators for vmap: the trials become columns."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from armagnn.kernels.ops import dropout_trials, gcs, register, sddmm, spmm, stack_matmul, stack_mean
from armagnn.kernels.ops_derivatives import GRADIENTS, TANGENTS


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


def _sddmm_vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
    return _loop(sddmm, info, in_dims, args)


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
    "sddmm": _sddmm_vmap,
    "dropout": _dropout_vmap,
    "dropout_trials": _dropout_trials_vmap,
    "stack_matmul": _stack_matmul_vmap,
    "stack_mean": _stack_mean_vmap,
}
"""The rule of each operator."""

for _name, (_setup, _backward) in GRADIENTS.items():
    register(_name, _setup, _backward, VMAP[_name], TANGENTS[_name])
