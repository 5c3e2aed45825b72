from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from armagnn.nn import GPRConv
from nn.layer_checks import OwnLayerChecks
from nn.polynomial_oracle import normalised, powers


class TestGPR(OwnLayerChecks):
    layer = GPRConv
    defaults: ClassVar = {"order": 3}
    options: ClassVar = [{"order": 1}, {"order": 2, "act": None}, {"order": 7, "bias": False}, {"act": "tanh"}]
    bad: ClassVar = [{"order": value} for value in (-1, 2.0, None, 101)]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        matrices = powers(normalised(adjacency), conv.order)
        return sum(conv.theta[k] * matrices[k] @ x @ conv.weight for k in range(conv.order + 1))  # type: ignore[return-value]

    @pytest.mark.parametrize("order", [0, 1, 10])
    def test_the_coefficients_start_at_personalised_pagerank(self, order: int) -> None:
        theta = GPRConv(2, 3, order=order).theta
        assert theta.sum().item() == pytest.approx(1, abs=1e-6)
        assert theta[:-1].tolist() == pytest.approx([0.1 * 0.9**k for k in range(order)])

    def test_the_response_is_the_polynomial(self) -> None:
        conv = GPRConv(2, 3, order=2).double()
        with torch.no_grad():
            conv.theta.copy_(torch.tensor([1.0, -2.0, 0.5]))
        mu = torch.tensor([-1.0, 0.3], dtype=torch.float64, requires_grad=True)
        out = conv.response(mu)
        torch.testing.assert_close(out, 1 - 2 * mu + 0.5 * mu**2)
        assert conv.response(0.5) == pytest.approx(0.125)
