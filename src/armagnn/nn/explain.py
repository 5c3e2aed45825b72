"""What PyG's explainers ask of a layer: a mask on every message."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.errors import ParameterError, ShapeError
from armagnn.operators import CSR, GraphOperator, entries, normalize


def masked_operator(
    graph: Any, edge_weight: Tensor | None, x: Tensor | CSR, mask: Tensor, apply_sigmoid: bool
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
    weight = entries.edge_weight(edge_weight, graph, x.dtype)
    normalize.check_weights("arma", weight)
    adjacency = GraphOperator.from_edge_index(graph, nodes, weight, "adjacency")
    scale = normalize.inverse_sqrt_degree(adjacency)
    source, target = graph.long()
    masked = weight * (scale[source] * scale[target]) * (mask.sigmoid() if apply_sigmoid else mask)
    return GraphOperator.from_edge_index(graph, nodes, masked, "adjacency")
