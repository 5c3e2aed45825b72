"""Linear systems in shifted operators, all shifts from one Krylov space: conjugate gradients for many poles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from armagnn.errors import GraphError
from armagnn.kernels import column_dots, lanczos_step
from armagnn.operators.all_rows import AllRows
from armagnn.solvers.conjugate_gradients import MAX_ITER, ONE, TOLERANCE, power_of_two
from armagnn.solvers.iteration import Statistics

Product = Callable[[Tensor], Tensor]

REFINEMENTS: Final = 3
"""How often what rounding errors have left of a true residual is solved for again."""


def shifted_systems(
    product: Product, y: Tensor, a: Tensor, tol: float | None = None, max_iter: int = MAX_ITER, over: AllRows = ONE
) -> tuple[Tensor, Tensor, Statistics]:
    r"""Solve :math:`(I - a_k M) Z_k = Y` for P factors at once, each column of Y with its own :math:`a_k`.

    M is symmetric, given as a function ``product``, with eigenvalues in [-1, 1]; the poles :math:`1 / a_k` lie off
    [-1, 1], real or complex. For a column y all systems share one Krylov space, that of M and y. Lanczos' recursion

    .. math::
        \beta_{j+1} v_{j+1} = M v_j - \alpha_j v_j - \beta_j v_{j-1}, \qquad v_1 = y / |y|,

    makes an orthonormal basis V of it, in which M is the tridiagonal T, with one product for all k. The answer of
    conjugate gradients is :math:`z_k = |y| V (I - a_k T)^{-1} e_1`. The factors :math:`L D L^\top` of the small matrix
    are found row by row, so two vectors for each k are all that is kept:

    .. math::
        \delta_j &= 1 - a \alpha_j - a \beta_j l_j, & l_{j+1} &= a \beta_{j+1} / \delta_j, \\
        d_j &= v_j + l_j d_{j-1}, \quad z \leftarrow z + (w_j / \delta_j) d_j, & w_{j+1} &= l_{j+1} w_j,

    with :math:`w_1 = |y|, l_1 = 0`. The residual of step j has the length :math:`|w_{j+1}|`. For a real a this is the
    method of conjugate gradients, for a complex one that of conjugate orthogonal ones (COCG). No pivot
    :math:`\delta_j` vanishes: :math:`\delta_j / a` is never nearer to the real line than :math:`1 / a` is, and for a
    real a with |a| < 1 the matrix is definite. Where the pivot of a real a is not positive, M has an eigenvalue beyond
    [-1, 1], and an error says so.

    A column of a factor is done when that length is at most ``tol`` times |y|. Then the true residual is computed, with
    one product; where rounding errors have led the recursion astray, what is left is solved for again, up to
    `REFINEMENTS` times.

    Args:
        product: returns M x for x of shape (N, C).
        y: the right sides, shape (N, C), float32 or float64.
        a: the factors, their real and imaginary parts, shape (P, 2, C), float64.
        tol: relative residual; 1e-12 in float64, 1e-6 in float32 by default.
        max_iter: the most steps.
        over: where every rank holds some rows of Y, the operator that adds up over them.

    Returns:
        Z and M Z, real and imaginary parts, shape (P, 2, N, C), and `Statistics`, with a problem for each of the P
        factors. Columns with NaN or infinity give NaN. No gradient passes; `partial_fractions` has one.

    Example:
        >>> M = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
        >>> y, a = torch.tensor([[1.0], [0.0]], dtype=torch.float64), torch.tensor([[[0.5], [0.0]], [[0.8], [0.0]]])
        >>> z, _, statistics = shifted_systems(lambda x: M @ x, y, a.double())
        >>> z[:, 0].squeeze(2)
        tensor([[1.3333, 0.6667],
                [2.7778, 2.2222]], dtype=torch.float64)
        >>> statistics.steps  # of both, from the same two products
        [2, 2]
    """
    tol = TOLERANCE[y.dtype] if tol is None else float(tol)
    with torch.no_grad():
        scale = power_of_two(y, over)
        right = y / scale
        sound = over.total((~torch.isfinite(right)).sum(0)) == 0
        right = torch.where(sound, right, 0.0)
        z, statistics = _krylov(product, right, a, tol, max_iter, over)
        image = _refine(product, right, a, z, statistics, tol, max_iter, over)
        if not bool(sound.all()):
            z[..., ~sound] = torch.nan
        return z.mul_(scale), image.mul_(scale), statistics


def _krylov(
    product: Product, y: Tensor, a: Tensor, tol: float, max_iter: int, over: AllRows
) -> tuple[Tensor, Statistics]:
    """Return Z and the traces of the recursion's own residuals, relative to |Y|."""
    poles, factor = a.shape[0], torch.complex(a[:, 0], a[:, 1])
    real = (a[:, 1] == 0).all(1).tolist()
    statistics = Statistics([[] for _ in range(poles)])
    z = y.new_zeros(poles, 2, *y.shape)
    d = torch.zeros_like(z)
    size = _length(y, over)
    unit = torch.where(size > 0, size, 1.0)
    w, lower = size.to(factor.dtype).expand_as(factor), torch.zeros_like(factor)
    # vectors of the basis are kept as they come, and divided by their lengths in passing
    v, before, length, length_before = y, torch.zeros_like(y), unit, torch.ones_like(unit)
    beta = torch.zeros_like(size)
    active = (size > 0).expand(factor.shape)
    running = [k for k in range(poles) if bool(active[k].any())]
    for _ in range(max_iter):
        if not running:
            break
        u = product(v)
        alpha = over.total(column_dots(u, v)) / length.square()
        pivot = 1 - factor * alpha - factor * beta * lower
        _check(factor, pivot, active)
        step = torch.view_as_real(torch.where(active, w / pivot, 0.0)).movedim(-1, 1)
        factors = torch.stack([1 / length, -alpha / length, -beta / length_before, 1 / length])
        along = torch.view_as_real(lower).movedim(-1, 1)
        beta = over.total(lanczos_step(u, v, before, factors, running, real, along, step, d, z)).sqrt()
        lower = factor * beta / pivot
        w = torch.where(active, lower * w, w)
        left = w.abs() / unit
        active = active & (left > tol)
        worst, unfinished = left.amax(1).tolist(), active.any(1).tolist()
        for k in running:
            statistics.residuals[k].append(worst[k])
        running = [k for k in running if unfinished[k]]
        before, v, length_before, length = v, u, length, torch.where(beta > 0, beta, 1.0)
    return z, statistics


