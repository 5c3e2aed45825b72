"""What PyG's layers have in common."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim

from armagnn import GraphOperator
from armagnn.errors import ParameterError
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.sage_conv import SAGEConv
from oracles import random_graph


@pytest.mark.parametrize("layer", [GATConv, SAGEConv, GINConv])
def test_weights_are_glorots(layer: Any) -> None:
    linear = [m for m in layer(40, 30).conv.modules() if isinstance(getattr(m, "weight", None), Tensor)]
    assert linear
    for module in linear:
        limit = (6 / sum(module.weight.shape)) ** 0.5
        assert 0.97 * limit < module.weight.abs().max() <= limit


@pytest.mark.parametrize("layer", [GATConv, SAGEConv, GINConv])
def test_pygs_own_way_is_the_same(layer: Any) -> None:
    torch.manual_seed(0)
    graph = random_graph(30, 80, seed=4)
    conv = layer(5, 4, act=None).double()
    op = GraphOperator.from_edge_index(graph.edge_index, 30, kind="adjacency", dtype=torch.float64)
    # several neighbours have the maximum; not 0, where torch counts what a sum starts from among them
    x = torch.randint(1, 4, (30, 5)).double().requires_grad_()
    theirs, edges = type(conv.conv).__mro__[1], torch.stack([op.col.long(), op._rows()])
    direction = torch.randn(30, 4, dtype=torch.float64)
    results = []
    for way in ("ours", "theirs"):
        out = conv(x, op) if way == "ours" else theirs.forward(_plain(conv.conv, theirs), x, edges)
        results.append([out, *torch.autograd.grad((out * direction).sum(), [x, *conv.conv.parameters()])])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two)


def _plain(conv: Any, kind: Any) -> Any:
    """The same module, weights and all, of PyG's own class."""
    plain = kind.__new__(kind)
    plain.__dict__ = conv.__dict__
    return plain


PARALLEL = torch.tensor([[0, 1, 1, 2, 1, 3, 3], [1, 0, 2, 1, 2, 2, 2]])  # 1 -> 2 twice, 3 -> 2 by weights 1 and -1
WEIGHT = torch.tensor([1.0, 1.0, 0.5, 1.0, 0.5, 1.0, -1.0], dtype=torch.float64)


@pytest.mark.parametrize("layer", [GATConv, SAGEConv, GINConv])
def test_parallel_edges_count_once_in_compiled_code_too(layer: Any) -> None:
    torch._dynamo.reset()
    conv, x = layer(3, 4).double(), torch.randn(4, 3, dtype=torch.float64)
    once = torch.compile(conv, backend="eager")(x, PARALLEL, WEIGHT)
    torch.testing.assert_close(once, conv(x, PARALLEL, WEIGHT))


def test_parallel_edges_count_once_in_a_recording_too() -> None:
    conv, x = GINConv(3, 4).double().eval(), torch.randn(4, 3, dtype=torch.float64)
    sizes = {0: Dim("nodes")}, {1: Dim("edges")}, {0: Dim("edges")}
    program = torch.export.export(conv, (x, PARALLEL, WEIGHT), dynamic_shapes=sizes).module()
    torch.testing.assert_close(program(x, PARALLEL, WEIGHT), conv(x, PARALLEL, WEIGHT))
    wide, index = torch.randn(9, 3, dtype=torch.float64), random_graph(9, 20).edge_index
    index = torch.cat([index, index.flip(1)], 1)
    weight = torch.ones(index.shape[1], dtype=torch.float64)
    torch.testing.assert_close(program(wide, index, weight), conv(wide, index, weight))


@pytest.mark.parametrize("layer", [GATConv, SAGEConv])
def test_what_would_be_recorded_wrong_is_refused(layer: Any) -> None:
    conv, given = layer(3, 4).eval(), (torch.randn(4, 3), PARALLEL)
    for record in (torch.jit.trace, torch.export.export):
        with pytest.raises(ParameterError, match=rf"{layer.__name__} can be recorded neither by torch.export"):
            record(conv, given)
