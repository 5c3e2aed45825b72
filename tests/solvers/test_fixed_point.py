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

from armagnn.errors import ConvergenceError, ConvergenceWarning, ParameterError
from armagnn.solvers import FixedPoint, anderson, implicit, picard
from armagnn.solvers.iteration import Map, Solution
from oracles import assert_near, numbers

SOLVERS = {"picard": picard, "anderson": anderson}


def linear(problems: int, size: int, contraction: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Matrices with exactly this norm, and right-hand sides."""
    a = numbers(problems, size, size, seed=seed)
    return contraction * a / torch.linalg.matrix_norm(a, 2, keepdim=True), numbers(problems, size, seed=seed + 1)


def affine(a: Tensor, b: Tensor) -> Map:
    return lambda x, rows: torch.einsum("pij,pj->pi", a[rows], x) + b[rows]


def solved(a: Tensor, b: Tensor) -> Tensor:
    return torch.linalg.solve(torch.eye(a.shape[-1], dtype=a.dtype) - a, b)


# --------------------------------------------------------------------------------------------------------------- values


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


def test_anderson_needs_a_fraction_of_the_steps_where_the_contraction_is_weak() -> None:
    size = 40  # a path with reflecting ends, as far as a chain of nodes is long
    path = torch.diag(torch.full((size - 1,), 0.5, dtype=torch.float64), 1)
    a, b = 0.99 * (path + path.T).unsqueeze(0), numbers(1, size)
    plain, fast = (solver(affine(a, b), torch.zeros_like(b), 1e-8, 50_000) for solver in (picard, anderson))
    assert plain.statistics.steps[0] > 3 * fast.statistics.steps[0]
    assert_near(fast.value, solved(a, b), 1e-5)


@pytest.mark.parametrize("fault", ["nan", "jump", "inf"])
def test_a_failing_step_of_anderson_falls_back_to_a_plain_one(fault: str) -> None:
    # beyond the solution, where only extrapolation gets, the map is useless
    a, b = linear(2, 8, 0.95)
    a, b = a.abs(), b.abs()
    a = 0.95 * a / torch.linalg.matrix_norm(a, 2, keepdim=True)
    top = solved(a, b) * (1 + 1e-9)
    bad = {"nan": math.nan, "jump": 1e3, "inf": math.inf}[fault]
    spoilt = 0

    def function(x: Tensor, rows: Tensor) -> Tensor:
        nonlocal spoilt
        beyond = (x > top[rows]).any(1, keepdim=True)
        spoilt += int(beyond.sum())
        return torch.where(beyond, bad, affine(a, b)(x, rows))

    solution = anderson(function, torch.zeros_like(b), 1e-7, 2000)
    assert spoilt > 0
    assert all(solution.statistics.converged)
    assert_near(solution.value, solved(a, b), 1e-5)
    plain = picard(affine(a, b), torch.zeros_like(b), 1e-7, 2000)
    for ours, theirs in zip(solution.statistics.steps, plain.statistics.steps, strict=True):
        assert ours <= 2 * theirs + 2


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


# ------------------------------------------------------------------------------------------------------------ gradients


def solver(name: str, tol: float = 1e-13) -> Any:
    return lambda function, start: SOLVERS[name](function, start, tol, 5000)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_implicit_gradient_is_that_of_the_dense_solution(name: str) -> None:
    a, b = linear(3, 5, 0.9)
    a = (a * torch.tensor([1.0, 0.2, 0.6]).double().view(3, 1, 1)).requires_grad_()
    b.requires_grad_()
    frozen = affine(a.detach(), b.detach())
    found = solver(name)(frozen, torch.zeros(3, 5, dtype=torch.float64))
    ours, truth = implicit(affine(a, b), frozen, found.value, solver(name)), solved(a, b)
    assert torch.equal(ours, found.value)
    direction = numbers(3, 5, seed=7)
    direction[1] = 0  # no gradient comes down to this problem
    for one, two in zip(
        torch.autograd.grad((ours * direction).sum(), [a, b]),
        torch.autograd.grad((truth * direction).sum(), [a, b]),
        strict=True,
    ):
        assert_near(one, two, 1e-10)


def test_a_tiny_gradient_is_as_precise_as_a_large_one() -> None:
    a, b = linear(1, 5, 0.9)
    b.requires_grad_()
    frozen = affine(a, b.detach())
    found = solver("picard")(frozen, torch.zeros(1, 5, dtype=torch.float64)).value
    loose = implicit(affine(a, b), frozen, found, solver("picard", 1e-6))
    (one,), (tiny,) = (torch.autograd.grad((loose * c).sum(), b, retain_graph=True) for c in (1.0, 1e-9))
    assert_near(tiny * 1e9, one, 1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_unrolled_and_implicit_gradients_agree(name: str) -> None:
    a, b = linear(2, 4, 0.8)
    a.requires_grad_()
    results = []
    for backward in ("implicit", "unrolled"):
        settings = FixedPoint(1e-13, 2000, 0.8, backward, name)  # type: ignore[arg-type]
        step = lambda x, rows: torch.tanh(affine(a, b)(x, rows))  # noqa: E731
        frozen = lambda x, rows: torch.tanh(affine(a.detach(), b)(x, rows))  # noqa: E731
        value = settings.solve(step, frozen, torch.zeros_like(b)).value
        results.append((value.detach(), *torch.autograd.grad(value.square().sum(), a)))
    for one, two in zip(*results, strict=True):
        assert_near(one, two, 1e-10)


def test_the_implicit_gradient_is_not_differentiated_again_but_the_unrolled_is() -> None:
    a = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)

    def gradient(backward: Any) -> Tensor:
        settings = FixedPoint(1e-13, 500, 0.9, backward, "picard")
        start = torch.zeros(1, 1, dtype=torch.float64)
        x = settings.solve(lambda x, _: a * x + 1, lambda x, _: a.detach() * x + 1, start).value
        return torch.autograd.grad(x.sum(), a, create_graph=True)[0]

    with pytest.raises(ParameterError, match="unrolled"):
        gradient("implicit")
    (second,) = torch.autograd.grad(gradient("unrolled"), a)
    assert_near(second, torch.tensor(16.0), 1e-9)  # (1 / (1 - a))''


# ------------------------------------------------------------------------------------------------------------- settings


def half(x: Tensor, rows: Tensor) -> Tensor:
    return 0.9 * x + 1


def test_a_failure_raises_or_warns() -> None:
    start = torch.zeros(2, 3, dtype=torch.float64)
    with pytest.raises(ConvergenceError, match=r"tol=1e-06 in 5 steps, in 2 of 2 stacks .*max_iter"):
        FixedPoint(max_iter=5, solver="picard").solve(half, half, start)
    with pytest.warns(ConvergenceWarning, match="did not reach tol"):
        solution = FixedPoint(max_iter=5, on_failure="warn", solver="picard").solve(half, half, start)
    assert_near(solution.value, np.full((2, 3), sum(0.9**t for t in range(5))))
    assert solution.statistics.converged == [False, False]
    with pytest.raises(ConvergenceError, match="not finite"):
        FixedPoint().solve(half, lambda x, _: x * math.nan, start)


def test_a_failure_of_the_adjoint_raises_or_warns() -> None:
    b = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    start = torch.full((1, 1), 10.0, dtype=torch.float64)  # the solution, but the adjoint starts elsewhere

    def run(on_failure: Any) -> tuple[Solution, Tensor]:
        settings = FixedPoint(max_iter=3, on_failure=on_failure, solver="picard")
        solution = settings.solve(lambda x, _: 0.9 * x + b, lambda x, _: 0.9 * x + b.detach(), start)
        return solution, torch.autograd.grad(solution.value.sum(), b)[0]

    with pytest.raises(ConvergenceError, match="adjoint"):
        run("raise")
    with pytest.warns(ConvergenceWarning, match="adjoint"):
        solution, gradient = run("warn")
    assert_near(gradient, np.array([[1 + 0.9 + 0.81 + 0.729]]))
    assert solution.statistics.adjoint is not None
    assert solution.statistics.adjoint.steps == [3]


@pytest.mark.parametrize(
    ("name", "value"),
    [("tol", v) for v in (0, -1e-3, math.nan, math.inf, None, "1", True)]
    + [("max_iter", v) for v in (0, -3, 2.5, None, True)]
    + [("contraction", v) for v in (0, 1, 1.0, -0.5, 1.5, math.nan, None, "0.9", True)]
    + [("backward", v) for v in ("implicitly", None, 1)]
    + [("solver", v) for v in ("newton", None)]
    + [("on_failure", v) for v in ("ignore", None)],
)
def test_bad_settings(name: str, value: Any) -> None:
    with pytest.raises(ParameterError, match=name):
        FixedPoint(**{name: value})


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


# ------------------------------------------------------------------------------------------------- what rounding leaves


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


@pytest.mark.parametrize("solver", ["picard", "anderson"])
def test_a_layer_is_warned_by_its_own_contraction(solver: Any) -> None:
    g, start, _ = weak(0.9999, torch.float32)
    with pytest.warns(ConvergenceWarning, match="relative error may be"):
        solution = FixedPoint(contraction=0.9999, solver=solver, max_iter=200_000).solve(g, g, start)
    assert solution.statistics.converged == [True]
    assert solution.statistics.bounds[0] > 1e-4