def _refine(
    product: Product, y: Tensor, a: Tensor, z: Tensor, statistics: Statistics, tol: float, max_iter: int, over: AllRows
) -> Tensor:
    """Compute the true residuals, and solve for them again where they are larger than rounding errors excuse.

    Returns M Z.
    """
    size, image = _length(y, over), torch.zeros_like(z)
    scale, eps = torch.where(size > 0, size, 1.0), torch.finfo(y.dtype).eps
    converged, worst = [], [0.0] * len(a)
    for k, (re, im) in enumerate(a.to(y.dtype)):
        parts = 1 if not bool(im.any()) else 2
        before, steps = float("inf"), len(statistics.residuals[k])
        for trial in range(1 + REFINEMENTS):
            residual = torch.zeros_like(z[k])
            for part in range(parts):
                image[k, part] = product(z[k, part])
            residual[0] = y - z[k, 0] + re * image[k, 0] - im * image[k, 1]
            residual[1] = -z[k, 1] + re * image[k, 1] + im * image[k, 0]
            left = torch.hypot(_length(residual[0], over), _length(residual[1], over))
            # not more than sqrt(tol), though: what a nearly singular system makes huge would excuse any residual
            rounding = (1 + torch.hypot(re, im)) * torch.hypot(_length(z[k, 0], over), _length(z[k, 1], over)) + size
            met = left <= torch.maximum(tol * scale, torch.minimum(4 * eps * rounding, tol**0.5 * scale))
            worst[k] = float((left / scale).amax()) if left.numel() else 0.0
            # a residual that did not halve will not fall any further
            if bool(met.all()) or trial == REFINEMENTS or steps >= max_iter or worst[k] > before / 2:
                break
            before = worst[k]
            # the solution of r + is has that of r for one part and that of s for the other
            wide = residual[:parts].transpose(0, 1).flatten(1)
            again, extra = _krylov(product, wide, a[k].repeat(1, parts).unsqueeze(0), tol, max_iter - steps, over)
            own = again[0].view(2, len(y), parts, -1)
            z[k] += own[:, :, 0]
            if parts == 2:
                z[k, 0] -= own[1, :, 1]
                z[k, 1] += own[0, :, 1]
            statistics.residuals[k].extend(before * left for left in extra.residuals[0])
            steps = len(statistics.residuals[k])
        converged.append(bool(met.all()))
    statistics.converged, statistics.residual = converged, max(worst, default=0.0)
    statistics.tolerances = [tol] * len(a)
    return image


def _check(a: Tensor, pivot: Tensor, active: Tensor) -> None:
    """Raise where the matrix of a real factor is not definite."""
    wrong = active & (a.imag == 0) & (pivot.real <= 0)
    if bool(wrong.any()):
        bad = float((1 / a.real[wrong]).abs().min())
        raise GraphError(
            f"the operator has an eigenvalue beyond the pole at |mu| = {bad:.4g}, where the response is infinite: "
            "build the operator without lambda_min and lambda_max, or move the pole away from [-1, 1]."
        )


def _length(x: Tensor, over: AllRows) -> Tensor:
    """Return the lengths of columns, shape (C), float64."""
    return over.total(column_dots(x, x)).sqrt()
