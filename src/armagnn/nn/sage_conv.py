"""The GraphSAGE layer with maxima: PyG's, with our kernel."""

from __future__ import annotations

from collections.abc import Callable

import torch_geometric.nn as pyg
from torch import Tensor

from armagnn import checks, kernels
from armagnn.nn.conv import times
from armagnn.nn.layer_registry import register_layer
from armagnn.nn.pyg_layer import PyGLayer, transposed
from armagnn.operators import GraphOperator


@register_layer("sage")
class SAGEConv(PyGLayer):
    r"""The GraphSAGE layer with the max aggregator,

    .. math::
        \bar x_i = \sigma\left( x_i W_1 + \max_{j \in \mathcal N(i)} x_j W_2 + b \right),

    of `Inductive Representation Learning on Large Graphs <https://arxiv.org/abs/1706.02216>`_: the maximum, feature by
    feature, comes first, and is 0 for a node without neighbours. Where several neighbours have it, each gets its share
    of the gradient; PyG leaves out a part where it is 0. ``dropout`` acts on the input features.

    Example:
        >>> import torch
        >>> conv = SAGEConv(8, 16)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        with checks.room("weight", self.in_channels, self.out_channels):
            self.conv = _Max(self.in_channels, self.out_channels, aggr="max", bias=False)
        self.reset_parameters()


class _Max(pyg.SAGEConv):
    """PyG's GraphSAGE, whose maximum is our kernel's."""

    def forward(self, x: Tensor, op: GraphOperator) -> Tensor:
        most = kernels.neighbour_max(op.rowptr, op.col, *transposed(op), x.flatten(1)).view(x.shape)
        return times(most, self.lin_l.weight.t()) + times(x, self.lin_r.weight.t())
