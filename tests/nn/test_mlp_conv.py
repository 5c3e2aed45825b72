from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from armagnn.nn.mlp_conv import Linear, MLPConv
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


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 5, 3), (0, 3), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_torchs(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    ours, theirs = Linear(3, 4, bias=bias).double(), torch.nn.Linear(3, 4, bias=bias).double()
    theirs.load_state_dict(ours.state_dict())
    x = numbers(*shape)
    results = [
        [out := layer(x), *torch.autograd.grad(out.square().sum(), list(layer.parameters()))]
        for layer in (ours, theirs)
    ]
    for one, two in zip(*results, strict=True):
        assert one.shape == two.shape
        assert_near(one, two)


@pytest.mark.parametrize("shape", [(0, 4), (5, 4), (4, 6), (2, 3, 6)], ids=str)
def test_a_wrong_width_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 shapes cannot be multiplied|size mismatch|Expected size"):
        Linear(3, 2)(torch.zeros(shape))


def test_trials_and_autocast() -> None:
    layer, weights = Linear(3, 4, bias=False), numbers(6, 4, 3, seed=1).float()
    x = numbers(5, 2, 3).float()
    found = torch.vmap(lambda w: torch.func.functional_call(layer, {"weight": w}, (x,)))(weights)
    torch.testing.assert_close(found, torch.einsum("abi,roi->rabo", x, weights))
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(3, 4)(x).dtype == torch.nn.Linear(3, 4)(x).dtype == torch.bfloat16
