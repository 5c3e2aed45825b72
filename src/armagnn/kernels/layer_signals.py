"""An ARMA layer for many signals on one small graph, as one operation of the processor: see `cpu/layer_of_signals`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.backends import backend
from armagnn.kernels.layer import gradients_of
from armagnn.kernels.layer_plan import Tensors
from armagnn.kernels.layer_run import Matrix, Settings
from armagnn.kernels.transforms import gradients_by_loop


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
    w0, w, v, bias = weights
    assert v is not None
    one = Tensors(settings, 1, op, None, x[(0,) * (x.dim() - 2)] if x.numel() else None, None, w0, w, v, bias)
    return backend(x.device).takes_signals(one, x.shape[:-2].numel())
