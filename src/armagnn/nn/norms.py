"""Normalisation between layers: over the nodes (batch) or over the features of each node (layer)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from armagnn import checks
from armagnn.errors import UnsupportedError
from armagnn.torch_private import is_batched, transforms_active


class NodeBatchNorm(nn.BatchNorm1d):
    r"""Batch normalisation of the features of nodes, with trials as an axis,

    .. math::
        \bar x_{if} = \gamma_f \, \frac{x_{if} - m_f}{\sqrt{v_f + \varepsilon}} + \beta_f,

    with mean and variance over all nodes (and signals) while training, and their running means otherwise. It computes
    what ``torch.nn.BatchNorm1d`` computes, of features (..., N, F), and works under ``torch.func.vmap``: then each
    trial has running means of its own, so they must be given as the parameters are,
    ``functional_call(net, (params, buffers), x)``.

    Args:
        num_features: F.
        counted: keep ``num_batches_tracked``, an integer in the state, as torch does.
        options: ``eps``, ``momentum``, ``affine``, ``track_running_stats`` of ``torch.nn.BatchNorm1d``.

    Example:
        >>> norm = NodeBatchNorm(4)
        >>> norm(torch.randn(2, 5, 4)).shape
        torch.Size([2, 5, 4])
    """

    def __init__(self, num_features: int, counted: bool = True, **options: Any) -> None:
        super().__init__(checks.integer("num_features", num_features, 1), **options)
        if not checks.flag("counted", counted) and self.momentum is not None:
            self.num_batches_tracked = None

    def reset_running_stats(self) -> None:
        """Set the running means to 0 and 1."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.zero_()

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        if self.num_batches_tracked is None:  # torch would put one into a state that has none
            state_dict.pop(f"{prefix}num_batches_tracked", None)
            nn.Module._load_from_state_dict(self, state_dict, prefix, *args)
            return
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised features, shape (..., N, F)."""
        if not transforms_active():
            return super().forward(x.reshape(-1, x.shape[-1])).reshape(x.shape)
        mean, var = self.running_mean, self.running_var
        if self.training or mean is None or var is None:
            axes = tuple(range(x.dim() - 1))
            found, spread = x.mean(axes), x.var(axes, correction=0)
            if self.training and mean is not None and var is not None:
                self._track(mean, var, found.detach(), spread.detach(), x.numel() // x.shape[-1])
            mean, var = found, spread
        out = (x - mean) * torch.rsqrt(var + self.eps)
        return out if self.weight is None else out * self.weight + self.bias

    def _track(self, mean: Tensor, var: Tensor, found: Tensor, spread: Tensor, count: int) -> None:
        """Move the running means towards those of these nodes; the variance is the unbiased one, as in torch."""
        if is_batched(found) and not is_batched(mean):
            raise UnsupportedError(
                "batch normalisation of many trials needs running means for each: give the buffers along with the "
                "parameters, functional_call(net, (params, buffers), x), or use track_running_stats=False."
            )
        rate: Any = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            rate = 1.0 / self.num_batches_tracked.to(found.dtype) if rate is None else rate
        with torch.no_grad():
            mean.add_(rate * (found - mean))
            var.add_(rate * (spread * (count / max(count - 1, 1)) - var))


class NodeLayerNorm(nn.LayerNorm):
    r"""Layer normalisation of each node: its F features get mean 0 and variance 1, then a scale and a shift.

    It is ``torch.nn.LayerNorm`` over the last axis, which needs no other node and so no running means.

    Args:
        num_features: F.

    Example:
        >>> NodeLayerNorm(4)(torch.randn(2, 5, 4)).shape
        torch.Size([2, 5, 4])
    """

    def __init__(self, num_features: int) -> None:
        super().__init__(checks.integer("num_features", num_features, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised features, shape (..., N, F)."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


NORMS: Final[dict[str, Callable[[int], nn.Module]]] = {
    "batch": partial(NodeBatchNorm, counted=False),
    "layer": NodeLayerNorm,
}
"""The norms that go by a name in a training, as functions of the number of features; "none" is none."""
