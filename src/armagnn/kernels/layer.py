"""A whole ARMA layer as one operation: what `ARMAConv` runs when nothing asks for the steps in between.

The composition in `armagnn.nn.arma_recursion` says what the layer is. This says the same with fewer passes over memory
and no trip through autograd between two kernels: gradients of the skip connections are added up in place, a buffer that
is spent is written again, and only X, L X and the states are kept, or X alone where the settings say so. A second
derivative goes through the composition.

How a layer runs, its plan, the backend is asked once (`Backend.plan`), and the answer is kept for the way back: product
by product (`layer_products`), which any device can; on a processor also signal by signal or trial by trial in the
cache of a core, and on a small graph in one call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from armagnn.kernels import layer_products
from armagnn.kernels.backends import Layer, Matrix, Plan, Settings, backend
from armagnn.torch_private import (
    apply_rule,
    batching,
    forward_mode,
    gradients_by_loop,
    graph_is_kept,
    is_batched,
    needs_gradient,
    only_vmap,
    recording,
    transforms_active,
)

Fixed = tuple[Settings, int, Matrix, Matrix | None]
"""What a `Layer` begins with."""

Composition = Callable[..., Tensor]
"""The layer by differentiable operations, of (x, values of a sparse X, w0, w, v, bias, seed, drop rate or None)."""


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keep: bool, plan: Plan, fixed: Fixed, again: Callable[..., Tensor], seed: Tensor | None,
        x: Tensor | None, w0: Tensor | None, w: Tensor | None, v: Tensor, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        layer = Layer(*fixed, seed, x, w0, w, v, bias)
        out, kept = plan.forward(layer, keep and not layer.settings.recompute)
        if keep:
            ctx.batched = False
            ctx.fixed = plan, fixed, again
            ctx.save_for_backward(seed, x, w0, w, v, bias, *kept)
        return out

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        plan, (settings, trials, op, sparse), again = ctx.fixed
        seed, x, w0, w, v, bias, *kept = ctx.saved_tensors
        needs = ctx.needs_input_grad[5:]
        if torch.is_grad_enabled():  # somebody wants to differentiate this again
            return *(None,) * 5, *_gradients_of(again, (x, w0, w, v, bias), seed, needs, g)
        layer = Layer(settings, trials, op, sparse, seed, x, w0, w, v, bias)
        if settings.recompute and plan.keeps(layer):
            _, kept = plan.forward(layer, True)
        consume = settings.recompute or (not ctx.batched and not graph_is_kept())
        return *(None,) * 5, *plan.backward(layer, g, kept, needs[0], consume)


def _gradients_of(
    again: Callable[..., Tensor], tensors: tuple[Tensor | None, ...], seed: Tensor | None, needs: tuple[bool, ...],
    g: Tensor,
) -> list[Tensor | None]:  # fmt: skip
    """Return the gradients of a layer so that they can be differentiated again: those of the composition."""
    inputs = [tensor for tensor, need in zip(tensors, needs, strict=True) if need]
    found = iter(torch.autograd.grad(again(*tensors, seed), inputs, g, create_graph=True))  # type: ignore[arg-type]
    return [next(found) if need else None for need in needs]


def run(layer: Layer, again: Callable[..., Tensor], plan: Plan | None = None) -> Tensor:
    """Return the mean of the stacks; ``again`` is the same function of (x, w0, w, v, bias, seed)."""
    plan = plan or backend(layer.v.device).plan(layer) or layer_products
    # within the Function itself, gradients always seem to be off
    keep = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in layer[5:])
    return _Layer.apply(keep, plan, layer[:4], again, *layer[4:])  # type: ignore[no-any-return,no-untyped-call]


def arma_layer(
    settings: Settings, op: Matrix, sparse: Matrix | None, again: Composition, seed: Tensor | None, x: Tensor | None,
    w0: Tensor | None, w: Tensor | None, v: Tensor, bias: Tensor | None, plan: Plan | None = None,
) -> Tensor | None:  # fmt: skip
    """Return the mean of the stacks (Eq. 16), shape (..., N, F_out); None where the layer must take the composition.

    Under vmap the layers of all trials run as one.

    Args:
        settings: what is not a tensor.
        op: the operator.
        sparse: X as a matrix, behind which the permutation of its transpose stands; or None.
        again: the composition.
        seed: of the dropout masks, or None.
        x: X dense, shape (..., N, F_in), or None.
        w0: W0, shape (F_in, K, F_out), or None.
        w: W, shape (1 or T - 1, K, F_out, F_out), or None.
        v: V, shape (1 or T, F_in, K, F_out).
        bias: shape (1 or T, K, F_out), or None.
        plan: how an operator runs a layer of which this process has some rows only; not under vmap.
    """
    value = None if sparse is None else sparse[2]
    rate = settings.p if seed is not None and isinstance(settings.p, Tensor) else None
    if not transforms_active():
        if not usable(op, value):
            return None
        layer = Layer(settings, 0, op, sparse, seed, x, w0, w, v, bias)
        return run(layer, lambda x, *rest: again(x, value, *rest, rate), plan)
    tensors = x, value, w0, w, v, bias, seed, rate
    if plan is not None or not usable_by_trials(op, sparse, tensors):
        return None
    interpreter = batching()
    assert interpreter is not None
    return apply_rule(interpreter, functools.partial(_of_trials, settings, op, sparse, again), tensors)


def usable(op: Matrix, value: Tensor | None) -> bool:
    """Return whether a layer may run as one operation: eager, fixed values, at least one node."""
    return (
        op[0].shape[0] > 1
        and not op[2].requires_grad
        and not (value is not None and value.requires_grad)
        and not recording()
        and not forward_mode()
        and not torch.is_autocast_enabled(op[2].device.type)
    )


def usable_by_trials(op: Matrix, sparse: Matrix | None, tensors: tuple[Tensor | None, ...]) -> bool:
    """Return whether a layer under vmap may run as one operation for all trials: nothing else is transformed.

    What may differ from trial to trial are X, the values of a sparse X, which must need no gradient, W0, W, V, the
    bias, seed and rate.
    """
    x, value, *_ = tensors
    if not only_vmap() or (x is not None and x.dim() > 2):
        return False
    shared = op if sparse is None else (*op, *sparse[:2], *sparse[3:])
    return (
        op[0].shape[0] > 1
        and not any(is_batched(tensor) for tensor in shared if tensor is not None)
        and not op[2].requires_grad
        and not (value is not None and needs_gradient(value))
        and any(is_batched(tensor) for tensor in tensors[:6] if tensor is not None)
        and not recording()
        and not forward_mode()
        and not torch.is_autocast_enabled(op[2].device.type)
    )


def _first(tensor: Tensor | None, dim: int | None, trials: int) -> Tensor | None:
    """Return the tensor with the trials, which it may not have, as its first axis."""
    if tensor is None:
        return None
    return tensor.expand(trials, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _of_trials(
    settings: Settings, op: Matrix, sparse: Matrix | None, again: Composition, info: Any,
    in_dims: tuple[int | None, ...], x: Tensor | None, value: Tensor | None, *rest: Tensor | None,
) -> tuple[Tensor, int]:  # fmt: skip
    """Run the layers of all trials of a vmap as one."""
    trials: int = info.batch_size
    x_dim, value_dim, *dims = in_dims
    x = x if x is None or x_dim is None else x.movedim(x_dim, 0)
    if sparse is not None and value is not None:
        value = value if value_dim is None else value.movedim(value_dim, 0).contiguous()
        sparse = *sparse[:2], value, *sparse[3:]
    w0, w, v, bias, seed, p = (_first(tensor, dim, trials) for tensor, dim in zip(rest, dims, strict=True))
    if seed is not None:
        seed = seed.reshape(trials)
        if p is None:
            p = torch.full((trials,), float(settings.p), dtype=torch.float64, device=seed.device)
        settings = settings._replace(p=p.reshape(trials).contiguous())

    def of_all(x: Tensor | None, *rest: Tensor | None) -> Tensor:
        """Return the same by vmap over the composition."""
        *weights, seed = rest
        keys, rates = (None, None) if seed is None else (seed.unsqueeze(1), settings.p)
        inputs: tuple[Any, ...] = x, value, *weights, keys, rates
        own = [x is not None and x_dim is not None, value is not None and value.dim() == 2]
        own += [tensor is not None for tensor in inputs[2:]]
        return torch.func.vmap(again, tuple(0 if each else None for each in own))(*inputs)

    assert v is not None
    out = run(Layer(settings, trials, op, sparse, seed, x, w0, w, v, bias), of_all)
    return out.transpose(0, 1), 1
