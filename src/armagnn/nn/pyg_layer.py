"""PyTorch Geometric's layers behind the same call as ours: what `gat`, `sage` and `gin` have in common.

The layers and their parameters are PyG's. What they compute from these is computed by our products and kernels: PyG
would write down the features of the source of every edge first, forwards and backwards, and vmap over its linear layers
would multiply node by node.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from armagnn.errors import ParameterError
from armagnn.nn.conv import Conv
from armagnn.operators import CSR, GraphOperator
from armagnn.torch_private import traced


class PyGLayer(Conv):
    """A layer of PyG's on the ``adjacency`` operator: bias and activation are ours, the rest theirs (`conv`).

    Edges are what the operator stores: weights are not used, and parallel edges count once. PyG takes no sparse
    features. So they are made dense here, and only here (not by GIN, which multiplies them first). Trials can be
    batched by ``torch.func.vmap``, as those of our own layers. Gradients of gradients are GIN's only.
    """

    kind = "adjacency"
    conv: Any
    """PyG's layer, which a subclass makes once the sizes are checked."""
    recordable: ClassVar[bool] = False
    """Whether what a recording holds is right for every graph, with parallel edges, too."""

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform, as in our own layers) and set all biases to zero."""
        super().reset_parameters()
        self.conv.reset_parameters()
        for module in self.conv.modules():
            if isinstance(module, nn.Linear | pyg.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    @torch.compiler.disable  # recorded code does not merge parallel edges, which count once here
    def _operator_of(self, x: Tensor | CSR, graph: Any, edge_weight: Tensor | None) -> GraphOperator:
        if traced() and not self.recordable:
            raise ParameterError(
                f"{type(self).__name__} can be recorded neither by torch.export nor by torch.jit.trace: use "
                "torch.compile, or GINConv, or a layer of ours."
            )
        return super()._operator_of(x, graph, edge_weight)

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        out: Tensor = self.conv(x.to_dense().unsqueeze(1) if isinstance(x, CSR) else x, op)
        return out


def transposed(op: GraphOperator) -> tuple[Tensor, Tensor]:
    """Return pointers and columns of the transpose of the pattern.

    Example:
        >>> import torch
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 2, kind="adjacency")
        >>> transposed(op)[0].tolist(), op.rowptr.tolist()
        ([0, 1, 1], [0, 0, 1])
    """
    op = op.require_whole()
    return (op.rowptr, op.col) if op.symmetric else op._structure()[:2]
