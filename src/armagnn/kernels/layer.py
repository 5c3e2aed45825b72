"""A whole ARMA layer as one operation: what `ARMAConv` runs when nothing asks for the steps in between.

The composition in `armagnn.nn.arma_conv` says what the layer is. This says the same with fewer passes over memory and
no trip through autograd between two kernels: gradients of the skip connections are added up in place, a buffer that is
spent is written again, and only X, L X and the states are kept, or X alone where the settings say so. A second
derivative goes through the composition.

A layer runs product by product (`layer_products`), which any device can, or its trials or signals go one by one, each
in the cache of a core, where the backend says so (`layer_plan`). It is asked once, and the answer is kept for the way
back. `arma_layer` is one layer, or R of them side by side; `arma_trials` brings the trials of a vmap to it;
`arma_signals` takes many signals on a small graph one by one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from armagnn.kernels import layer_plan
from armagnn.kernels.backends import backend
from armagnn.kernels.layer_plan import Tensors
from armagnn.kernels.layer_products import LayerRun, Matrix, Settings
from armagnn.kernels.products import split
from armagnn.kernels.transforms import gradients_by_loop
from armagnn.torch_private import (
    apply_rule,
    batching,
    forward_mode,
    graph_is_kept,
    is_batched,
    materialised,
    needs_gradient,
    only_vmap,
    recording,
    transforms_active,
)

# ------------------------------------------------------------------------------------------------------------ one layer


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keep: bool, settings: Settings, trials: int, op: Matrix, sparse: Matrix | None, again: Any,
        seed: Tensor | None, x: Tensor | None, w0: Tensor | None, w: Tensor | None, v: Tensor, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        run = LayerRun(settings, op, sparse, x, v, trials)
        propagated, members, keep_states = None, None, keep and not settings.recompute
        if chosen := run.members(seed, w0, w, v, bias):
            members, tensors = chosen
            out, states = members.forward(tensors, keep_states)
        else:
            out, propagated, states = run.forward(seed, w0, w, v, bias, keep_states)
        if keep:
            ctx.batched = False
            ctx.fixed = settings, trials, op, sparse, again, members
            ctx.save_for_backward(seed, x, w0, w, v, bias, propagated, *states)
        return out

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        settings, trials, op, sparse, again, members = ctx.fixed
        seed, x, w0, w, v, bias, propagated, *states = ctx.saved_tensors
        needs = ctx.needs_input_grad[7:]
        if torch.is_grad_enabled():  # somebody wants to differentiate this again
            return *(None,) * 7, *gradients_of(again, (x, w0, w, v, bias), seed, needs, g)
        consume = settings.recompute or (not ctx.batched and not graph_is_kept())
        run = LayerRun(settings, op, sparse, x, v, trials)
        if members is not None:  # as it was chosen on the way there
            tensors = run.tensors(seed, w0, w, v, bias)
            if settings.recompute:
                _, states = members.forward(tensors, True)
            return *(None,) * 7, *members.backward(tensors, g, states, needs[0])
        if settings.recompute:
            _, propagated, states = run.forward(seed, w0, w, v, bias, True)
        gradients = run.backward(g, seed, w0, w, v, bias, propagated, states, needs[0], consume)
        return *(None,) * 7, *gradients


def gradients_of(
    again: Callable[..., Tensor], tensors: tuple[Tensor | None, ...], seed: Tensor | None, needs: tuple[bool, ...],
    g: Tensor,
) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients of a layer so that they can be differentiated again: those of the composition."""
    inputs = [tensor for tensor, need in zip(tensors, needs, strict=True) if need]
    found = iter(torch.autograd.grad(again(*tensors, seed), inputs, g, create_graph=True))  # type: ignore[arg-type]
    return [next(found) if need else None for need in needs]


def arma_layer(
    settings: Settings, op: Matrix, sparse: Matrix | None, again: Callable[..., Tensor], seed: Tensor | None,
    x: Tensor | None, w0: Tensor | None, w: Tensor | None, v: Tensor, bias: Tensor | None, trials: int = 0,
) -> Tensor:  # fmt: skip
    """Return the mean of the stacks (Eq. 16), shape (N * batch, F_out).

    Args:
        settings: what is not a tensor.
        op: the operator, as the kernels take a matrix; its values are fixed.
        sparse: X as such a matrix, or None.
        again: the same function of (x, w0, w, v, bias, seed) by differentiable operations.
        seed: of the dropout masks, or None.
        x: X dense, shape (N * batch, F_in), or None.
        w0: W0, shape (F_in, K * F_out), or None.
        w: W, shape (1 or T - 1, K, F_out, F_out), or None.
        v: V, shape (1 or T, F_in, K * F_out).
        bias: shape (1 or T, K * F_out), or None.
        trials: how many layers these are; their tensors as `LayerRun` has them, and the result of shape (N * R, F_out).
    """
    # within the Function itself, gradients always seem to be off
    tensors = (x, w0, w, v, bias)
    keep = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    return _Layer.apply(keep, settings, trials, op, sparse, again, seed, *tensors)  # type: ignore[no-any-return,no-untyped-call]


def usable(op: Matrix, sparse: Matrix | None) -> bool:
    """Return whether a layer may run as one operation: eager, fixed values, at least one node, no transform."""
    return (
        op[0].shape[0] > 1
        and not op[2].requires_grad
        and not (sparse is not None and sparse[2].requires_grad)
        and not recording()
        and not forward_mode()
        and not transforms_active()
        and not torch.is_autocast_enabled(op[2].device.type)
    )


