"""The first-order recursion of Eq. 8, run until it stands still."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from armagnn.errors import GraphError
from armagnn.operators import GraphOperator
from armagnn.solvers.conjugate_gradients import Statistics, power_of_two

TOLERANCE: Final = {torch.float64: 1e-12, torch.float32: 1e-6}
MAX_ITER: Final = 100_000


def recursion(
    op: GraphOperator, a: Tensor, y: Tensor, tol: float | None = None, max_iter: int = MAX_ITER
) -> tuple[Tensor, Statistics]:
    r"""Iterate :math:`\bar X^{(t+1)} = a M \bar X^{(t)} + Y` (Eq. 8) from zero, each column with its own ``a``.

    M has eigenvalues in [-1, 1], so a step shrinks the distance to the limit :math:`(I - aM)^{-1} Y` by |a| < 1, and
    what is still missing is at most :math:`\frac{|a|}{1 - |a|} |\bar X^{(t+1)} - \bar X^{(t)}|`. The recursion stops
    when that is below ``tol`` times the size of every column, so the tolerance is one for the error, not the step.

    Differentiable in a and Y, with the adjoint recursion for the gradient: memory does not grow with the steps.

    Args:
        op: the symmetric operator M.
        a: shape (C), real or complex, |a| < 1.
        y: shape (N, C), real or complex.
        tol: relative error; 1e-12 in float64, 1e-6 in float32 by default.
        max_iter: steps after which it stops, with a warning.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)
        >>> x, statistics = recursion(op, torch.tensor([0.5]).double(), torch.ones(2, 1).double())
        >>> x.squeeze(), statistics.iterations
        (tensor([2.0000, 2.0000], dtype=torch.float64), 39)
    """
    log: list[Statistics] = []
    dtype = torch.result_type(a, y)
    a, y = a.to(dtype), y.to(dtype)
    z: Tensor = _Recursion.apply(op, a, y, tol, max_iter, log)  # type: ignore[no-untyped-call]
    log[0].warn("the recursion", "raise max_iter or tol, or use method='exact'")
    return z, log[0]


class _Recursion(torch.autograd.Function):
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
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        a, z = ctx.saved_tensors
        adjoint = _Recursion.apply(ctx.op, a.conj(), grad[0], *ctx.options, [])  # type: ignore[no-untyped-call]
        of_a = (adjoint * times(ctx.op, z).conj()).sum(0) if ctx.needs_input_grad[1] else None
        return None, of_a, adjoint, None, None, None


def _iterate(op: GraphOperator, a: Tensor, y: Tensor, tol: float | None, max_iter: int) -> tuple[Tensor, Statistics]:
    eps = torch.finfo(y.dtype).eps
    tol = TOLERANCE[y.real.dtype] if tol is None else tol
    factor = a.abs() / (1 - a.abs())
    statistics = Statistics(converged=False)
    scale = power_of_two(y)
    y = y / scale
    z = y
    while True:
        new = torch.addcmul(y, a, times(op, z))
        step, size = (new - z).norm(dim=0), new.norm(dim=0)
        z = new
        statistics.iterations += 1
        share = torch.where(size > 0, step / size, 0.0)
        statistics.residual = float((factor * share).nan_to_num(0.0).max()) if share.numel() else 0.0
        statistics.history.append(statistics.residual)
        # a column with NaN compares false and is left as it is; one at the level of rounding can get no better
        if not bool(((factor * share > tol) & (share > 2 * eps)).any()):
            if bool((torch.isfinite(y).all(0) & ~torch.isfinite(size)).any()):
                raise GraphError(
                    "the recursion diverges: the operator has eigenvalues beyond [-1, 1], perhaps by its lambda_min "
                    "and lambda_max. Use method='exact', or the default range."
                )
            statistics.converged = True
            return z * scale, statistics
        if statistics.iterations >= max_iter:
            return z * scale, statistics


def times(op: GraphOperator, z: Tensor) -> Tensor:
    """Return M z for real or complex z of shape (N, C), as one real product."""
    if not z.is_complex():
        return op @ z
    real = op @ torch.view_as_real(z.resolve_conj()).flatten(1)
    return torch.view_as_complex(real.view(*z.shape, 2))
