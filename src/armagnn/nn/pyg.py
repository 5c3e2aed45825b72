"""What PyTorch Geometric asks of an `ARMAConv`: conversion from and to its own layer, and an explainer's edge masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import ARMAConv as PyGConv

from armagnn.errors import DTypeError, ParameterError, ShapeError
from armagnn.nn import activations
from armagnn.operators import CSR, GraphOperator, building, entries

if TYPE_CHECKING:
    from armagnn.nn.arma_conv import ARMAConv


def from_pyg(ours: type[ARMAConv], conv: Any) -> ARMAConv:
    """Return the layer that computes the same function as a PyG ``ARMAConv``, weight for weight.

    They are equal while dropout is off: PyG drops entries of X, not of X V.
    """
    if not isinstance(conv, PyGConv):
        raise DTypeError(f"expected a torch_geometric.nn.ARMAConv, got {type(conv).__name__}.")
    if isinstance(conv.init_weight, UninitializedParameter):
        raise ParameterError("this PyG layer is lazy and has not seen an input yet: run it once, then convert.")
    if conv.flow != "source_to_target" or conv.aggr != "add":
        raise ParameterError(
            "only flow='source_to_target' with aggr='add' is the ARMA layer, "
            f"got flow={conv.flow!r}, aggr={conv.aggr!r}."
        )
    made: ARMAConv = ours(
        conv.init_weight.shape[1],
        conv.out_channels,
        conv.num_stacks,
        conv.num_layers,
        conv.shared_weights,
        act=conv.act,
        dropout=conv.dropout,
        bias=conv.bias is not None,
    ).to(conv.init_weight.device, conv.init_weight.dtype)
    steps = 1 if conv.shared_weights else conv.num_layers  # a formerly lazy PyG layer may hold a second, unused V
    with torch.no_grad():
        made.initial_weight.copy_(conv.init_weight.transpose(0, 1))
        made.skip_weight.copy_(conv.root_weight[:steps].transpose(1, 2))
        if made.weight is not None:
            made.weight.copy_(conv.weight)
        if made.bias is not None:
            made.bias.copy_(conv.bias.squeeze(2))
    made.train(conv.training)
    return made


def to_pyg(conv: ARMAConv) -> PyGConv:
    """Return the PyG ``ARMAConv`` that computes the same function, weight for weight.

    PyG has no ``init``: X(0) = 0 becomes a zero W0, a tied W0 a copy of V.
    """
    if conv.fixed_point is not None:
        raise ParameterError("PyG's layer takes a fixed number of steps: one with fixed_point has no counterpart.")
    if conv.in_channels == -1:
        raise ParameterError("this layer is lazy and has not seen an input yet: run it once, then convert.")
    theirs = PyGConv(
        conv.in_channels,
        conv.out_channels,
        conv.num_stacks,
        conv.num_layers,
        conv.shared_weights,
        act=activations.module(conv.act),
        dropout=conv.dropout,
        bias=conv.bias is not None,
    ).to(conv.skip_weight.device, conv.skip_weight.dtype)
    first: Tensor | None = {"linear": conv.initial_weight, "tied": conv.skip_weight[0], "zero": None}[conv.init]
    with torch.no_grad():
        theirs.init_weight.zero_() if first is None else theirs.init_weight.copy_(first.transpose(0, 1))
        theirs.root_weight.copy_(conv.skip_weight.transpose(1, 2))
        if conv.weight is not None:
            theirs.weight.copy_(conv.weight)
        if conv.bias is not None:
            theirs.bias.copy_(conv.bias.unsqueeze(2))
    return theirs.train(conv.training)


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
    building.check_weights("arma", weight)
    adjacency = GraphOperator.from_edge_index(graph, nodes, weight, "adjacency")
    scale = building.inverse_sqrt_degree(adjacency)
    source, target = graph.long()
    masked = weight * (scale[source] * scale[target]) * (mask.sigmoid() if apply_sigmoid else mask)
    return GraphOperator.from_edge_index(graph, nodes, masked, "adjacency")
