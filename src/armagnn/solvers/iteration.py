"""Plain fixed-point iteration, and the loop that all fixed-point solvers share: P problems, each stops by itself."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor
from torch.linalg import vector_norm

from armagnn.arguments import checked
from armagnn.checks import integer, real_tensor
from armagnn.errors import ConvergenceWarning, ShapeError, shown

Map = Callable[[Tensor, Tensor], Tensor]
"""g(x, rows): the image of states x, shape (P', D), of the problems whose numbers are ``rows``, shape (P')."""

Total = Callable[[Tensor], Tensor]
"""Returns the sum over the ranks of what each of them has added up over its own part of the states."""

ROUNDING = 4.0
"""A residual below this number of units of rounding of the state counts as zero."""


@checked
@dataclass(repr=False)
class Statistics:
    """How a solver got to its answer, for each of P problems; a linear system with many right sides is one problem.

    Example:
        >>> Statistics([[0.5, 1e-7], [1e-8]], converged=[True, True])
        Statistics(steps=[2, 1], residual=1e-07, converged=[True, True])

    Attributes:
        residuals: for each problem its trace, one number a step: of a fixed point ||g(x) - x||, of conjugate gradients
            the largest relative residual, of a filter's recursion the bound of the relative error, rounding included.
        tolerances: for each problem what the last of them had to be below: ``tol``, or 4 ε ||g(x)|| (ε: the rounding of
            the type, 1.2e-7 in float32) where that is more and the residual no longer falls.
        converged: for each problem whether it was; of a linear system one truth value, True, too, if rounding errors
            allow no more.
        bounds: for each problem a bound of ||x - x*|| / ||x||, rounding included: where g hardly contracts, the
            residual alone says little. It goes by the contraction, if that is known, and for plain iteration else by
            how the residual fell; infinite where neither is known.
        adjoint: the statistics of the solve behind the implicit gradient, once there was a backward pass; its residuals
            are relative to the gradient that came down.
        residual: of a linear system the largest residual of its answer, in the measure of the trace.
        squared: the matrix of a linear system was not definite, so that the system with its square was solved.
    """

    residuals: list[list[float]] = field(default_factory=lambda: [[]])
    tolerances: list[float] = field(default_factory=list)
    converged: list[bool] | bool = True
    bounds: list[float] = field(default_factory=list)
    adjoint: Statistics | None = None
    residual: float = 0.0
    squared: bool = False

    def __repr__(self) -> str:
        residual = self.residual or max((trace[-1] for trace in self.residuals if trace), default=0.0)
        reached = self.converged if isinstance(self.converged, bool) else shown(self.converged)
        ends = "" if self.adjoint is None else f", adjoint={self.adjoint!r}"
        return f"Statistics(steps={shown(self.steps)}, residual={residual:.2g}, converged={reached}{ends})"

    @property
    def steps(self) -> list[int]:
        """T_k, the steps (evaluations of g, or products with the matrix) that each problem took."""
        return [len(trace) for trace in self.residuals]

    @property
    def iterations(self) -> int:
        """The steps of the slowest problem."""
        return max(self.steps, default=0)

    @property
    def history(self) -> list[float]:
        """The trace of a linear system."""
        return self.residuals[0]

    @property
    def failed(self) -> list[int]:
        """The problems that did not converge."""
        converged = [self.converged] if isinstance(self.converged, bool) else self.converged
        return [problem for problem, reached in enumerate(converged) if not reached]

    def _warn(self, name: str, advice: str, measure: str = "relative residual") -> None:
        """Warn if the answer of a linear system is not what was asked for."""
        if self.failed:
            warnings.warn(
                f"{name} stopped after {self.iterations} iterations at a {measure} of {self.residual:.1e}: {advice}.",
                ConvergenceWarning,
                stacklevel=3,
            )


@checked
@dataclass(frozen=True, eq=False)
class Solution:
    """What a solver found: ``value``, shape (P, D), and how it got there."""

    value: Tensor
    statistics: Statistics


class Acceleration(Protocol):
    """What is tried next, and what goes when problems have stopped."""

    plain: bool
    """Every step is the image of the last, so that residuals fall as g contracts."""

    def propose(self, state: Tensor, image: Tensor, residuals: list[float]) -> Tensor:
        """Return the states to look at next, from x, g(x) and the norms of g(x) - x."""

    def keep(self, mask: Tensor) -> None:
        """Forget the problems that a mask, shape (P'), does not keep."""


def iterate(
    function: Map,
    initial: Tensor,
    tol: float,
    max_iter: int,
    acceleration: Acceleration,
    contraction: float | None = None,
    total: Total | None = None,
) -> Solution:
    """Look at x and g(x), then at what is proposed next, until ||g(x) - x|| < tol; the answer is that g(x).

    Problems that have stopped take no further part. A problem that gives no finite number twice in a row is given up.

    Args:
        function: the map g.
        initial: where to start, shape (P, D).
        tol: the tolerance, in Euclidean norm (the Frobenius norm of a state that is a matrix); see `Statistics` for
            what rounding makes of it.
        max_iter: the most steps.
        acceleration: what to look at next.
        contraction: the c of ||g(x) - g(y)|| <= c ||x - y||, where it is known.
        total: sums over the ranks, where each holds a part of every state.
    """
    integer("max_iter", max_iter, 1, None)
    real_tensor("initial", initial, "(P, D)")
    problems = initial.shape[0]
    if problems == 0:
        return Solution(initial, Statistics([], [], []))
    alive, rows = list(range(problems)), torch.arange(problems, device=initial.device)
    converged = [False] * problems
    statistics = Statistics([[] for _ in alive], [tol] * problems, bounds=[math.inf] * problems)
    found: list[tuple[Tensor, Tensor]] = []
    state, rounding = initial, ROUNDING * torch.finfo(initial.dtype).eps
    lowest, stood = [math.inf] * problems, list[int]()
    for step in range(max_iter):
        image = function(state, rows)
        if step == 0 and real_tensor("what the map returns", image, "(P, D)").shape != state.shape:
            raise ShapeError(f"the map must return the shape {tuple(state.shape)} of its states, got {shown(image)}.")
        with torch.no_grad():
            norms = torch.stack([norms_of(image - state, total), rounding * norms_of(image, total)])
        residuals, floors = norms.tolist()
        stopped = []
        for problem, residual, floor in zip(alive, residuals, floors, strict=True):
            trace = statistics.residuals[problem]
            hopeless = not math.isfinite(residual) and (not trace or not math.isfinite(trace[-1]))
            trace.append(residual)
            falling, lowest[problem] = residual < lowest[problem], min(residual, lowest[problem])
            tolerance = tol if falling or not math.isfinite(floor) else max(tol, floor)
            statistics.tolerances[problem] = tolerance
            converged[problem] = residual < tolerance
            stopped.append(residual < tolerance or hopeless or step == max_iter - 1)
            if stopped[-1]:
                rate = _observed(trace, floor) if contraction is None and acceleration.plain else contraction
                statistics.bounds[problem] = _bound(trace, floor / rounding, rounding / ROUNDING, rate)
                if converged[problem] and residual <= floor:
                    stood.append(problem)
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
    _warn_of_rounding(statistics, tol, stood, rounding / ROUNDING)
    statistics.converged = converged
    order = torch.cat([which for which, _ in found]).argsort()
    return Solution(torch.cat([value for _, value in found])[order], statistics)


def norms_of(state: Tensor, total: Total | None) -> Tensor:
    """Return the norm of every problem's state, shape (P), of states (P, D)."""
    return vector_norm(state, dim=1) if total is None else total(state.square().sum(1)).sqrt()


@checked
def picard(
    function: Map,
    initial: Tensor,
    tol: float,
    max_iter: int,
    contraction: float | None = None,
    total: Total | None = None,
) -> Solution:
    r"""Solve :math:`x = g(x)` by :math:`x^{(t+1)} = g(x^{(t)})`, until :math:`\|x^{(t+1)} - x^{(t)}\| < tol`.

    This is Eq. 14 iterated until convergence. If g contracts by c, the residual falls by c in every step, and what is
    found is not farther than c / (1 - c) times the residual from the fixed point: ``contraction`` turns it into a bound
    of the error, `Statistics.bounds`. Autograd follows all steps, where it is switched on.

    Args:
        function: g, as a `Map`: it takes the states and the numbers of the problems that have not stopped yet.
        initial: x(0) of P independent problems, shape (P, D).
        tol: the tolerance.
        max_iter: the most steps of a problem.
        contraction: c, where it is known.
        total: sums over the ranks, where each holds a part of every state.

    Example:
        >>> import torch
        >>> a = torch.tensor([[0.9], [0.1]])
        >>> solution = picard(lambda x, rows: a[rows] * x + 1, torch.zeros(2, 1), tol=1e-3, max_iter=100)
        >>> solution.value.squeeze(), solution.statistics.steps
        (tensor([9.9914, 1.1111]), [67, 5])
    """
    return iterate(function, initial, tol, max_iter, _Plain(), contraction, total)


class _Plain:
    plain = True

    def propose(self, state: Tensor, image: Tensor, residuals: list[float]) -> Tensor:
        return image

    def keep(self, mask: Tensor) -> None:
        pass


def _bound(trace: list[float], size: float, eps: float, contraction: float | None) -> float:
    """Return (c ||g(x) - x|| + ε ||g(x)||) / (1 - c), which g(x) is not farther off than, relative to ||g(x)||."""
    residual = trace[-1]
    if contraction is None or contraction >= 1 or not math.isfinite(residual):
        return math.inf
    if size == 0:
        return 0.0 if residual == 0 else math.inf
    return (contraction * residual / size + eps) / (1 - contraction)


def _observed(trace: list[float], floor: float) -> float | None:
    """Return the factor by which the residual fell from step to step, above the level of rounding errors."""
    above = [residual for residual in trace if residual > 10 * floor]
    late = above[len(above) // 2 :]  # what falls fast has gone by then
    if len(late) < 2:
        return None
    return math.exp(math.log(late[-1] / late[0]) / (len(late) - 1))


def _warn_of_rounding(statistics: Statistics, tol: float, stood: list[int], eps: float) -> None:
    """Warn of problems that stand still at rounding errors, where these leave few digits or an unknown number."""
    few = [k for k in stood if not statistics.bounds[k] <= math.sqrt(eps)]
    few = [k for k in few if statistics.tolerances[k] > tol or math.isfinite(statistics.bounds[k])]
    if not few:
        return
    bound = max(statistics.bounds[k] for k in few)
    error = f"the relative error may be {bound:.1g}" if math.isfinite(bound) else "no contraction bounds the error"
    warnings.warn(
        f"the fixed point stands still at rounding errors, in {len(few)} of {len(stood)} problems, with "
        f"||g(x) - x|| = {max(statistics.residuals[k][-1] for k in few):.2g} for tol={tol:g}: {error}. Use float64, a "
        "smaller contraction or a larger tol.",
        ConvergenceWarning,
        stacklevel=3,
    )
