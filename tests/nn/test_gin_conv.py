from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from armagnn import GraphOperator
from armagnn.nn import gin_conv
from armagnn.nn.gin_conv import GINConv
from nn.layer_checks import LayerChecks
from oracles import random_graph


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


def test_the_pattern_is_made_once_per_operator_and_has_no_gradient() -> None:
    graph = random_graph(6, 9)
    weight = graph.edge_weight().requires_grad_()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, weight, kind="adjacency")
    with FakeTensorMode(allow_non_fake_inputs=True):
        gin_conv.pattern(op)  # what is made here has no values
    with torch.inference_mode():
        first = gin_conv.pattern(op)
    assert gin_conv.pattern(op) is first
    assert not first.value.requires_grad
    assert torch.equal(first.to_dense(), (op.to_dense() != 0).to(op.dtype))
    assert torch.equal(first.T.to_dense(), first.to_dense().T)
    conv = GINConv(2, 3).double()
    conv(torch.randn(6, 2, dtype=torch.float64), op).sum().backward()  # what inference made serves training too
