from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.errors import ArmagnnError, ConvergenceWarning, ParameterError
from armagnn.solvers import Statistics, anderson, picard
from armagnn.solvers.iteration import Map
from oracles import assert_near, numbers
from solvers.linear_maps import SOLVERS, affine, linear, solved


@pytest.mark.parametrize("name", SOLVERS)
@settings(max_examples=20)
@given(problems=st.integers(1, 4), size=st.integers(0, 7), contraction=st.floats(0.01, 0.9), seed=st.integers(0, 99))
def test_linear_problems_are_solved(name: str, problems: int, size: int, contraction: float, seed: int) -> None:
    a, b = linear(problems, max(size, 1), contraction, seed)
    a, b = a[:, :size, :size], b[:, :size]
    solution = SOLVERS[name](affine(a, b), numbers(problems, size, seed=seed + 2), 1e-12, 3000)
    assert all(solution.statistics.converged)
    assert_near(solution.value, solved(a, b), 1e-9)
    for trace, tolerance in zip(solution.statistics.residuals, solution.statistics.tolerances, strict=True):
        assert trace[-1] < tolerance
        assert all(residual >= 1e-12 for residual in trace[:-1])


def test_picard_takes_the_steps_of_the_geometric_series() -> None:
    # x = a x + 1 from 0: the t-th residual is a^t
    a = torch.tensor([[0.9], [0.1], [0.5]], dtype=torch.float64)
    solution = picard(lambda x, rows: a[rows] * x + 1, torch.zeros(3, 1, dtype=torch.float64), 1e-3, 100)
    assert solution.statistics.steps == [math.ceil(math.log(1e-3) / math.log(c)) + 1 for c in (0.9, 0.1, 0.5)]
    for c, trace in zip((0.9, 0.1, 0.5), solution.statistics.residuals, strict=True):
        np.testing.assert_allclose(trace, [c**t for t in range(len(trace))], rtol=1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_problem_stops_by_itself_and_gives_what_it_gives_alone(name: str) -> None:
    a, b = linear(4, 6, 0.9)
    a = a * torch.tensor([1.0, 0.1, 0.99, 0.5]).double().view(4, 1, 1)
    seen: list[list[int]] = []

    def function(x: Tensor, rows: Tensor) -> Tensor:
        seen.append(rows.tolist())
        return affine(a, b)(x, rows)

    together = SOLVERS[name](function, torch.zeros(4, 6, dtype=torch.float64), 1e-9, 1000)
    assert len(set(together.statistics.steps)) > 1
    assert [sum(k in rows for rows in seen) for k in range(4)] == together.statistics.steps
    for k in range(4):
        alone = SOLVERS[name](affine(a[k : k + 1], b[k : k + 1]), torch.zeros(1, 6, dtype=torch.float64), 1e-9, 1000)
        assert alone.statistics.steps == together.statistics.steps[k : k + 1]
        assert_near(together.value[k], alone.value[0], 1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_what_is_not_finite_is_given_up_at_once(name: str) -> None:
    b = torch.tensor([[1.0], [math.nan]])
    solution = SOLVERS[name](lambda x, rows: 0.5 * x + b[rows], torch.zeros(2, 1), 1e-6, 100)
    assert solution.statistics.converged == [True, False]
    assert solution.statistics.steps[1] == 1


@pytest.mark.parametrize("name", SOLVERS)
def test_rounding_bounds_the_tolerance_from_below_and_says_so(name: str) -> None:
    a, b = linear(1, 50, 0.9)
    a, b = a.float(), 1e4 * b.float()
    statistics = SOLVERS[name](affine(a, b), torch.zeros_like(b), 1e-9, 2000).statistics
    assert statistics.converged == [True]
    assert 1e-4 < statistics.tolerances[0] < 0.2  # 4 units of rounding of a state of length 1e5
    exact = SOLVERS[name](affine(a.double(), b.double()), torch.zeros_like(b.double()), 1e-9, 2000).statistics
    assert exact.tolerances == [1e-9]


@pytest.mark.parametrize("name", SOLVERS)
def test_a_tolerance_that_can_be_reached_is_reached(name: str) -> None:
    """Four units of rounding of the state would be 5e-6: a residual that still falls is not stopped there."""
    b = torch.full((1, 10_000), 0.1)
    statistics = SOLVERS[name](lambda x, rows: 0.5 * x + b[rows], torch.zeros_like(b), 1e-6, 200).statistics
    assert statistics.tolerances == [1e-6]
    assert statistics.residuals[0][-1] < 1e-6


@pytest.mark.parametrize("name", SOLVERS)
def test_no_steps_and_no_problems(name: str) -> None:
    with pytest.raises(ParameterError, match="max_iter must be an integer of at least 1"):
        SOLVERS[name](lambda x, rows: x, torch.zeros(1, 1), 1e-6, 0)
    assert SOLVERS[name](lambda x, rows: x, torch.zeros(0, 3), 1e-6, 5).value.shape == (0, 3)


def weak(contraction: float, dtype: torch.dtype) -> tuple[Map, Tensor, Tensor]:
    """A map that contracts by so much, where to start, and its fixed point."""
    decay = torch.linspace(-contraction, contraction, 8, dtype=dtype)
    return lambda x, rows: decay * x + 1, torch.zeros(1, 8, dtype=dtype), (1 / (1 - decay.double())).unsqueeze(0)


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_that_rounding_stops_says_so(name: str) -> None:
    """Plain iteration in float32 reported convergence, tol=1e-6, at a relative error of 3e-3."""
    g, start, truth = weak(0.9999, torch.float32)
    if name == "picard":  # it sees how slowly the residual falls
        with pytest.warns(ConvergenceWarning, match=r"tol=1e-06: the relative error may be 0\.00"):
            SOLVERS[name](g, start, 1e-6, 200_000)
    with pytest.warns(ConvergenceWarning, match=r"tol=1e-06: the relative error may be 0\.00"):
        solution = SOLVERS[name](g, start, 1e-6, 200_000, contraction=0.9999)
    (bound,) = solution.statistics.bounds
    error = float((solution.value.double() - truth).norm() / truth.norm())
    assert error <= bound < 0.05


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("contraction", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("name", SOLVERS)
def test_the_bound_holds_and_nothing_is_said_where_enough_digits_are_left(
    name: str, contraction: float, dtype: torch.dtype
) -> None:
    g, start, truth = weak(contraction, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = SOLVERS[name](g, start, 1e-6, 20_000, contraction=contraction)
    (bound,) = solution.statistics.bounds
    assert float((solution.value.double() - truth).norm() / truth.norm()) <= bound < 1e-4


def test_without_a_contraction_plain_iteration_goes_by_what_it_saw() -> None:
    g, start, truth = weak(0.9, torch.float64)
    solution = picard(g, start, 1e-6, 1000)
    (bound,) = solution.statistics.bounds
    assert float((solution.value - truth).norm() / truth.norm()) <= bound < 1e-5
    assert anderson(g, start, 1e-6, 1000).statistics.bounds == [math.inf]


def test_rounding_above_the_tolerance_without_a_contraction() -> None:
    """No two states in float32 are as near as this tolerance asks."""
    b = 1e4 * numbers(1, 6, seed=2).float()
    g = affine(*(t.float() for t in linear(1, 6, 0.5, seed=1)))
    with pytest.warns(ConvergenceWarning, match="no contraction bounds the error"):
        anderson(lambda x, rows: g(x, rows) + b, torch.zeros(1, 6), 1e-9, 500)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("image", [None, "abc", [1.0], torch.ones(3, 2).cfloat(), torch.ones(4, 2), torch.ones(3)])
def test_a_map_that_returns_no_states_is_refused(name: str, image: Any) -> None:
    with pytest.raises(ArmagnnError, match="the map"):
        SOLVERS[name](lambda x, rows: image, torch.ones(3, 2), 1e-3, 5)


def test_statistics_are_shown_in_a_line_however_long_the_solve() -> None:
    back = Statistics([[0.5] * 99], residual=2e-9)
    found = repr(Statistics([[0.5] * 1000 for _ in range(50)], converged=[True] * 50, adjoint=back))
    assert found.startswith("Statistics(steps=[1000, 1000,")
    assert found.endswith("adjoint=Statistics(steps=[99], residual=2e-09, converged=True))")
    assert len(found) < 250
