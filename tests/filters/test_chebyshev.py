from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev
from torch import Tensor

from armagnn.errors import ParameterError
from armagnn.filters import ChebyshevFilter, Filter
from armagnn.filters.chebyshev import jackson_damping
from armagnn.filters.targets import GRID
from filters.filter_checks import Array, FilterChecks

C = torch.tensor([0.4, -1.0, 0.3, 0.8, -0.2], dtype=torch.float64)
MU = (np.arange(GRID) + 0.5) * (2 / GRID) - 1


class TestChebyshev(FilterChecks):
    parameters: ClassVar = [C]

    def make(self, *parameters: Tensor) -> Filter:
        return ChebyshevFilter(*parameters)

    def truth(self, eigenvalues: Array) -> Array:
        return chebyshev.chebval(eigenvalues, C.numpy())


class TestOneCoefficient(TestChebyshev):
    parameters: ClassVar = [C[:1]]

    def truth(self, eigenvalues: Array) -> Array:
        return np.full_like(eigenvalues, 0.4)


@pytest.mark.parametrize("order", [1, 2, 9, 20])
def test_a_smooth_function_has_the_coefficients_of_its_series(order: int) -> None:
    ours = ChebyshevFilter.design(lambda mu: torch.exp(mu) / (2 + mu), order)
    assert ours.order == order
    truth = chebyshev.chebinterpolate(lambda m: np.exp(m) / (2 + m), 60)[:order]
    np.testing.assert_allclose(ours.c.numpy(), truth, atol=1e-13)


def test_a_polynomial_is_met_exactly() -> None:
    f = ChebyshevFilter.design(lambda mu: mu**3 - 0.5 * mu, 4)
    np.testing.assert_allclose(f(MU), MU**3 - 0.5 * MU, atol=1e-13)


def test_the_ideal_low_pass_with_eight_coefficients() -> None:
    f = ChebyshevFilter.design("ideal low-pass", 8)
    error = f(MU) - (MU >= 0)
    assert np.sqrt(np.mean(error**2)) == pytest.approx(0.138, abs=0.002)


def test_jackson_damping_is_the_positive_kernel_and_takes_the_overshoot() -> None:
    g = jackson_damping(12).numpy()
    assert g[0] == pytest.approx(1.0)
    assert (np.diff(g) < 0).all()
    angle = np.linspace(0, np.pi, 500)
    kernel = g[0] + 2 * (g[1:] * np.cos(angle[:, None] * np.arange(1, 12))).sum(1)
    assert kernel.min() > -1e-12  # without damping it goes down to -5
    plain, damped = (ChebyshevFilter.design("low-pass", 24, jackson=j) for j in (False, True))
    assert plain(MU).max() > 1.05
    assert damped(MU).max() < 1.001
    assert damped(MU).min() > -0.001
    assert np.gradient(damped(MU)).max() < np.gradient(plain(MU)).max()  # the price


@pytest.mark.parametrize("order", [0, -1, 2.0, True, 5000, None])
def test_bad_orders_are_refused(order: Any) -> None:
    with pytest.raises(ParameterError, match="order"):
        ChebyshevFilter.design("heat", order)


def test_a_target_that_is_infinite_between_the_points_of_the_grid_is_refused() -> None:
    with pytest.raises(ParameterError, match="finite"):
        ChebyshevFilter.design(lambda mu: torch.where(mu.abs() > 1 - 1e-6, torch.inf, mu), 4)
