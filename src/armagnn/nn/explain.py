"""What PyG's explainers ask of a layer: a mask on every message."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.errors import ParameterError, ShapeError
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.normalize import inverse_sqrt_degree


def masked_operator(
    graph: Any, edge_weight: Tensor | None, x: Tensor | CSR, mask: Tensor, loop_mask: Tensor | None, apply_sigmoid: bool
) -> GraphOperator:
    """Return the ``arma`` operator with the entry of every edge times its mask, differentiable in the mask.

    An explainer masks messages, that is, entries of the operator after its normalisation: the degrees stay those of the
    whole graph. The mask has one number per column of the ``edge_index``, so the graph must come as one.
    """
    if not isinstance(graph, Tensor) or graph.layout is not torch.strided:
        raise ParameterError(
            f"an explainer needs the graph as edge_index of shape (2, E), got {type(graph).__name__}: "
            "call the model with edges while explaining."
        )
    nodes = x.shape[-2]
    if mask.shape != (graph.shape[1],):
        raise ShapeError(f"the edge mask must have shape ({graph.shape[1]},), one per edge, got {tuple(mask.shape)}.")
    adjacency = GraphOperator.from_edge_index(graph, nodes, edge_weight, "adjacency", dtype=x.dtype)
    scale = inverse_sqrt_degree(adjacency)
    entries = scale[graph[0]] * scale[graph[1]] * (mask.sigmoid() if apply_sigmoid else mask)
    if edge_weight is not None:
        entries = entries * edge_weight
    return GraphOperator.from_edge_index(graph, nodes, entries, "adjacency")
