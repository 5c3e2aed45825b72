"""`FixedPoint`: how the convergent ARMA layer is solved; `implicit`: the gradient without the way there."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import ConvergenceError, ConvergenceWarning, ParameterError
from armagnn.solvers.anderson import anderson
from armagnn.solvers.iteration import Map, Solution, Statistics, Total, norms_of, picard
from armagnn.torch_private import ReverseOnly, gradients_by_loop

Solver = Callable[..., Solution]
SOLVERS: Final[dict[str, Solver]] = {"anderson": anderson, "picard": picard}


@dataclass(frozen=True)
class FixedPoint:
    r"""Iterate until :math:`\|\bar X^{(t+1)} - \bar X^{(t)}\|_F < tol`, each stack by itself (Theorem 1).

    Args:
        tol: the tolerance, a positive number. Where the residual no longer falls, one of 4 ε ||X|| is taken for none
            (ε = 1.2e-7 in float32, 2.2e-16 in float64); `Statistics` says which of the two was in force, and bounds
            the error. A `ConvergenceWarning` comes where that leaves less than half of the digits.
        max_iter: the most steps of a stack.
        contraction: the bound on :math:`\|W_k\|_2`, in (0, 1). Information decays over distance: what k hops away is
            wanted must not have decayed, and a bound near 1 needs many steps.
        backward: ``"implicit"``, by the adjoint fixed point, whose memory does not depend on the number of steps; or
            ``"unrolled"``, through all steps, which then are those of plain iteration.
        solver: ``"anderson"`` (accelerated) or ``"picard"`` (plain iteration).
        on_failure: what to do when ``tol`` is not reached within ``max_iter`` steps: ``"raise"`` a `ConvergenceError`
            or ``"warn"`` with a `ConvergenceWarning` and go on with what there is.

    Example:
        >>> FixedPoint(contraction=0.99).solver
        'anderson'
        >>> FixedPoint(contraction=1.0)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: contraction must be a finite number in (0, 1), got 1.0.
    """

    tol: float = 1e-6
    max_iter: int = 500
    contraction: float = 0.95
    backward: Literal["implicit", "unrolled"] = "implicit"
    solver: Literal["anderson", "picard"] = "anderson"
    on_failure: Literal["raise", "warn"] = "raise"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", checks.real("tol", self.tol, above=0))
        object.__setattr__(self, "max_iter", checks.integer("max_iter", self.max_iter, 1))
        object.__setattr__(self, "contraction", checks.real("contraction", self.contraction, above=0, below=1))
        for what, name, known in (
            ("backward", self.backward, ("implicit", "unrolled")),
            ("solver", self.solver, tuple(SOLVERS)),
            ("on_failure", self.on_failure, ("raise", "warn")),
        ):
            checks.choice(what, name, known)

    @checked
    def solve(self, step: Map, frozen: Map, initial: Tensor, total: Total | None = None) -> Solution:
        """Solve x = step(x) for P independent problems, differentiable as ``backward`` says.

        Args:
            step: the map, with parameters that autograd follows.
            frozen: the same map, with parameters that need no gradient.
            initial: where to start, shape (P, D).
            total: sums over the ranks, where each holds a part of every state.
        """
        if torch.is_grad_enabled() and self.backward == "unrolled":
            return self._checked(picard, step, initial, "the fixed point", total)
        with torch.no_grad():
            solution = self._checked(SOLVERS[self.solver], frozen, initial, "the fixed point", total)
        if not torch.is_grad_enabled():
            return solution

        def adjoint(function: Map, start: Tensor) -> Solution:
            found = self._checked(SOLVERS[self.solver], function, start, "the adjoint of the fixed point", total)
            solution.statistics.adjoint = found.statistics
            return found

        return Solution(implicit(step, frozen, solution.value, adjoint, total), solution.statistics)

    def _checked(self, solver: Solver, function: Map, initial: Tensor, what: str, total: Total | None) -> Solution:
        """Solve, and see to it that a failure does not pass in silence."""
        solution = solver(function, initial, self.tol, self.max_iter, contraction=self.contraction, total=total)
        statistics = solution.statistics
        if statistics.failed:
            message = self._failure(what, statistics)
            if self.on_failure == "raise":
                raise ConvergenceError(message)
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return solution

    def _failure(self, what: str, statistics: Statistics) -> str:
        failed = statistics.failed
        worst = max((statistics.residuals[k][-1] for k in failed), key=lambda r: math.inf if math.isnan(r) else r)
        message = (
            f"{what} did not reach tol={self.tol:g} in {statistics.iterations} steps, in {len(failed)} of "
            f"{len(statistics.residuals)} stacks (residual: {worst:.3g}): "
        )
        if not math.isfinite(worst):
            return message + "something is not finite (input, weights, a gradient, or a norm that overflows)."
        return message + "use a larger max_iter or tol, a smaller contraction, or float64."


@checked
def implicit(
    step: Map,
    frozen: Map,
    solution: Tensor,
    solve: Callable[[Map, Tensor], Solution],
    total: Total | None = None,
) -> Tensor:
    r"""Return the fixed point :math:`x = g(x, \theta)` with its gradient by the implicit function theorem,

    .. math::
        \frac{\partial \ell}{\partial \theta} = u \frac{\partial g}{\partial \theta}, \qquad
        u = \frac{\partial \ell}{\partial x} + u \frac{\partial g}{\partial x}.

    u is the fixed point of the adjoint map, which contracts as g does; it is solved for in the backward pass. One step
    is kept for that, however many were taken. The second derivative is refused.

    Args:
        step: g with parameters that autograd follows.
        frozen: the same g with parameters that need no gradient.
        solution: x, shape (P, D).
        solve: solves the adjoint problem x = g(x) from an initial state; the right-hand side is scaled to length one,
            so that a tolerance means the same whatever the loss.
        total: sums over the ranks, where each holds a part of every state.

    Example:
        >>> import torch
        >>> from armagnn.solvers import picard
        >>> a = torch.tensor(0.5, requires_grad=True)
        >>> solve = lambda g, start: picard(g, start, tol=1e-6, max_iter=100)
        >>> x = implicit(lambda x, _: a * x + 1, lambda x, _: 0.5 * x + 1, torch.tensor([[2.0]]), solve)
        >>> torch.autograd.grad(x.sum(), a)  # of 1 / (1 - a)
        (tensor(4.0000),)
    """
    checks.real_tensor("solution", solution, "(P, D)")
    rows = torch.arange(solution.shape[0], device=solution.device)
    with torch.enable_grad():
        image = step(solution.detach(), rows)

    def adjoint(gradient: Tensor) -> Tensor:
        length = norms_of(gradient, total).unsqueeze(1)
        length = torch.where(length > 0, length, 1.0)
        right = gradient / length
        return length * solve(_transposed(frozen, solution.detach(), right), right).value

    attached: Tensor = _Attach.apply(image, solution.detach(), adjoint)  # type: ignore[no-untyped-call]
    return attached


def _transposed(frozen: Map, point: Tensor, right: Tensor) -> Map:
    """Return the adjoint map u -> right + u ∂g/∂x at a point; g is linearised again when problems have stopped."""
    kept: list[tuple[Tensor, Tensor, Tensor]] = []

    def function(u: Tensor, rows: Tensor) -> Tensor:
        if not kept or kept[0][0] is not rows:
            with torch.enable_grad():
                x = point[rows].requires_grad_()
                kept[:] = [(rows, x, frozen(x, rows))]
        _, x, image = kept[0]
        (down,) = torch.autograd.grad(image, x, u, retain_graph=True)
        return right[rows] + down

    return function


class _Attach(ReverseOnly):
    """The solution, whose gradient goes through the adjoint problem to the step that starts and ends there."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, solution: Tensor, adjoint: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.adjoint = adjoint
        return solution.view_as(solution)

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise ParameterError(
                "the implicit gradient of a fixed point cannot be differentiated again (create_graph=True): "
                "use FixedPoint(backward='unrolled')."
            )
        with torch.autocast(gradient.device.type, enabled=False):  # a backward pass within autocast would round it
            return ctx.adjoint(gradient), None, None
