from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from armagnn import GraphOperator
from armagnn.nn import peers
from armagnn.nn.peers import GATConv, GINConv, SAGEConv
from nn.layer_checks import LayerChecks
from oracles import random_graph


class TestGAT(LayerChecks):
    layer = GATConv
    options: ClassVar = [{}, {"heads": 1, "act": None}, {"heads": 2, "bias": False, "act": "tanh"}]
    bad: ClassVar = [{"heads": 0}, {"heads": None}, {"heads": 2, "concat": True}]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        theirs = conv.conv
        z = (x @ theirs.lin.weight.T).unflatten(1, (theirs.heads, theirs.out_channels))
        score = (z * theirs.att_src).sum(-1)[None] + (z * theirs.att_dst).sum(-1)[:, None]  # [target, source, head]
        edges = (adjacency != 0) | torch.eye(len(adjacency), dtype=torch.bool)
        attention = F.leaky_relu(score, 0.2).masked_fill(~edges[:, :, None], -torch.inf).softmax(1)
        heads = torch.einsum("ijh,jhc->ihc", attention, z)
        return heads.flatten(1) if theirs.concat else heads.mean(1)

    def test_heads_side_by_side(self) -> None:
        conv = self.make(3, 6, heads=2, concat=True)
        x, op, adjacency = self.problem(conv)
        torch.testing.assert_close(conv(x, op), self.expected(conv, x, adjacency))

    def test_eight_heads(self) -> None:
        assert GATConv(2, 3).conv.att_src.shape == (1, 8, 3)
        assert repr(GATConv(2, 8, concat=True)) == "GATConv(2, 8, heads=8, concat=True)"


class TestSAGE(LayerChecks):
    layer = SAGEConv
    options: ClassVar = [{}, {"act": None}, {"bias": False, "act": "tanh"}]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        rows = []
        for row in adjacency:
            neighbours = x[row != 0]
            rows.append(neighbours.max(0).values if len(neighbours) else torch.zeros_like(x[0]))
        return torch.stack(rows) @ conv.conv.lin_l.weight.T + x @ conv.conv.lin_r.weight.T


class TestGIN(LayerChecks):
    layer = GINConv
    options: ClassVar = [{}, {"act": None}, {"bias": False, "act": "tanh", "hidden": 6}]
    bad: ClassVar = [{"hidden": value} for value in (0, 2.0, True)]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        first, _, second, _, third = conv.conv.nn
        z = (1 + conv.conv.eps) * x + (adjacency != 0).double() @ x
        z = torch.relu(F.linear(z, first.weight, first.bias))
        return torch.relu(F.linear(z, second.weight, second.bias)) @ third.weight.T

    def test_two_hidden_layers_and_a_trained_epsilon(self) -> None:
        conv = GINConv(2, 3)
        weights = [p.shape for p in conv.parameters() if p.dim() == 2]
        assert weights == [(3, 2), (3, 3), (3, 3)]  # two hidden layers and the output
        assert conv.conv.eps.requires_grad
        assert conv.conv.eps.item() == 0
        assert sum(p.numel() for p in conv.parameters()) == 3 * 2 + 3 + 9 + 3 + 9 + 3 + 1

    def test_hidden_layers_may_be_wider_than_the_output(self) -> None:
        conv = GINConv(2, 3, hidden=5)
        assert [p.shape for p in conv.parameters() if p.dim() == 2] == [(5, 2), (5, 5), (3, 5)]
        assert repr(conv) == "GINConv(2, 3, hidden=5)"


@pytest.mark.parametrize("layer", [GATConv, SAGEConv, GINConv])
def test_weights_are_glorots(layer: Any) -> None:
    linear = [m for m in layer(40, 30).conv.modules() if isinstance(getattr(m, "weight", None), Tensor)]
    assert linear
    for module in linear:
        limit = (6 / sum(module.weight.shape)) ** 0.5
        assert 0.97 * limit < module.weight.abs().max() <= limit


def test_the_edge_index_is_made_once_per_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(6, 9)
    op = GraphOperator.from_edge_index(graph.edge_index, 6, kind="adjacency")
    first = peers.edge_index(op)
    assert peers.edge_index(op) is first
    pairs = {tuple(pair) for pair in graph.edge_index.T.tolist()}  # parallel edges once
    assert sorted(map(tuple, first.T.tolist())) == sorted(pairs)
    assert peers.edge_index(op.with_value(op.value * 2)) is not first
    seen: list[Tensor] = []
    conv = SAGEConv(2, 3)
    original = conv.conv.forward
    monkeypatch.setattr(conv.conv, "forward", lambda x, edges: seen.append(edges) or original(x, edges))
    for _ in range(2):
        conv(torch.randn(6, 2), op)
    assert all(edges is first for edges in seen)
    assert len(seen) == 2
