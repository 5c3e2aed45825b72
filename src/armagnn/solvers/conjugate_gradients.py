"""Linear systems in polynomials of an operator by conjugate gradients, with the gradient by an adjoint solve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.operators import GraphOperator
from armagnn.operators.all_rows import AllRows
from armagnn.solvers.iteration import Statistics
from armagnn.torch_private import ReverseOnly, gradients_by_loop, refuse_transforms

Product = Callable[[Tensor], Tensor]
TOLERANCE: Final = {torch.float64: 1e-12, torch.float32: 1e-6}
MAX_ITER: Final = 10_000
ONE: Final = AllRows()
"""One process, which has all rows."""
RESTARTS: Final = 4
"""How often the true residual may start the iteration again, which rounding errors have led astray."""


def conjugate_gradients(
    product: Product, y: Tensor, tol: float | None = None, max_iter: int = MAX_ITER, over: AllRows = ONE
) -> tuple[Tensor, Statistics]:
    r"""Solve :math:`A Z = Y` for symmetric A, given as a function ``product``; every column of Y (N, C) is a system.

    A is taken to be positive definite. Where a direction of negative curvature shows that it is not,
    :math:`A^2 Z = A Y` is solved in its place, which is definite for any regular A. A column is done when
    :math:`|Y - A Z| \le tol |Y|`, or when its residual is as small as rounding errors let it be, and at most
    :math:`\sqrt{tol} |Y|`. Columns with NaN or infinity give NaN. Where every rank holds some rows of Y, ``over`` is
    the operator that adds up over them.

    Returns:
        Z and its `Statistics`. No gradient passes; `solve_polynomial` has one.

    Example:
        >>> A = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
        >>> z, statistics = conjugate_gradients(lambda p: A @ p, torch.tensor([[3.0], [4.0]], dtype=torch.float64))
        >>> z.squeeze(), statistics.iterations
        (tensor([1.0000, 1.0000], dtype=torch.float64), 2)
    """
    tol = TOLERANCE[y.dtype] if tol is None else float(tol)
    with torch.no_grad():
        scale = power_of_two(y, over)
        right = y / scale
        sound = over.total((~torch.isfinite(right)).sum(0)) == 0
        right = torch.where(sound, right, 0.0)
        z, statistics, definite = _iterate(product, right, tol, max_iter, over)
        if not definite:
            twice = Statistics(statistics.residuals, squared=True)
            z, statistics, _ = _iterate(lambda p: product(product(p)), product(right), tol, max_iter, over, twice)
            # a singular A passes unseen through its square, which then has a least-squares solution
            left, size = norm(right - product(z), over), norm(right, over)
            statistics.residual = float((left / torch.where(size > 0, size, 1.0)).max())
            statistics.converged = not statistics.failed and statistics.residual <= tol**0.5
        z = torch.where(sound, z * scale, torch.nan)
    return z, statistics


def norm(y: Tensor, over: AllRows = ONE) -> Tensor:
    """Return the norm of every column, shape (C)."""
    return y.norm(dim=0) if over.whole else over.total(y.abs().square().sum(0)).sqrt()


def power_of_two(y: Tensor, over: AllRows = ONE) -> Tensor:
    """Return the size of each column, shape (C), rounded to a power of two; 1 for zero, NaN and infinity.

    Divided by it, a tiny column (a gradient, perhaps) keeps all its digits, and its square does not vanish.

    Example:
        >>> power_of_two(torch.tensor([[3.0, 0.0, 1e-30]]))
        tensor([4.0000e+00, 1.0000e+00, 1.5777e-30])
    """
    size = y.abs().amax(0) if len(y) else torch.zeros(y.shape[1], dtype=y.real.dtype, device=y.device)
    size = over.most(size)
    size = torch.where(torch.isfinite(size) & (size > 0), size, 1.0)
    return torch.ldexp(torch.ones_like(size), torch.ceil(torch.log2(size)))


def _iterate(
    product: Product, y: Tensor, tol: float, max_iter: int, over: AllRows, statistics: Statistics | None = None
) -> tuple[Tensor, Statistics, bool]:
    statistics = Statistics() if statistics is None else statistics
    size = norm(y, over)
    scale = torch.where(size > 0, size, 1.0)
    floor = 4 * torch.finfo(y.dtype).eps
    z, residual = torch.zeros_like(y), y.clone()
    kept, of_kept = z.clone(), size
    steps, before = 0, float("inf")
    for _ in range(1 + RESTARTS):
        p, rr = residual.clone(), over.total(residual.square().sum(0))
        # what rounding errors leave of a residual: eps |A| |Z|, with |A| seen through the products made
        active = rr.sqrt() > tol * scale
        growth = torch.zeros_like(size)
        while steps < max_iter and bool(active.any()):
            q = product(p)
            curvature = over.total((p * q).sum(0))
            if bool((active & (curvature <= 0)).any()):
                return z, statistics, False
            growth = torch.maximum(growth, torch.where(active, curvature / over.total(p.square().sum(0)), 0.0))
            step = torch.where(active, rr / curvature, 0.0)
            z.addcmul_(p, step)
            residual.addcmul_(q, step, value=-1)
            new = over.total(residual.square().sum(0))
            p.mul_(torch.where(active, new / rr, 0.0)).add_(residual)
            rr = new
            active = active & (rr.sqrt() > tol * scale)
            steps += 1
            statistics.history.append(float((rr.sqrt() / scale).max()))
        residual = y - product(z)  # the updated residual drifts away from the true one
        left = norm(residual, over)
        fine = left * torch.finfo(y.dtype).eps <= scale  # else rounding errors took over, up to infinity and NaN
        kept, of_kept = torch.where(fine, z, kept), torch.where(fine, left, of_kept)
        z, left, residual = kept.clone(), of_kept, torch.where(fine, residual, 0.0)
        # not more than sqrt(tol), though: where A is singular, Z grows until rounding errors would excuse any residual
        rounding = torch.minimum(floor * (growth * norm(z, over) + size), tol**0.5 * scale)
        met = left <= torch.maximum(tol * scale, rounding)
        worst = float((left / scale).max()) if left.numel() else 0.0
        statistics.residual, statistics.converged = worst, bool(met.all())
        if statistics.converged or steps >= max_iter or worst > before / 2:
            break
        before = worst
    return z, statistics, True


class _PolynomialSolve(ReverseOnly):
    """Z = P(M)^-1 Y; with Λ = P(M)^-1 G for a gradient G, that of Y is Λ, and that of c_k is -sum(Λ * M^k Z)."""

    @staticmethod
    def forward(
        ctx: Any, op: GraphOperator, c: Tensor, y: Tensor, tol: float | None, max_iter: int, log: list[Statistics]
    ) -> Tensor:
        z, statistics = conjugate_gradients(lambda p: polynomial(op, c, p), y, tol, max_iter, op)
        log.append(statistics)
        ctx.op, ctx.options = op, (tol, max_iter)
        ctx.save_for_backward(c, z)
        return z

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor | None, ...]:
        c, z = ctx.saved_tensors
        adjoint = _PolynomialSolve.apply(ctx.op, c, grad[0], *ctx.options, [])  # type: ignore[no-untyped-call]
        of_c = None
        if ctx.needs_input_grad[1]:
            rows, power = [], z
            for k in range(c.shape[0]):
                power = ctx.op @ power if k else power
                rows.append(-(adjoint * power).sum(0))
            of_c = torch.stack(rows)
        return None, of_c, adjoint, None, None, None


def solve_polynomial(
    op: GraphOperator, c: Tensor, y: Tensor, tol: float | None = None, max_iter: int = MAX_ITER
) -> tuple[Tensor, Statistics]:
    r"""Solve :math:`(c_0 I + c_1 M + c_2 M^2 + \dots) Z = Y`, each column by its own coefficients, differentiably.

    The gradient (of any order) in c and Y comes from a solve with the same matrix, not from the iterations, so memory
    does not grow with them. None is given for the operator's values.

    Args:
        op: the symmetric operator M.
        c: coefficients, shape (degree + 1, C); the polynomial should be positive on the spectrum of M.
        y: right sides, shape (N, C), float32 or float64.
        tol: relative residual; 1e-12 in float64, 1e-6 in float32 by default.
        max_iter: steps after which it stops, with a warning.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)
        >>> c = torch.tensor([[1.0], [-0.5]], dtype=torch.float64, requires_grad=True)
        >>> z, _ = solve_polynomial(op, c, torch.ones(2, 1, dtype=torch.float64))
        >>> z.squeeze(), torch.autograd.grad(z.sum(), c)[0].squeeze()
        (tensor([2., 2.], dtype=torch.float64, grad_fn=<SqueezeBackward0>), tensor([-8., -8.], dtype=torch.float64))
    """
    refuse_transforms("a filter solved by conjugate gradients")
    log: list[Statistics] = []
    z: Tensor = _PolynomialSolve.apply(op, c, y, tol, max_iter, log)  # type: ignore[no-untyped-call]
    log[0]._warn("conjugate gradients", "raise max_iter or tol, or keep the poles away from [-1, 1]")
    return z, log[0]


def polynomial(op: GraphOperator, c: Tensor, p: Tensor) -> Tensor:
    """Return c_0 p + c_1 M p + ... by Horner's rule, for ``c`` of shape (degree + 1, C) or (degree + 1, 1)."""
    out = c[-1] * p
    for row in c[:-1].flip(0):
        out = torch.addcmul(op @ out, row, p)
    return out
