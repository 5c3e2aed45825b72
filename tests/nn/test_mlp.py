from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from armagnn.nn.mlp import MLPConv
from nn.layer_checks import OwnLayerChecks
from oracles import assert_near, numbers


class TestMLP(OwnLayerChecks):
    layer = MLPConv
    options: ClassVar = [{}, {"act": None}, {"act": "tanh", "bias": False}]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        return x @ conv.weight

    def test_another_kind_of_operator_is_refused_with_advice(self) -> None:
        """Any operator will do instead: it is not looked at, nor is one built."""
        conv, x = self.make(2, 3), numbers(4, 2)
        assert conv.operator(torch.tensor([[0, 1], [1, 0]]), 4) is None
        for graph in (None, torch.tensor([[0], [99]]), "nothing"):
            assert_near(conv(x, graph), conv(x))
