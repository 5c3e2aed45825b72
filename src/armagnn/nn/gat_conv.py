"""The graph attention layer: PyG's, with our kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch_geometric.nn as pyg
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import ParameterError
from armagnn.nn.conv import times
from armagnn.nn.layer_registry import register_layer
from armagnn.nn.pyg_layer import PyGLayer, transposed
from armagnn.operators import GraphOperator
from armagnn.torch_private import as_they_are

HEADS: Final = 8
"""Heads, unless one asks for others: the paper's."""

FEWEST: Final = 8
"""Neighbours of a node, on average, from which on averaged heads attend x: with fewer, the products cost more than what
is collected."""


@register_layer("gat")
class GATConv(PyGLayer):
    r"""The graph attention layer

    .. math::
        \bar x_i = \sigma\left( \frac{1}{H} \sum_{h=1}^H \sum_{j \in \mathcal N(i) \cup \{i\}}
        \alpha_{ij}^h x_j W_h + b \right),

    of `Graph Attention Networks <https://arxiv.org/abs/1710.10903>`_, with PyG's attention coefficients α and, by
    default, the paper's 8 heads. The heads are averaged, so that the output has F_out features whatever their number;
    with ``concat`` each head has F_out / H features and they stand side by side.

    ``dropout`` acts on the input features; the attention coefficients are not dropped.

    Example:
        >>> import torch
        >>> conv = GATConv(8, 16)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = HEADS,
        concat: bool = False,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        heads, concat, width = checks.integer("heads", heads, 1), checks.flag("concat", concat), self.out_channels
        if concat and width % heads:
            raise ParameterError(f"concat=True needs out_channels divisible by heads={heads}, got {width}.")
        width = width // heads if concat else width
        with checks.room("weight", heads, width, self.in_channels):
            self.conv = _Attention(self.in_channels, width, heads, concat, bias=False)
        self.reset_parameters()

    def _shown(self) -> dict[str, Any]:
        return {"heads": self.conv.heads} | ({"concat": True} if self.conv.concat else {})


class _Attention(pyg.GATConv):
    """PyG's GAT, whose attention is our kernel's."""

    def forward(self, x: Tensor, op: GraphOperator) -> Tensor:
        many = op.nnz >= FEWEST * op.num_nodes
        if many and not self.concat and self.in_channels <= self.out_channels:
            return self._narrow(x, op)
        z = times(x, self.lin.weight.t()).view(*x.shape[:2], self.heads, self.out_channels)
        source, target = ((z * att).sum(-1).flatten(1) for att in (self.att_src, self.att_dst))
        # the heads of all signals are heads side by side
        out = kernels.neighbour_attention(
            (op.rowptr, op.col), transposed(op), z.flatten(1, 2), source, target, self.negative_slope
        )
        out = out.view(z.shape)
        return out.flatten(-2) if self.concat else out.mean(-2)

    def _narrow(self, x: Tensor, op: GraphOperator) -> Tensor:
        """Return the average of the heads from x, which is narrower than what their matrices make of it."""
        weight = self.lin.weight.view(self.heads, self.out_channels, -1)  # (H, F_out, F_in)
        with as_they_are(x.device):  # autocast would round the scores
            x = x.to(weight.dtype)
            turned = (att.transpose(0, 1) @ weight for att in (self.att_src, self.att_dst))  # (H, 1, F_in)
            source, target = (times(x, matrix.squeeze(1).t()) for matrix in turned)
            each = weight.transpose(1, 2).unsqueeze(0) / self.heads
            there = op.rowptr, op.col
            return kernels.added_attention(there, transposed(op), x, each, source, target, self.negative_slope)