# --------------------------------------------------------------------------------------------------------------- trials


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


# -------------------------------------------------------------------------------------------------------------- signals


class _Signals(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, settings: Settings, op: Matrix, again: Any, seed: Tensor | None, x: Tensor, w0: Tensor | None,
        w: Tensor, v: Tensor, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        from armagnn.kernels.cpu import layer_of_signals  # numba takes half a second

        ctx.fixed = settings, op, again
        ctx.save_for_backward(seed, x, w0, w, v, bias)
        return layer_of_signals.forward(settings, op, seed, x, (_first(settings, w0, v), w, v, bias))

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        from armagnn.kernels.cpu import layer_of_signals

        settings, op, again = ctx.fixed
        seed, x, w0, w, v, bias = ctx.saved_tensors
        needs = ctx.needs_input_grad[4:]
        if torch.is_grad_enabled():  # somebody wants to differentiate this again

            def of_signals(x: Tensor, *rest: Tensor | None) -> Tensor:
                out: Tensor = again(x.transpose(0, 1).flatten(0, 1), *rest)
                return out.view(x.shape[1], x.shape[0], -1).transpose(0, 1)

            return *(None,) * 4, *gradients_of(of_signals, (x, w0, w, v, bias), seed, needs, g)
        weights = (_first(settings, w0, v), w, v, bias)
        x_grad, w0_grad, w_grad, v_grad, bias_grad = layer_of_signals.backward(
            settings, op, seed, g, x, weights, needs[0]
        )
        if settings.init == "tied":
            assert v_grad is not None
            assert w0_grad is not None
            v_grad[0] += w0_grad
            w0_grad = None
        return *(None,) * 4, x_grad, w0_grad, w_grad, v_grad, bias_grad


def _first(settings: Settings, w0: Tensor | None, v: Tensor) -> Tensor | None:
    """Return what L X is multiplied by in the first step."""
    return v[0] if settings.init == "tied" else w0


def arma_signals(
    settings: Settings, op: Matrix, again: Callable[..., Tensor], seed: Tensor | None, x: Tensor, w0: Tensor | None,
    w: Tensor | None, v: Tensor, bias: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return the mean of the stacks (Eq. 16), shape (..., N, F_out), for x of shape (..., N, F_in).

    The other arguments are those of `arma_layer`; ``again`` takes X node-major, as there. `usable_by_signals` must
    have said yes.
    """
    folded = x.reshape(-1, *x.shape[-2:])
    out: Tensor = _Signals.apply(settings, op, again, seed, folded, w0, w, v, bias)  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], settings.width)


def usable_by_signals(settings: Settings, op: Matrix, x: Tensor, weights: tuple[Tensor | None, ...]) -> bool:
    """Return whether signals (..., N, F_in) go one by one through a layer that may run as one operation.

    The weights are W0, W, V and the bias.
    """
    if x.shape[:-2].numel() < layer_plan.SIGNALS:
        return False
    w0, w, v, bias = weights
    assert v is not None
    one = Tensors(settings, 1, op, None, x[(0,) * (x.dim() - 2)] if x.numel() else None, None, w0, w, v, bias)
    return backend(x.device).takes_signals(one)


# --------------------------------------------------------------------------------------------------------- small graphs


class _Small(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, settings: Settings, op: Matrix, again: Any, x: Tensor, w0: Tensor | None, w: Tensor | None,
        v: Tensor, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        from armagnn.kernels.cpu import small_layer

        tensors = [None if each is None else each.contiguous() for each in (x, w0, w, v, bias)]
        out, kept = small_layer.forward(settings, op, *tensors)  # type: ignore[arg-type]
        ctx.fixed = settings, op, again
        ctx.save_for_backward(kept, x, w0, w, v, bias)
        return out

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        from armagnn.kernels.cpu import small_layer

        settings, op, again = ctx.fixed
        kept, *tensors = ctx.saved_tensors
        needs = ctx.needs_input_grad[3:]
        if torch.is_grad_enabled():  # somebody wants to differentiate this again
            return *(None,) * 3, *gradients_of(again, tuple(tensors), None, needs, g)
        tensors = [None if each is None else each.contiguous() for each in tensors]
        (g,) = materialised((g,))
        x, w0, w, v, bias = tensors
        return *(None,) * 3, *small_layer.backward(settings, op, g.contiguous(), kept, x, w0, w, v, bias, needs[0])


def arma_small(
    settings: Settings, op: Matrix, again: Callable[..., Tensor], x: Tensor, w0: Tensor | None, w: Tensor | None,
    v: Tensor, bias: Tensor | None,
) -> Tensor:  # fmt: skip
    """Return the mean of the stacks (Eq. 16), shape (N, F_out), of a layer without dropout on a small graph.

    X is (N, F_in), W0 (F_in, K, F_out), W (1 or T - 1, K, F_out, F_out), V (1 or T, F_in, K, F_out), and the bias
    (1 or T, K, F_out); ``again`` takes them so. `usable_on_small` must have said yes.
    """
    return _Small.apply(settings, op, again, x, w0, w, v, bias)  # type: ignore[no-any-return,no-untyped-call]


def usable_on_small(settings: Settings, op: Matrix, x: Tensor, weights: tuple[Tensor | None, ...]) -> bool:
    """Return whether a layer that may run as one operation is one for `arma_small`."""
    return backend(x.device).takes_small(settings, op, x, weights)
