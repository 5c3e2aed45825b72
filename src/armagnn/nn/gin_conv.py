"""The graph isomorphism layer: PyG's, with our products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from armagnn import checks
from armagnn.nn.conv import propagate, times
from armagnn.nn.layer_registry import register_layer
from armagnn.nn.mlp_conv import Linear
from armagnn.nn.pyg_layer import PyGLayer
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.building import first_of_place
from armagnn.operators.kept import may_be_kept, once_per_operator
from armagnn.torch_private import normal_mode, traced


@register_layer("gin")
class GINConv(PyGLayer):
    r"""The graph isomorphism layer

    .. math::
        \bar x_i = \sigma\left( \mathrm{MLP}\left( (1 + \epsilon) x_i + \sum_{j \in \mathcal N(i)} x_j \right) \right),

    of `How Powerful are Graph Neural Networks? <https://arxiv.org/abs/1810.00826>`_, with a trained ε that starts at 0
    and, as in the paper, an MLP with 2 hidden ReLU layers. ``hidden`` is their width; by default it is F_out, which in
    an output layer, of few classes, is too narrow to learn from. ``dropout`` acts on the input features.

    The first product of the MLP comes before the sum, as both are linear: F_in may be wide, and sparse. An edge of
    weight 0 is none.

    Example:
        >>> import torch
        >>> conv = GINConv(8, 16)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
    """

    recordable = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        hidden: int | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        fan_in, fan_out = self.in_channels, self.out_channels
        if hidden is not None:
            hidden = checks.integer("hidden", hidden, 1, extra=" (or None for that of the output)")
        self.hidden, width = hidden, fan_out if hidden is None else hidden
        with checks.room("weight", width, max(fan_in, width, fan_out)):
            first, second = Linear(fan_in, width, bias), Linear(width, width, bias)
            last = Linear(width, fan_out, False)  # its bias is the layer's
        self.conv = _ProductFirst(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last), train_eps=True)
        self.reset_parameters()

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        return super()._filter(times(x, self.conv.nn[0].weight.t()), op)

    def _shown(self) -> dict[str, Any]:
        return {} if self.hidden is None else {"hidden": self.hidden}


class _ProductFirst(pyg.GINConv):
    """PyG's GIN, of features that the first matrix of its MLP has met already; the sum is a product with a matrix."""

    def forward(self, x: Tensor, op: GraphOperator) -> Tensor:
        first, *rest = self.nn
        out = propagate(pattern(op), x) + (1 + self.eps) * x
        out = out if first.bias is None else out + first.bias
        for layer in rest:
            out = layer(out)
        return out  # type: ignore[no-any-return]


def pattern(op: GraphOperator) -> GraphOperator:
    """Return the operator with ones in the place of its entries. Stored zeros, as of padding, stay zeros.

    It is made once per operator.

    Example:
        >>> import torch
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 2, torch.tensor([0.5]), kind="adjacency")
        >>> pattern(op).to_dense()
        tensor([[0., 0.],
                [1., 0.]])
    """
    kept = _kept(op)
    if kept:
        return kept[0]
    with normal_mode():
        ones = (op.value != 0).to(op.dtype) if not traced() else _merged(op)
        found = op._new(op.rowptr, op.col, ones, op.shape, op._transposed, op.symmetric)
    if may_be_kept(ones):
        kept.append(found)
    return found


def _merged(op: GraphOperator) -> Tensor:
    """Return the ones of a pattern in recorded code, where parallel edges are not merged: one for each place."""
    first = first_of_place(op)
    place = first.long().cumsum(0) - 1
    total = torch.zeros_like(op.value).index_add(0, place, op.value)
    return (first & (total.index_select(0, place) != 0)).to(op.dtype)


@once_per_operator
def _kept(op: GraphOperator) -> list[GraphOperator]:
    return []
