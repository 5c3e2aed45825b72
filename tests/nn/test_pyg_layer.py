"""What PyG's layers have in common."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
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
