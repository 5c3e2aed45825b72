"""The fused ARMA layer under vmap: R trials brought to where the kernels want them, and run as one layer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from armagnn.kernels.layer import arma_layer
from armagnn.kernels.layer_run import Matrix, Settings
from armagnn.kernels.products import split
from armagnn.torch_private import apply_rule, batching, forward_mode, is_batched, needs_gradient, only_vmap, recording


class Fixed(NamedTuple):
    """What all trials of a layer have in common.

    Attributes:
        settings: of one layer; its drop rate counts only if the trials have none of their own.
        op: the operator, as the kernels take a matrix.
        pattern: (rowptr, col), then (rowptr, col, values or None) and the permutation of the transpose, of a sparse X.
        single: the mean of the stacks of one layer by differentiable operations, as a function of (x, value of a
            sparse X, w0, w, v, bias, seed, drop rate or None).
    """

    settings: Settings
    op: Matrix
    pattern: Matrix | None
    single: Callable[..., Tensor]


def _with_axis(tensor: Tensor, dim: int | None, place: int, trials: int) -> Tensor:
    """Return the tensor with the trials, which it may not have, as the axis at a place."""
    if dim is None:
        shape = list(tensor.shape)
        return tensor.unsqueeze(place).expand(*shape[:place], trials, *shape[place:])
    return tensor.movedim(dim, place)


def _of_trials(
    fixed: Fixed, info: Any, in_dims: tuple[int | None, ...], x: Tensor | None, value: Tensor | None,
    w0: Tensor | None, w: Tensor | None, v: Tensor, bias: Tensor | None, seed: Tensor | None, p: Tensor | None,
) -> tuple[Tensor, int]:  # fmt: skip
    """Bring the trials to where the kernels want them, and run all layers as one."""
    settings, op, pattern, single = fixed
    x_dim, value_dim, w0_dim, w_dim, v_dim, bias_dim, seed_dim, p_dim = in_dims
    trials: int = info.batch_size
    own = x is not None and x_dim is not None
    sparse: Matrix | None = None
    if pattern is not None:
        assert value is not None
        rowptr, col, t_rowptr, t_col, t_value, perm = pattern
        value = value if value_dim is None else value.movedim(value_dim, 0).contiguous()
        sparse = rowptr, col, value, t_rowptr, t_col, t_value, perm
    elif own:
        x = x.movedim(x_dim, 1).contiguous()  # type: ignore[arg-type,union-attr]

    def of_features(weight: Tensor, dim: int | None, place: int) -> Tensor:
        """Return weights (..., F_in, C) as they are multiplied with X; ``place`` is the axis F_in."""
        if own:
            return _with_axis(weight, dim, place, trials)
        return _with_axis(weight, dim, place + 1, trials).flatten(place + 1)

    if seed is not None:
        seed = _with_axis(seed.reshape(-1) if seed_dim is None else seed, seed_dim, 0, trials).reshape(trials)
        if p is None:
            p = torch.full((trials,), float(settings.p), dtype=torch.float64, device=v.device)
        else:
            p = _with_axis(p, p_dim, 0, trials).reshape(trials).contiguous()
        settings = settings._replace(p=p)
    tensors = (
        x,
        None if w0 is None else of_features(w0, w0_dim, 0),
        None if w is None else _with_axis(w, w_dim, 1, trials).flatten(1, 2),
        of_features(v, v_dim, 1),
        None if bias is None else _with_axis(bias, bias_dim, 1, trials).flatten(1),
    )

    def again(x: Tensor | None, *rest: Tensor | None) -> Tensor:
        """Return the same by vmap over the single layer."""
        w0, w, v, bias, seed = rest
        axis = -3 if own else -2

        def own_of(tensor: Tensor | None, place: int) -> Tensor | None:
            return None if tensor is None else split(tensor, place, trials, tensor.shape[place] // trials)

        inputs = (
            (x, 1 if own else None),
            (value, None if value is None or value.dim() == 1 else 0),
            (w0 if own else own_of(w0, -1), axis),
            (own_of(w, 1), 1),
            (v if own else own_of(v, -1), axis),
            (own_of(bias, 1), 1),
            (None if seed is None else seed.unsqueeze(1), 0),
            (None if seed is None else p, 0),
        )
        dims = tuple(None if tensor is None else dim for tensor, dim in inputs)
        out: Tensor = torch.func.vmap(single, dims, 1)(*(tensor for tensor, _ in inputs))
        return out.flatten(0, 1)

    out = arma_layer(settings, op, sparse, again, seed, *tensors, trials=trials)
    return out.view(-1, trials, settings.width), 1


def arma_trials(
    fixed: Fixed, x: Tensor | None, value: Tensor | None, w0: Tensor | None, w: Tensor | None, v: Tensor,
    bias: Tensor | None, seed: Tensor | None, p: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return what `arma_layer` gives for each trial of a vmap, shape (N, F_out), all of them run as one layer.

    Arguments are those of `arma_layer` as one trial sees them, but for ``value``, the values of a sparse X, and ``p``,
    a drop rate of the trial's own, or None. `usable_by_trials` must have said yes.
    """
    interpreter = batching()
    assert interpreter is not None
    return apply_rule(interpreter, functools.partial(_of_trials, fixed), (x, value, w0, w, v, bias, seed, p))


def usable_by_trials(op: Matrix, pattern: Matrix, fixed: tuple[Tensor, ...], free: tuple[Tensor | None, ...]) -> bool:
    """Return whether a layer under vmap may run as one operation for all trials.

    Args:
        op: the operator.
        pattern: the pattern of a sparse X, or nothing.
        fixed: further tensors that may differ from trial to trial, but must not need a gradient.
        free: those of which gradients can be had.
    """
    if not only_vmap():
        return False
    return (
        op[0].shape[0] > 1
        and not any(is_batched(tensor) for tensor in (*op, *pattern) if tensor is not None)
        and not op[2].requires_grad
        and not any(needs_gradient(tensor) for tensor in fixed)
        and any(is_batched(tensor) for tensor in (*fixed, *free) if tensor is not None)
        and not recording()
        and not forward_mode()
        and not torch.is_autocast_enabled(op[2].device.type)
    )
