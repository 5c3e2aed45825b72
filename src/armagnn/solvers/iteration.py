"""The loop that all fixed-point solvers share: P independent problems, each of which stops by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.linalg import vector_norm

from armagnn.arguments import checked
from armagnn.checks import integer, real_tensor

Map = Callable[[Tensor, Tensor], Tensor]
"""g(x, rows): the image of states x, shape (P', D), of the problems whose numbers are ``rows``, shape (P')."""

ROUNDING = 4.0
"""A residual of so many units of rounding of the state is none."""


@checked
@dataclass
class Statistics:
    """How a solve went.

    Attributes:
        residuals: for each problem the trace of ||g(x) - x||, one number a step.
        tolerances: for each problem what the last of them had to be below: ``tol``, or 4 ε ||g(x)|| (ε: the rounding of
            the type, 1.2e-7 in float32) where that is more and the residual no longer falls.
        converged: for each problem whether it was.
        adjoint: the statistics of the solve behind the implicit gradient, once there was a backward pass; its residuals
            are relative to the gradient that came down.
    """

    residuals: list[list[float]]
    tolerances: list[float]
    converged: list[bool]
    adjoint: Statistics | None = None

    @property
    def steps(self) -> list[int]:
        """T_k, the steps (evaluations of g) that each problem took."""
        return [len(trace) for trace in self.residuals]


@checked
@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found: ``value``, shape (P, D), and how it got there."""

    value: Tensor
    statistics: Statistics


class Acceleration(Protocol):
    """What is tried next, and what goes when problems have stopped."""

    def propose(self, state: Tensor, image: Tensor, residuals: list[float]) -> Tensor:
        """Return the states to look at next, from x, g(x) and the norms of g(x) - x."""

    def keep(self, mask: Tensor) -> None:
        """Forget the problems that a mask, shape (P'), does not keep."""


def iterate(function: Map, initial: Tensor, tol: float, max_iter: int, acceleration: Acceleration) -> Solution:
    """Look at x and g(x), then at what is proposed next, until ||g(x) - x|| < tol; the answer is that g(x).

    Problems that have stopped take no further part. A problem that gives no finite number twice in a row is given up.

    Args:
        function: the map g.
        initial: where to start, shape (P, D).
        tol: the tolerance, in Euclidean norm (the Frobenius norm of a state that is a matrix); see `Statistics` for
            what rounding makes of it.
        max_iter: the most steps.
        acceleration: what to look at next.
    """
    integer("max_iter", max_iter, 1, None)
    real_tensor("initial", initial, "(P, D)")
    problems = initial.shape[0]
    if problems == 0:
        return Solution(initial, Statistics([], [], []))
    alive, rows = list(range(problems)), torch.arange(problems, device=initial.device)
    statistics = Statistics([[] for _ in alive], [tol] * problems, [False] * problems)
    found: list[tuple[Tensor, Tensor]] = []
    state, rounding = initial, ROUNDING * torch.finfo(initial.dtype).eps
    lowest = [math.inf] * problems
    for step in range(max_iter):
        image = function(state, rows)
        with torch.no_grad():
            norms = torch.stack([vector_norm(image - state, dim=1), rounding * vector_norm(image, dim=1)])
        residuals, floors = norms.tolist()
        stopped = []
        for problem, residual, floor in zip(alive, residuals, floors, strict=True):
            trace = statistics.residuals[problem]
            hopeless = not math.isfinite(residual) and (not trace or not math.isfinite(trace[-1]))
            trace.append(residual)
            falling, lowest[problem] = residual < lowest[problem], min(residual, lowest[problem])
            tolerance = tol if falling or not math.isfinite(floor) else max(tol, floor)
            statistics.tolerances[problem] = tolerance
            statistics.converged[problem] = residual < tolerance
            stopped.append(residual < tolerance or hopeless or step == max_iter - 1)
        if any(stopped):
            done = torch.tensor(stopped, device=rows.device)
            found.append((rows[done], image[done]))
            if all(stopped):
                break
            keep = ~done
            alive = [problem for problem, over in zip(alive, stopped, strict=True) if not over]
            residuals = [residual for residual, over in zip(residuals, stopped, strict=True) if not over]
            rows, state, image = rows[keep], state[keep], image[keep]
            acceleration.keep(keep)
        state = acceleration.propose(state, image, residuals)
    order = torch.cat([which for which, _ in found]).argsort()
    return Solution(torch.cat([value for _, value in found])[order], statistics)
