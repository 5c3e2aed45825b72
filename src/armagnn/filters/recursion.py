"""The first-order recursion of Eq. 8, run until it stands still."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from armagnn.errors import GraphError
from armagnn.operators import GraphOperator
from armagnn.solvers import Statistics
from armagnn.solvers.conjugate_gradients import norm, power_of_two
from armagnn.torch_private import ReverseOnly, gradients_by_loop, refuse_transforms

TOLERANCE: Final = {torch.float64: 1e-12, torch.float32: 1e-6}
MAX_ITER: Final = 100_000
ROUNDING: Final = 2.0
"""Rounding errors of a step, in units of the type: a step that changes no more than that changes nothing."""


def recursion(
    op: GraphOperator, a: Tensor, y: Tensor, tol: float | None = None, max_iter: int = MAX_ITER
) -> tuple[Tensor, Statistics]:
    r"""Iterate :math:`\bar X^{(t+1)} = a M \bar X^{(t)} + Y` (Eq. 8) from zero, each column with its own ``a``.

    M has eigenvalues in [-1, 1], so a step shrinks the distance to the limit :math:`(I - aM)^{-1} Y` by |a| < 1, and
    what is still missing is at most :math:`\frac{1}{1 - |a|} (|a| |\bar X^{(t+1)} - \bar X^{(t)}| + \delta)`, with
    :math:`\delta` for the rounding errors of a step. The recursion stops when that is below ``tol`` times the size of
    every column, so the tolerance, and the ``residual`` of the statistics, are of the error, not of the step.

    Where rounding in float32 keeps it above the tolerance, the last steps are taken in float64. Where |a| is so near 1
    that this does not help either, it warns.

    Differentiable in a and Y, with the adjoint recursion for the gradient: memory does not grow with the steps.

    Args:
        op: the symmetric operator M.
        a: shape (C), real or complex, |a| < 1.
        y: shape (N, C), real or complex.
        tol: relative error; by default 1e-6 in float32, and in float64 1e-12 or what rounding allows, if that is more.
        max_iter: steps after which it stops, with a warning.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)
        >>> x, statistics = recursion(op, torch.tensor([0.5]).double(), torch.ones(2, 1).double())
        >>> x.squeeze(), statistics.iterations
        (tensor([2.0000, 2.0000], dtype=torch.float64), 39)
    """
    refuse_transforms("a filter solved by method='recursion'")
    log: list[Statistics] = []
    if a.is_complex() or y.is_complex():  # a keeps its precision: near 1 its rounding is an error of the answer
        a, y = (t.to(torch.promote_types(t.dtype, torch.complex32)) for t in (a, y))
    z: Tensor = _Recursion.apply(op, a, y, tol, max_iter, log)  # type: ignore[no-untyped-call]
    log[0]._warn("the recursion", "raise max_iter or tol, or use method='exact'", "relative error of up to")
    return z, log[0]


class _Recursion(ReverseOnly):
    """Z = (I - aM)^-1 Y; with Λ = (I - conj(a) M)^-1 G the gradients are Λ and sum(Λ * conj(M Z))."""

    @staticmethod
    def forward(
        ctx: Any, op: GraphOperator, a: Tensor, y: Tensor, tol: float | None, max_iter: int, log: list[Statistics]
    ) -> Tensor:
        z, statistics = _iterate(op, a, y, tol, max_iter)
        log.append(statistics)
        ctx.op, ctx.options = op, (tol, max_iter)
        ctx.save_for_backward(a, z)
        return z

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        a, z = ctx.saved_tensors
        adjoint = _Recursion.apply(ctx.op, a.conj(), grad[0], *ctx.options, [])  # type: ignore[no-untyped-call]
        of_a = (adjoint * times(ctx.op, z).conj()).sum(0) if ctx.needs_input_grad[1] else None
        return None, None if of_a is None else of_a.to(a.dtype), adjoint, None, None, None


def _iterate(
    op: GraphOperator, given: Tensor, y: Tensor, tol: float | None, max_iter: int
) -> tuple[Tensor, Statistics]:
    own, result = y.real.dtype, y.dtype
    statistics = Statistics(converged=False)
    scale = power_of_two(y, op)
    y = y / scale
    finite = op.total((~torch.isfinite(y)).sum(0)) == 0
    z = y
    for precision in dict.fromkeys((own, torch.float64)):
        # the second time, from where rounding in float32 has stopped it
        matrix = op.to(precision)
        wide = torch.promote_types(precision, torch.complex32) if y.is_complex() else precision
        factor, y, z = given.to(wide), y.to(wide), z.to(wide)
        size_of_a = factor.abs()
        eps = torch.finfo(precision).eps
        stored = 0.0 if precision == own else torch.finfo(own).eps / 2  # the answer is rounded once more
        goal = _goal(size_of_a, own) if tol is None else torch.full_like(size_of_a, tol)
        while True:
            new = torch.addcmul(y, factor, times(matrix, z))
            step, size = norm(new - z, op), norm(new, op)
            z = new
            share = torch.where(size > 0, step / size, 0.0)
            bound = (size_of_a * share + ROUNDING * eps) / (1 - size_of_a) + stored
            bound = torch.where(size > 0, bound, 0.0)
            statistics.residual = float(bound.nan_to_num(0.0).max()) if bound.numel() else 0.0
            statistics.history.append(statistics.residual)
            # a column with NaN compares false and is left as it is; one at the level of rounding can get no better
            if not bool(((bound > goal) & (share > ROUNDING * eps)).any()):
                break
            if statistics.iterations >= max_iter:
                return z.to(result) * scale, statistics
        if bool((finite & ~torch.isfinite(size)).any()):
            raise GraphError(
                "the recursion diverges: the operator has eigenvalues beyond [-1, 1], perhaps by its lambda_min "
                "and lambda_max. Use method='exact', or the default range."
            )
        statistics.converged = not bool((bound > goal).any())
        if statistics.converged:
            break
    return z.to(result) * scale, statistics


def _goal(size: Tensor, own: torch.dtype) -> Tensor:
    """Return the tolerance of each column where none was asked for: in float64 what rounding allows, if it is more."""
    goal = torch.full_like(size, TOLERANCE[own])
    return goal if own == torch.float32 else goal.maximum(2 * ROUNDING * torch.finfo(own).eps / (1 - size))


def times(op: GraphOperator, z: Tensor) -> Tensor:
    """Return M z for real or complex z of shape (N, C), as one real product."""
    if not z.is_complex():
        return op @ z
    real = op @ torch.view_as_real(z.resolve_conj()).flatten(1)
    return torch.view_as_complex(real.view(*z.shape, 2))
