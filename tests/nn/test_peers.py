from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from armagnn import GraphOperator, kernels
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

    @pytest.mark.parametrize("sizes", [(3, 6), (6, 3)], ids=str)
    def test_autocast_rounds_no_score(self, sizes: tuple[int, int]) -> None:
        conv = self.make(*sizes, act=None).float()
        x, op, _ = self.problem(conv)
        x, op = 100 * x.float(), op.to(torch.float32)
        expected = conv(x, op)
        with torch.autocast("cpu", torch.bfloat16):
            found = conv(x, op)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))

    def test_eight_heads(self) -> None:
        assert GATConv(2, 3).conv.att_src.shape == (1, 8, 3)
        assert repr(GATConv(2, 8, concat=True)) == "GATConv(2, 8, heads=8, concat=True)"


class TestGATOnDenseGraphs(TestGAT):
    """The same checks where averaged heads attend x."""

    @pytest.fixture(autouse=True)
    def _narrow(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(peers, "FEWEST", 0)

    def test_they_attend_x(self, monkeypatch: pytest.MonkeyPatch) -> None:
        widths: list[int] = []
        real = kernels.added_attention
        monkeypatch.setattr(kernels, "added_attention", lambda *given: widths.append(given[2].shape[2]) or real(*given))
        for sizes in ((3, 6), (6, 6), (7, 6)):  # not where x is wider than what is made of it
            conv = self.make(*sizes)
            conv(*self.problem(conv)[:2])
        assert widths == [3, 6]
        monkeypatch.setattr(peers, "FEWEST", 1000)
        conv(*self.problem(conv)[:2])
        assert widths == [3, 6]


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


def test_the_pattern_is_made_once_per_operator_and_has_no_gradient() -> None:
    graph = random_graph(6, 9)
    weight = graph.edge_weight().requires_grad_()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, weight, kind="adjacency")
    with FakeTensorMode(allow_non_fake_inputs=True):
        peers.pattern(op)  # what is made here has no values
    with torch.inference_mode():
        first = peers.pattern(op)
    assert peers.pattern(op) is first
    assert not first.value.requires_grad
    assert torch.equal(first.to_dense(), (op.to_dense() != 0).to(op.dtype))
    assert torch.equal(first.T.to_dense(), first.to_dense().T)
    conv = GINConv(2, 3).double()
    conv(torch.randn(6, 2, dtype=torch.float64), op).sum().backward()  # what inference made serves training too


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
