"""Convolutions of scaled rows against the layers themselves on the features that never exist there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call, vmap

from armagnn.errors import ParameterError, ShapeError
from armagnn.nn import GCNConv, make_conv
from armagnn.nn.scaled_features import conv_of_scaled, scaling
from oracles import Graph
from strategies import undirected

LAYERS = [
    ("arma", {"num_stacks": 2, "num_layers": 1}),
    ("arma", {"num_stacks": 2, "num_layers": 3, "shared_weights": False}),
    ("arma", {"num_stacks": 1, "num_layers": 2, "init": "tied", "act": "tanh"}),
    ("arma", {"num_stacks": 1, "num_layers": 2, "init": "zero", "bias": False}),
    ("gcn", {}),
    ("gcn", {"bias": False, "act": None}),
    ("chebyshev", {"order": 1}),
    ("chebyshev", {"order": 4}),
    ("cayley", {"order": 1, "jacobi": 2}),
    ("cayley", {"order": 3, "jacobi": 2}),
]
IDS = [f"{name}-{'-'.join(map(str, options.values()))}" for name, options in LAYERS]
of_layers = pytest.mark.parametrize(("name", "options"), LAYERS, ids=IDS)


def scales_of(c: Tensor) -> Any:
    return scaling(c.shape[1], c.shape[0], c.dtype).with_value(c.t().reshape(-1))


@of_layers
@settings(max_examples=10)
@given(graph=undirected(max_nodes=7), batch=st.integers(1, 3))
def test_values_and_gradients_are_those_of_the_layer(
    name: str, options: dict[str, Any], graph: Graph, batch: int
) -> None:
    torch.manual_seed(0)
    conv = make_conv(name, 4, 3, **options).double()
    op: Any = conv.operator(graph.edge_index, graph.num_nodes, dtype=torch.float64)
    c, table = torch.randn(batch, graph.num_nodes).double(), torch.randn(graph.num_nodes, 4).double()
    found = conv_of_scaled(conv, scales_of(c), table, op)  # type: ignore[arg-type]
    expected = conv(c.unsqueeze(-1) * table, op)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    grads = [torch.autograd.grad((y * weights).sum(), list(conv.parameters())) for y in (found, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@of_layers
def test_trials_under_vmap_are_those_alone(name: str, options: dict[str, Any]) -> None:
    convs = [make_conv(name, 4, 3, **options).double() for _ in range(3)]
    op: Any = convs[0].operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 4, dtype=torch.float64)
    scales, table = scales_of(torch.rand(2, 4).double()), torch.randn(4, 4).double()
    params = {
        key: torch.stack([dict(c.named_parameters())[key] for c in convs]) for key, _ in convs[0].named_parameters()
    }

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = convs[0]

        def forward(self) -> Tensor:
            return conv_of_scaled(self.conv, scales, table, op)  # type: ignore[arg-type]

    net = Net()
    together = vmap(lambda p: functional_call(net, {f"conv.{k}": v for k, v in p.items()}, ()))(params)
    for index, conv in enumerate(convs):
        alone = conv_of_scaled(conv, scales, table, op)  # type: ignore[arg-type]
        torch.testing.assert_close(together[index], alone, rtol=1e-10, atol=1e-10)


def test_the_skip_connections_are_dropped_while_training() -> None:
    conv = make_conv("arma", 4, 30, dropout=0.5, act=None, bias=False)
    torch.nn.init.zeros_(conv.initial_weight)  # type: ignore[arg-type]
    op: Any = conv.operator(torch.tensor([[0, 1], [1, 0]]), 5)
    scales, table = scales_of(torch.rand(2, 5) + 1), torch.randn(5, 4)
    dropped = conv_of_scaled(conv.train(), scales, table, op)  # type: ignore[arg-type]
    whole = conv_of_scaled(conv.eval(), scales, table, op)  # type: ignore[arg-type]
    share = (dropped == 0).double().mean()
    assert 0.3 < share < 0.7
    torch.testing.assert_close(dropped[dropped != 0], 2 * whole[dropped != 0])


def test_what_cannot_be_done_is_refused() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    scales, table = scales_of(torch.rand(2, 3)), torch.randn(3, 4)
    conv = GCNConv(4, 2, dropout=0.5)
    op: Any = conv.operator(edges, 3)
    with pytest.raises(ParameterError, match="dropout to 0"):
        conv_of_scaled(conv, scales, table, op)
    with pytest.raises(ShapeError, match=r"\(3, 4\)"):
        conv_of_scaled(GCNConv(4, 2), scales, table[:2], op)
    with pytest.raises(ParameterError, match="SAGEConv"):
        conv_of_scaled(make_conv("sage", 4, 2), scales, table, op)  # type: ignore[arg-type]
