"""GAT, GraphSAGE and GIN: PyTorch Geometric's layers behind the same call as ours.

The layers and their parameters are PyG's. What they compute from these is computed by our products and kernels: PyG
would write down the features of the source of every edge first, forwards and backwards, and vmap over its linear layers
would multiply node by node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch_geometric.nn as pyg
from torch import Tensor, nn

from armagnn import kernels
from armagnn.errors import ParameterError
from armagnn.kernels.transforms import as_they_are
from armagnn.nn.checks import check_size
from armagnn.nn.conv import Conv, propagate, times
from armagnn.nn.keep import once_per_operator
from armagnn.nn.linear import Linear
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.modes import may_be_kept, normal_mode

FEWEST: Final = 8
"""Neighbours of a node, on average, from which on averaged heads attend x: with fewer, the products cost more than what
is collected."""


class Peer(Conv):
    """A layer of PyG's on the ``adjacency`` operator: bias and activation are ours, the rest theirs (`conv`).

    Edges are what the operator stores: weights are not used, and parallel edges count once. PyG takes no sparse
    features. So they are made dense here, and only here (not by GIN, which multiplies them first). Trials can be
    batched by ``torch.func.vmap``, as those of our own layers. Gradients of gradients are GIN's only.
    """

    kind = "adjacency"

    def __init__(
        self,
        conv: Any,
        in_channels: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None,
        dropout: float,
        bias: bool,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.conv = conv()  # made after the sizes were checked
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform, as in our own layers) and set all biases to zero."""
        super().reset_parameters()
        self.conv.reset_parameters()
        for module in self.conv.modules():
            if isinstance(module, nn.Linear | pyg.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def _filter(self, x: Tensor | CSR, op: GraphOperator | None) -> Tensor:
        out: Tensor = self.conv(x.to_dense().unsqueeze(1) if isinstance(x, CSR) else x, op)
        return out


class GATConv(Peer):
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
        heads: int = 8,
        concat: bool = False,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        check_size("heads", heads)

        def conv() -> Any:
            if concat and out_channels % heads:
                raise ParameterError(f"concat=True needs out_channels divisible by heads={heads}, got {out_channels}.")
            width = out_channels // heads if concat else out_channels
            return _Attention(in_channels, width, heads, concat, bias=False)

        super().__init__(conv, in_channels, out_channels, act, dropout, bias)

    def _settings(self) -> dict[str, Any]:
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


class SAGEConv(Peer):
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
        super().__init__(
            lambda: _Max(in_channels, out_channels, aggr="max", bias=False),
            in_channels, out_channels, act, dropout, bias,
        )  # fmt: skip


class _Max(pyg.SAGEConv):
    """PyG's GraphSAGE, whose maximum is our kernel's."""

    def forward(self, x: Tensor, op: GraphOperator) -> Tensor:
        most = kernels.neighbour_max(op.rowptr, op.col, *transposed(op), x.flatten(1)).view(x.shape)
        return times(most, self.lin_l.weight.t()) + times(x, self.lin_r.weight.t())


class GINConv(Peer):
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

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
        hidden: int | None = None,
    ) -> None:
        if hidden is not None:
            check_size("hidden", hidden)

        def conv() -> Any:
            width = out_channels if hidden is None else hidden
            mlp = nn.Sequential(
                Linear(in_channels, width, bias),
                nn.ReLU(),
                Linear(width, width, bias),
                nn.ReLU(),
                Linear(width, out_channels, False),  # its bias is the layer's
            )
            return _ProductFirst(mlp, train_eps=True)

        super().__init__(conv, in_channels, out_channels, act, dropout, bias)
        self.hidden = hidden

    def _filter(self, x: Tensor | CSR, op: GraphOperator | None) -> Tensor:
        return super()._filter(times(x, self.conv.nn[0].weight.t()), op)

    def _settings(self) -> dict[str, Any]:
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
        ones = (op.value != 0).to(op.dtype)
        found = op._new(op.rowptr, op.col, ones, op.shape, op._transposed, op.symmetric)
    if may_be_kept(ones):
        kept.append(found)
    return found


@once_per_operator
def _kept(op: GraphOperator) -> list[GraphOperator]:
    return []


def transposed(op: GraphOperator) -> tuple[Tensor, Tensor]:
    """Return pointers and columns of the transpose of the pattern.

    Example:
        >>> import torch
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 2, kind="adjacency")
        >>> transposed(op)[0].tolist(), op.rowptr.tolist()
        ([0, 1, 1], [0, 0, 1])
    """
    return (op.rowptr, op.col) if op.symmetric else op._structure()[:2]
