"""The design of ARMA filters, and the paper's claim that they follow sharp changes better than polynomials."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ParameterError
from armagnn.filters import ARMAFilter, ChebyshevFilter, Filter, SpectralFilter
from armagnn.filters.design import STABLE_RADIUS, _Design
from armagnn.filters.targets import GRID, resolve
from oracles import assert_near, numbers, random_graph

MU = (np.arange(GRID) + 0.5) * (2 / GRID) - 1


@functools.cache
def low_pass(stable: bool = False) -> ARMAFilter:
    return ARMAFilter.design("ideal low-pass", order=4, stable=stable)


def rms(f: Filter, target: object) -> float:
    error = f(MU) - resolve(target).function(torch.from_numpy(MU)).numpy()
    return float(np.sqrt(np.mean(error**2)))


def test_the_ideal_low_pass_with_eight_coefficients_beats_chebyshev() -> None:
    f = low_pass()
    polynomial = np.polynomial.Chebyshev.fit(MU, MU >= 0, 7)
    best = float(np.sqrt(np.mean((polynomial(MU) - (MU >= 0)) ** 2)))  # of all polynomials with eight coefficients
    assert best == pytest.approx(0.137, abs=0.001)
    assert rms(ChebyshevFilter.design("low-pass", 8), "low-pass") == pytest.approx(0.138, abs=0.001)
    assert rms(f, "low-pass") == pytest.approx(0.0605, abs=0.001)
    assert f.report is not None
    assert f.report.rms == pytest.approx(rms(f, "low-pass"), rel=1e-6)
    assert f.report.largest == pytest.approx(float(np.abs(f(MU) - (MU >= 0)).max()), rel=1e-6)
    assert f.report.sharpness > 4 * np.gradient(polynomial(MU), MU).max()


@pytest.mark.parametrize(
    ("target", "order"), [("high-pass", 4), ("band-pass", 4), ("band-stop", 6), ("comb", 6), ("heat", 3)]
)
def test_other_targets_with_as_many_coefficients(target: str, order: int) -> None:
    ours, theirs = rms(ARMAFilter.design(target, order), target), rms(ChebyshevFilter.design(target, 2 * order), target)
    assert ours < 0.75 * theirs


def test_a_stable_design_serves_the_recursion_and_says_what_it_cost() -> None:
    free, stable = low_pass(), low_pass(stable=True)
    assert float(free.a.abs().max()) > 1
    assert float(stable.a.abs().max()) <= STABLE_RADIUS + 1e-9
    assert stable.report is not None
    assert free.report is not None
    assert stable.report.free == free.report
    assert stable.report.rms == pytest.approx(0.160, abs=0.002)
    assert stable.report.rms > 2 * free.report.rms
    assert stable.report.sharpness < free.report.sharpness / 5
    assert "free poles" in repr(stable.report)
    graph = random_graph(30, 80, seed=3).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 30, graph.edge_weight())
    x = numbers(30, 2)
    assert_near(stable.filter(op, x, "recursion"), stable.filter(op, x, "eigen"), 1e-8)
    assert_near(stable.filter(op, x, "exact"), stable.filter(op, x, "eigen"), 1e-8)


def test_a_design_filters_like_its_target() -> None:
    graph = random_graph(30, 80, seed=3).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 30, graph.edge_weight())
    x = numbers(30, 2)
    f = ARMAFilter.design("heat", 4)
    assert_near(f.filter(op, x), SpectralFilter("heat").filter(op, x), 1e-4)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0.7], [0.3]),
        ([0.8, -0.5], [0.3, -1.0]),
        ([0.3 + 2j, 0.3 - 2j], [1.0 - 0.5j, 1.0 + 0.5j]),
        ([0.9, -0.2 + 1.5j, -0.2 - 1.5j], [1.0, 0.3, 0.3]),
    ],
    ids=["one", "two real", "a pair", "both"],
)
def test_a_rational_target_is_found_again(a: list[complex], b: list[complex]) -> None:
    truth = ARMAFilter(a, b)
    f = ARMAFilter.design(truth.response, order=len(a))
    assert f.report is not None
    assert f.report.rms < 1e-8
    ours, theirs = (sorted(v.to(torch.complex128).tolist(), key=lambda z: (z.real, z.imag)) for v in (f.a, truth.a))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_samples_are_fitted_where_they_are() -> None:
    mu = np.linspace(-0.8, 0.9, 30)
    truth = ARMAFilter([0.7], [0.3])
    f = ARMAFilter.design((mu, truth(mu)), order=1)
    assert f.a.item() == pytest.approx(0.7, abs=1e-6)
    assert f.report is not None
    assert f.report.rms < 1e-8


def test_the_same_target_gives_the_same_filter() -> None:
    one, two = (ARMAFilter.design("band-pass", 3) for _ in range(2))
    assert torch.equal(one.a, two.a)
    assert torch.equal(one.b, two.b)


def test_the_output_is_real_and_no_pole_lies_on_the_interval() -> None:
    for target in ("low-pass", "comb", "heat"):
        f = ARMAFilter.design(target, 3)
        total = (f.b / (1 - f.a * torch.linspace(-1, 1, 4001, dtype=torch.float64)[:, None])).sum(1)
        assert torch.isfinite(total.abs()).all()
        if total.is_complex():
            assert float(total.imag.abs().max()) < 1e-12 * float(total.real.abs().max())
        real = f.a[f.a.imag == 0].real if f.a.is_complex() else f.a
        assert (real.abs() < 1).all()


def test_the_jacobian_leads_downhill_like_differences_do() -> None:
    """Kaufman's Jacobian leaves out a term that vanishes with the residual; the gradient of the cost is exact."""
    problem = _Design(resolve("comb"), pairs=2, real=1, stable=False)
    theta = np.array([0.6, 0.7, 0.9, 2.0, 0.3])
    gradient = problem.jacobian(theta).T @ problem.residual(theta)

    def cost(point: Any) -> float:
        return float(0.5 * (problem.residual(point) ** 2).sum())

    steps = 1e-6 * np.eye(5)
    differences = [(cost(theta + step) - cost(theta - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("order", [0, 17, 1.0, True, None])
def test_bad_orders_are_refused(order: Any) -> None:
    with pytest.raises(ParameterError, match="order"):
        ARMAFilter.design("heat", order)


def test_bad_targets_are_refused() -> None:
    with pytest.raises(ParameterError, match="not finite"):
        ARMAFilter.design(lambda mu: 1 / (mu - mu), 2)
    with pytest.raises(ParameterError, match="4 coefficients, but there are 3 samples"):
        ARMAFilter.design(([-1.0, 0.0, 1.0], [0.0, 1.0, 2.0]), 2)


@pytest.mark.parametrize("size", [1e-200, 1e-8, 1e6, 1e200, 1e300])
def test_a_design_does_not_depend_on_the_size_of_its_target(size: float) -> None:
    f = ARMAFilter.design(lambda mu: size * (mu >= 0).double(), order=4)
    assert f.report is not None
    assert f.report.rms / size == pytest.approx(0.0605, abs=2e-4)
