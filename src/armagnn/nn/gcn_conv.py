"""The graph convolutional network of Kipf and Welling (Eq. 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.nn.parameter import Parameter

from armagnn import checks
from armagnn.nn.conv import Conv, empty, propagate, times
from armagnn.nn.layer_registry import register_layer
from armagnn.operators import CSR, GraphOperator


@register_layer("gcn")
class GCNConv(Conv):
    r"""The graph convolution

    .. math::
        \bar X = \sigma(\hat A X W + b), \qquad \hat A = \tilde D^{-1/2} (A + \gamma I) \tilde D^{-1/2},

    Eq. 5 of the paper, from `Semi-Supervised Classification with Graph Convolutional Networks
    <https://arxiv.org/abs/1609.02907>`_: the Chebyshev filter of degree 1 with one weight matrix, whose self-loops of
    weight γ make up for the missing term of degree 0. It works on the ``gcn`` operator, which holds γ: an operator made
    elsewhere is taken with the γ it was built with, whatever this layer's is.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        gamma: γ, the weight of the self-loops in the operators that the layer builds.
        act: the non-linearity σ: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of the input features X is dropped while training.
        bias: add a trained vector b.

    Shapes:
        - ``x``: (..., N, F_in) dense, or (N, F_in) sparse, never made dense.
        - output: (..., N, F_out).
        - ``weight``: (F_in, F_out); ``bias``: (F_out).

    Example:
        >>> import torch
        >>> conv = GCNConv(8, 16, gamma=2.0)
        >>> op = conv.operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> conv(torch.randn(3, 8), op).shape
        torch.Size([3, 16])
        >>> conv
        GCNConv(8, 16, gamma=2.0)
    """

    kind = "gcn"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        gamma: float = 1.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.gamma = checks.real("gamma", gamma, least=0)
        self.weight = Parameter(empty("weight", self.in_channels, self.out_channels))
        self.reset_parameters()

    def _options(self) -> dict[str, Any]:
        return {"gamma": self.gamma}

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        if isinstance(x, Tensor) and self._filters_first(x):
            return times(propagate(op, x), self.weight)
        return propagate(op, times(x, self.weight))

    def _shown(self) -> dict[str, Any]:
        return {} if self.gamma == 1.0 else {"gamma": self.gamma}
