from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn.solvers import anderson, picard
from oracles import assert_near, numbers
from solvers.linear_maps import SOLVERS, affine, linear, solved


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


def solver(name: str, tol: float = 1e-13) -> Any:
    return lambda function, start: SOLVERS[name](function, start, tol, 5000)
