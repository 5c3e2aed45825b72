"""Filters as dense matrices: what many signals on one small graph want of a GPU.

A polynomial of a sparse operator is a chain of products, each a launch that keeps a GPU busy for a moment. On a graph
of some hundred nodes the matrices of the polynomial are small: made once, they make a filter one dense product.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import torch
from torch import Tensor

from armagnn.nn.keep import once_per_operator
from armagnn.operators import GraphOperator
from armagnn.operators.modes import may_be_kept, normal_mode

MOST_NODES: Final = 1024
"""Nodes of a small graph: a matrix of it has 4 MiB in float32."""

MOST_TERMS: Final = 64
"""Matrices that are kept of a graph, for one filter."""

FEWEST_SIGNALS: Final = 16
"""Signals for which the matrices of a graph are worth making. Batches of graphs, which change, are one signal."""


def dense_pays(op: GraphOperator, signals: int, terms: int) -> bool:
    """Return whether so many signals are filtered faster by so many dense matrices than by the sparse operator.

    Example:
        >>> dense_pays(GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]])), 100, 25)  # on a CPU, never
        False
    """
    small = op.num_nodes <= MOST_NODES and terms <= MOST_TERMS
    return op.device.type == "cuda" and small and signals >= FEWEST_SIGNALS and dense_can(op)


def dense_can(op: GraphOperator) -> bool:
    """Return whether matrices can be kept for an operator: its values are no variables, nothing is being compiled."""
    return not op.value.requires_grad and not torch.compiler.is_compiling()


def dense_terms(op: GraphOperator, key: Hashable, terms: Callable[[Tensor], list[Tensor]]) -> Tensor:
    """Return the matrices, shape (M, N, N), of linear ``terms`` of a signal; made once, and kept under ``key``.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        >>> dense_terms(op, "hop", lambda x: [op @ x]).squeeze(0)
        tensor([[0., 1.],
                [1., 0.]])
    """
    kept = _matrices(op)
    found = kept.get(key)
    if found is None:  # made as in no special mode: what the first call was made in must not show in the others
        with normal_mode(), torch.no_grad(), torch.autocast(op.device.type, enabled=False):
            found = torch.stack(terms(torch.eye(op.num_nodes, dtype=op.dtype, device=op.device)))
        if may_be_kept(found):
            kept[key] = found
    return found


@once_per_operator
def _matrices(op: GraphOperator) -> dict[Hashable, Tensor]:
    return {}
