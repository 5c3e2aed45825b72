"""A whole ARMA layer as one operation: what `ARMAConv` runs when nothing asks for the steps in between.

The composition in `armagnn.nn.arma_conv` says what the layer is. This says the same with fewer passes over memory and
no trip through autograd between two kernels: gradients of the skip connections are added up in place, a buffer that is
spent is written again, and only X, L X and the states are kept. A second derivative goes through the composition.

`layer_run` has the passes; trials are an axis there, and `layer_trials` is how vmap comes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.layer_run import LayerRun, Matrix, Settings
from armagnn.kernels.transforms import gradients_by_loop
from armagnn.torch_private import forward_mode, graph_is_kept, recording, transforms_active


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keep: bool, settings: Settings, trials: int, op: Matrix, sparse: Matrix | None, again: Any,
        seed: Tensor | None, x: Tensor | None, w0: Tensor | None, w: Tensor | None, v: Tensor, bias: Tensor | None,
    ) -> Tensor:  # fmt: skip
        run = LayerRun(settings, op, sparse, x, v, trials)
        propagated, members = None, None
        if chosen := run.members(seed, w0, w, v, bias):
            members, tensors = chosen
            out, states = members.forward(tensors, keep)
        else:
            out, propagated, states = run.forward(seed, w0, w, v, bias, keep)
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
        consume = not ctx.batched and not graph_is_kept()
        run = LayerRun(settings, op, sparse, x, v, trials)
        if members is not None:  # as it was chosen on the way there
            return *(None,) * 7, *members.backward(run.tensors(seed, w0, w, v, bias), g, states, needs[0])
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
