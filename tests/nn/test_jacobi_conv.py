from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import eval_jacobi
from torch import Tensor

from armagnn.nn import JacobiConv
from nn.layer_checks import OwnLayerChecks
from nn.polynomial_oracle import jacobi, normalised


class TestJacobi(OwnLayerChecks):
    layer = JacobiConv
    defaults: ClassVar = {"order": 3}
    options: ClassVar = [{"order": 1}, {"order": 2, "act": None}, {"order": 6, "bias": False}, {"act": "tanh"}]
    bad: ClassVar = [{"order": value} for value in (-1, 2.0, None, 101)]

    def truth(self, conv: Any, x: Tensor, adjacency: Tensor) -> Tensor:
        matrices = jacobi(normalised(adjacency), conv.order)
        return sum(matrices[k] @ x @ conv.weight * conv.coefficients()[k] for k in range(conv.order + 1))  # type: ignore[return-value]

    def test_the_response_is_the_sum_of_jacobi_polynomials(self) -> None:
        mu = np.linspace(-1, 1, 7)
        expected = sum(eval_jacobi(k, 1, 1, mu) / (k + 1) ** 2 for k in range(5))
        found = np.asarray(JacobiConv(2, 3, order=4).response(mu))
        assert found.shape == (3, 7)
        np.testing.assert_allclose(found, np.tile(expected, (3, 1)), rtol=1e-6)
