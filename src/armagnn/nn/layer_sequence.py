"""Layers of one kind, one after another, in the place of a single one."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from torch import Tensor, nn

from armagnn import checks
from armagnn.nn.conv import Conv
from armagnn.operators import CSR, GraphOperator

DEEPEST: Final = 1000
"""The most layers of a stack."""


class LayerSequence(nn.Module):
    r"""L layers of one kind, one after another,

    .. math::
        \bar X = f_L(\dots f_2(f_1(X))),

    the paper's "stack of K layers for GCN, GAT, GIN, and GraphSAGE", which reaches as many hops as a filter of order K.
    The first layer maps F_in to F_out features, the others F_out to F_out. Every layer has an activation: the last one
    the given ``act``, the others the same or, where it is None, ReLU.

    Args:
        layer: the class of the layers.
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output and in between.
        num_layers: L.
        act: the activation of the last layer.
        options: further arguments of every layer. ``dropout`` so acts on the input of each.

    Example:
        >>> import torch
        >>> from armagnn.nn import GCNConv
        >>> stack = LayerSequence(GCNConv, 8, 16, num_layers=2, act=None)
        >>> stack(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
        >>> stack
        LayerSequence(GCNConv(8, 16), GCNConv(16, 16, act=None))
    """

    def __init__(
        self,
        layer: type[Conv],
        in_channels: int,
        out_channels: int,
        num_layers: int,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        **options: Any,
    ) -> None:
        super().__init__()
        num_layers = checks.integer("num_layers", num_layers, 1, DEEPEST)
        make: Callable[..., Conv] = layer
        inner = "relu" if act is None else act
        self.in_channels, self.out_channels, self.kind = in_channels, out_channels, layer.kind
        self.layers = nn.ModuleList(
            make(
                out_channels if depth else in_channels,
                out_channels,
                act=act if depth == num_layers - 1 else copy.deepcopy(inner),  # a learned one is each layer's own
                **options,
            )
            for depth in range(num_layers)
        )

    def reset_parameters(self) -> None:
        """Draw the weights of every layer anew."""
        for layer in self:
            layer.reset_parameters()

    def operator(self, *args: Any, **kwargs: Any) -> GraphOperator:
        """Return the operator that the layers want, as `Conv.operator`; None if they want none."""
        return next(iter(self)).operator(*args, **kwargs)

    def forward(self, x: Tensor | CSR, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the features after the last layer, shape (..., N, F_out); a graph is made an operator once."""
        x, op = next(iter(self))._checked(x, edge_index, edge_weight)
        for layer in self:
            x = layer(x, op)
        return cast(Tensor, x)

    def __iter__(self) -> Iterator[Conv]:
        return cast(Iterator[Conv], iter(self.layers))

    def __len__(self) -> int:
        return len(self.layers)

    def __repr__(self) -> str:
        return f"LayerSequence({', '.join(map(repr, self))})"
