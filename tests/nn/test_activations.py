"""Activations that look at several entries: they see features, never neighbours in the batch, as in PyG's layer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch_geometric.nn import ARMAConv as PyGConv

from armagnn import GraphOperator
from armagnn.errors import ShapeError
from armagnn.nn import ARMAConv, ChebConv, GCNConv
from armagnn.nn.contraction import NonExpansive
from armagnn.nn.scaled_features import conv_of_scaled, scaling
from armagnn.solvers import FixedPoint
from oracles import Graph, assert_near, numbers, random_graph
from strategies import graphs

GRAPH = random_graph(7, 12, seed=3).both_ways()
LAYERS: dict[str, Callable[..., Any]] = {
    "arma": lambda act: ARMAConv(3, 4, num_stacks=2, num_layers=3, act=act),
    "convergent": lambda act: ARMAConv(3, 4, num_stacks=2, act=NonExpansive(act), fixed_point=FixedPoint(tol=1e-10)),
    "gcn": lambda act: GCNConv(3, 4, act=act),
    "chebyshev": lambda act: ChebConv(3, 4, act=act),
}


def made(name: str, act: Callable[[Tensor], Tensor]) -> tuple[Any, GraphOperator]:
    torch.manual_seed(0)
    conv = LAYERS[name](act).double()
    return conv, conv.operator(GRAPH.edge_index, GRAPH.num_nodes).to(torch.float64)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("axis", [-1, -2])  # over the features of a node, over the nodes of a signal
def test_a_signal_does_not_depend_on_its_neighbours_in_the_batch(name: str, axis: int) -> None:
    conv, op = made(name, nn.Softmax(axis))
    x = numbers(2, 3, GRAPH.num_nodes, 3)
    together = conv(x, op)
    for signal, out in zip(x.flatten(0, 1), together.flatten(0, 1), strict=True):
        assert_near(out, conv(signal, op))
    if isinstance(conv, ARMAConv):
        assert_near(conv.stacks(x, op).mean(0), together)


@pytest.mark.parametrize("axis", [-1, -2, 0])
@settings(max_examples=10, deadline=None)
@given(graph=graphs(), stacks=st.integers(1, 3), steps=st.integers(1, 3), shared=st.booleans(), batched=st.booleans())
def test_a_layer_from_pyg_is_the_same_function(
    axis: int, graph: Graph, stacks: int, steps: int, shared: bool, batched: bool
) -> None:
    graph = graph.both_ways()
    theirs = PyGConv(3, 4, stacks, steps, shared, act=nn.Softmax(axis)).double()
    x = numbers(*([2] if batched else []), graph.num_nodes, 3)
    expected = theirs(x, graph.edge_index)
    assert_near(ARMAConv.from_pyg(theirs)(x, graph.edge_index), expected)
    assert_near(ARMAConv.from_pyg(theirs).to_pyg()(x, graph.edge_index), expected)


def test_the_fixed_point_is_that_of_dense_matrices() -> None:
    conv, op = made("convergent", nn.Softmax(-1))
    x, dense, found = numbers(2, GRAPH.num_nodes, 3), op.to_dense(), []
    for k in range(conv.num_stacks):
        state = torch.zeros(2, GRAPH.num_nodes, 4, dtype=torch.float64)
        for _ in range(500):
            state = torch.softmax(
                dense @ state @ conv.bounded_weight[k] + x @ conv.skip_weight[0, :, k] + conv.bias[0, k], -1
            )
        found.append(state)
    assert_near(conv.stacks(x, op), torch.stack(found))
    conv.act = NonExpansive(nn.Softmax(-3))  # a stack is solved by itself: over the stacks there is nothing to do
    assert_near(conv.stacks(x, op), torch.ones(2, 2, GRAPH.num_nodes, 4, dtype=torch.float64))


@pytest.mark.parametrize("axis", [-1, -2])
def test_trials_equal_a_loop(axis: int) -> None:
    convs = [LAYERS["arma"](nn.Softmax(axis)).double() for _ in range(3)]
    _, op = made("arma", torch.relu)
    x = numbers(GRAPH.num_nodes, 3)
    parameters, _ = torch.func.stack_module_state(convs)  # type: ignore[arg-type]
    base = copy.deepcopy(convs[0])
    for given_x, axes in ((x, (0, None)), (numbers(3, 2, GRAPH.num_nodes, 3), (0, 0))):
        together = torch.func.vmap(lambda p, x: torch.func.functional_call(base, p, (x, op)), axes)(parameters, given_x)
        for trial, (conv, out) in enumerate(zip(convs, together, strict=True)):
            assert_near(out, conv(x if axes[1] is None else given_x[trial], op))


def test_a_sequence_and_scaled_features_equal_the_layer() -> None:
    for axis in (-1, -2, 0):
        conv, op = made("arma", nn.Softmax(axis))
        x = numbers(2, GRAPH.num_nodes, 3)
        assert_near(conv.sequence(torch.stack([x] * 3), op)[-1], conv(x, op))
    for name in ("arma", "gcn"):
        conv, op = made(name, nn.Softmax(-2))
        c, table = numbers(2, GRAPH.num_nodes), numbers(GRAPH.num_nodes, 3)
        scales = scaling(GRAPH.num_nodes, 2, torch.float64).with_value(c.t().reshape(-1))
        assert_near(conv_of_scaled(conv, scales, table, op), conv(c.unsqueeze(-1) * table, op))


@pytest.mark.parametrize("name", LAYERS)
def test_an_activation_must_keep_the_shape(name: str) -> None:
    for act in (lambda z: z.sum(-1), lambda z: z[..., :1], lambda z: 1.0, lambda z: None):
        conv, op = made(name, act)
        with pytest.raises(ShapeError, match="act must return a tensor of the shape it is given"):
            conv(numbers(GRAPH.num_nodes, 3), op)
