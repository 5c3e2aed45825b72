r"""Signals and topologies that change over time: one GCS step for each instant (Section 4.2).

The constant X of Eq. 14 becomes a time-dependent input, and the operator may change with it:

.. math::
    \bar X_k^{(t+1)} = \sigma\left( \tilde L^{(t)} \bar X_k^{(t)} W_k + X^{(t)} V_k \right).

The first instant starts from the X(0) that the layer's ``init`` names; a constant sequence of T instants is the layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.errors import DTypeError, ParameterError, ShapeError
from armagnn.nn.contraction import check_operator
from armagnn.nn.convergent import check_state
from armagnn.nn.recursion import Recursion
from armagnn.operators import CSR, GraphOperator

if TYPE_CHECKING:
    from armagnn.nn.arma import ARMAConv


def outputs(conv: ARMAConv, xs: Any, graphs: Any, edge_weight: Any = None) -> Iterator[Tensor]:
    """Yield the layer's output at every instant, the mean of the stacks, shape (..., N, F_out).

    Args:
        conv: the layer.
        xs: X(t), a list or tuple of features, or a tensor of shape (T, ..., N, F_in).
        graphs: one graph for all instants, or a list or tuple of one for each.
        edge_weight: the weights of an edge index, or a list or tuple of them.
    """
    instants = _instants(conv, xs, graphs, edge_weight)
    if conv.weight is None and len(instants) > 1:
        raise ParameterError(_NO_WEIGHT)
    if not conv.shared_weights and len(instants) != conv.num_layers:
        raise ShapeError(
            f"the sequence has {len(instants)} steps, but the layer has weights of its own for each of its "
            f"num_layers={conv.num_layers}: pass so many, or make it with shared_weights=True."
        )
    recursion: Recursion | None = None
    for t, (x, op) in enumerate(instants):
        features = conv._folded(x)
        if recursion is None:
            recursion = conv._recursion(x, features, op)
            state = recursion.first(op, features, recursion.skip(t, features))
        else:
            state = recursion.next(t, op, state, recursion.skip(t, features))
        stacked = state.reshape(features.shape[0], conv.num_stacks, conv.out_channels)
        yield conv._signals(kernels.stack_mean(stacked).unsqueeze(1), x.shape).squeeze(0)


def next_state(conv: ARMAConv, state: Tensor | None, x: Any, graph: Any, edge_weight: Tensor | None = None) -> Tensor:
    """Return X(t + 1) of all stacks from X(t), shape (K, ..., N, F_out) both; a state of None is the beginning."""
    if not conv.shared_weights:
        raise ParameterError("a layer with weights of its own for each step cannot stream: use shared_weights=True.")
    x, op = conv._checked(x, graph, edge_weight)
    if conv.fixed_point is not None:
        check_operator(op)
    features = conv._folded(x)
    recursion = conv._recursion(x, features, op)
    skip = recursion.skip(0, features)
    if state is None:
        new = recursion.first(op, features, skip)
    elif conv.weight is None:
        raise ParameterError(_NO_WEIGHT)
    else:
        shape = (conv.num_stacks, *x.shape[:-1], conv.out_channels)
        if torch.is_autocast_enabled(skip.device.type):  # which gave the last state its own type
            state = state.to(skip.dtype)
        flat = check_state("state", state, shape, skip).reshape(conv.num_stacks, features.shape[0], conv.out_channels)
        new = recursion.next(1, op, flat.transpose(0, 1).reshape(skip.shape), skip)
    return conv._signals(new.reshape(features.shape[0], conv.num_stacks, conv.out_channels), x.shape)


_NO_WEIGHT = "a layer of one step has no W to go on with: make it with num_layers=2 or more."


def _instants(conv: ARMAConv, xs: Any, graphs: Any, edge_weight: Any) -> list[tuple[Tensor | CSR, GraphOperator]]:
    """Return checked features and operator of every instant; a graph that does not change is read once."""
    if isinstance(xs, Tensor):
        if xs.dim() < 3:
            raise ShapeError(f"a sequence must have shape (T, ..., N, {conv.in_channels}), got {tuple(xs.shape)}.")
        xs = xs.unbind(0)
    if not isinstance(xs, list | tuple):
        raise DTypeError(f"x must be a tensor, or a list or tuple of them for a sequence, got {type(xs).__name__}.")
    if not xs:
        raise ShapeError("x must be a sequence of at least one step, got none.")
    if not isinstance(graphs, list | tuple):
        first, op = conv._checked(xs[0], graphs, edge_weight)
        instants = [(first, op)] + [conv._checked(x, op, None) for x in xs[1:]]
    else:
        weights = edge_weight if isinstance(edge_weight, list | tuple) else [edge_weight] * len(graphs)
        if not len(xs) == len(graphs) == len(weights):
            raise ShapeError(
                f"the sequence has {len(xs)} steps, but there are {len(graphs)} graphs and {len(weights)} edge "
                "weights: pass one for each step, or one graph for all."
            )
        if conv.cached and not all(isinstance(graph, GraphOperator) for graph in graphs):
            raise ParameterError("a layer that is cached=True keeps its first graph: build the operators of the steps.")
        instants = [conv._checked(x, graph, w) for x, graph, w in zip(xs, graphs, weights, strict=True)]
    for t, (x, op) in enumerate(instants):
        if conv.fixed_point is not None:
            check_operator(op)
        if tuple(x.shape) != tuple(instants[0][0].shape):
            raise ShapeError(
                f"x of step {t} has shape {tuple(x.shape)}, that of step 0 {tuple(instants[0][0].shape)}: the nodes, "
                "the features and the leading axes must be the same at all steps."
            )
    return instants
