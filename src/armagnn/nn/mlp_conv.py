"""A dense layer that looks at no graph: the baseline of all baselines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import Parameter

from armagnn import kernels
from armagnn.nn.conv import Conv, empty, times
from armagnn.nn.layer_registry import register_layer
from armagnn.operators import CSR, GraphOperator


@register_layer("mlp")
class MLPConv(Conv):
    r"""The dense layer

    .. math::
        \bar X = \sigma(X W + b)

    behind the same call as the graph convolutions, so that it can stand in their place: what a network does with the
    features alone. The graph may be anything, or None; it is not looked at. A stack of them is a multilayer perceptron.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        act: the non-linearity σ: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of the input features X is dropped while training.
        bias: add a trained vector b.

    Shapes:
        - ``x``: (..., N, F_in) dense, or (N, F_in) sparse, never made dense.
        - output: (..., N, F_out).
        - ``weight``: (F_in, F_out); ``bias``: (F_out).

    Example:
        >>> import torch
        >>> MLPConv(8, 16)(torch.randn(3, 8)).shape
        torch.Size([3, 16])
    """

    kind = None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.weight = Parameter(empty("weight", self.in_channels, self.out_channels))
        self.reset_parameters()

    def forward(self, x: Tensor | CSR, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the new features, shape (..., N, F_out), of (..., N, F_in) dense or (N, F_in) sparse ones."""
        return super().forward(x, edge_index, edge_weight)

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        return times(x, self.weight)


class Linear(nn.Linear):
    r"""The layer :math:`X W^\top + b` of torch, whose product is `kernels.product`.

    The product has two axes whatever x has: vmap over the weights then is one batched product, not one for every node.

    Example:
        >>> import torch
        >>> Linear(3, 2)(torch.randn(5, 4, 3)).shape
        torch.Size([5, 4, 2])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the new features, shape (..., F_out)."""
        out = kernels.product(input.flatten(0, -2) if input.dim() > 2 else input, self.weight.t())
        out = out.reshape(*input.shape[:-1], self.out_features)
        return out if self.bias is None else out + self.bias.to(out.dtype)  # of another type only under autocast
