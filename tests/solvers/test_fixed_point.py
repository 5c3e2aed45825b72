from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn.errors import ConvergenceError, ConvergenceWarning, ParameterError
from armagnn.solvers import FixedPoint, implicit
from armagnn.solvers.iteration import Map, Solution
from oracles import assert_near, numbers
from solvers.linear_maps import SOLVERS, affine, linear, solved


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


def weak(contraction: float, dtype: torch.dtype) -> tuple[Map, Tensor, Tensor]:
    """A map that contracts by so much, where to start, and its fixed point."""
    decay = torch.linspace(-contraction, contraction, 8, dtype=dtype)
    return lambda x, rows: decay * x + 1, torch.zeros(1, 8, dtype=dtype), (1 / (1 - decay.double())).unsqueeze(0)


@pytest.mark.parametrize("solver", ["picard", "anderson"])
def test_a_layer_is_warned_by_its_own_contraction(solver: Any) -> None:
    g, start, _ = weak(0.9999, torch.float32)
    with pytest.warns(ConvergenceWarning, match="relative error may be"):
        solution = FixedPoint(contraction=0.9999, solver=solver, max_iter=200_000).solve(g, g, start)
    assert solution.statistics.converged == [True]
    assert solution.statistics.bounds[0] > 1e-4
