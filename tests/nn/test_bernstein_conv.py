from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from armagnn.nn import BernsteinConv
from nn.layer_checks import OwnLayerChecks
from nn.polynomial_oracle import bernstein, normalised


class TestBernstein(OwnLayerChecks):
    layer = BernsteinConv
    defaults: ClassVar = {"order": 3}
    options: ClassVar = [{"order": 1}, {"order": 2, "act": None}, {"order": 6, "bias": False}, {"act": "tanh"}]
    bad: ClassVar = [{"order": value} for value in (-1, 2.0, None, 101)]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        matrices = bernstein(normalised(adjacency), conv.order)
        return sum(conv.theta[k].relu() * matrices[k] @ x @ conv.weight for k in range(conv.order + 1))  # type: ignore[return-value]

    def test_the_response_is_nowhere_negative(self) -> None:
        conv = BernsteinConv(2, 3, order=10)
        with torch.no_grad():
            conv.theta.copy_(torch.linspace(-5, 3, 11))
        response = np.asarray(conv.response(np.linspace(-1, 1, 101)))
        assert response.min() >= 0
        assert response[0] > 2.9  # the last coefficient is the response at lambda = 2, mu = -1
        assert response[-1] == 0  # the first one that at mu = 1
