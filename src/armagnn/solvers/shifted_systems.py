"""Linear systems in shifted operators, all shifts from one Krylov space: conjugate gradients for many poles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels import column_dots
from armagnn.operators.all_rows import AllRows
from armagnn.solvers.conjugate_gradients import MAX_ITER, ONE, TOLERANCE, power_of_two
from armagnn.solvers.iteration import Statistics
from armagnn.solvers.krylov_sums import Array, krylov_sums

Product = Callable[[Tensor], Tensor]

REFINEMENTS: Final = 3
"""How often what rounding errors have left of a true residual is solved for again."""


def shifted_systems(
    product: Product,
    y: Tensor,
    a: Tensor,
    tol: float | None = None,
    max_iter: int = MAX_ITER,
    over: AllRows = ONE,
    with_image: bool = True,
) -> tuple[Tensor, Tensor, Statistics]:
    r"""Solve :math:`(I - a_k M) Z_k = Y` for P factors at once, each column of Y with its own :math:`a_k`.

    M is symmetric, given as a function ``product``, with eigenvalues in [-1, 1]; the poles :math:`1 / a_k` lie off
    [-1, 1], real or complex. All systems share one Krylov space: see `krylov_sums`.

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
        with_image: whether M Z is kept, which takes as much memory as Z.

    Returns:
        Z and M Z (empty if not kept), real and imaginary parts, shape (P, 2, N, C), and `Statistics`, with a problem
        for each of the P factors. Columns with NaN or infinity give NaN. No gradient passes; `partial_fractions` has
        one.

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
        image = _refine(product, right, a, z, statistics, tol, max_iter, over, with_image)
        if not bool(sound.all()):
            z[..., ~sound] = torch.nan
        return z.mul_(scale), image.mul_(scale), statistics


def _krylov(
    product: Product, y: Tensor, a: Tensor, tol: float, max_iter: int, over: AllRows
) -> tuple[Tensor, Statistics]:
    """Return Z and the traces of the recursion's own residuals, relative to |Y|."""
    factors = torch.complex(a[:, 0], a[:, 1]).cpu().numpy()
    one = np.ones(y.shape[1])
    weights: list[dict[int, Array]] = []
    for k, row in enumerate(factors):
        weights += [{k: one}, {k: -1j * one} if row.imag.any() else {}]
    found = krylov_sums(lambda x, out: product(x), y, factors, weights, tol, max_iter, over=over)
    return found.values.view(len(a), 2, *y.shape), found.statistics


def _refine(
    product: Product,
    y: Tensor,
    a: Tensor,
    z: Tensor,
    statistics: Statistics,
    tol: float,
    max_iter: int,
    over: AllRows,
    with_image: bool,
) -> Tensor:
    """Compute the true residuals, and solve for them again where they are larger than rounding errors excuse.

    Returns M Z, or nothing of it.
    """
    size, image = _length(y, over), torch.zeros_like(z if with_image else z[:0])
    scale, eps = torch.where(size > 0, size, 1.0), torch.finfo(y.dtype).eps
    converged, worst = [], [0.0] * len(a)
    for k, (re, im) in enumerate(a.to(y.dtype)):
        parts = 1 if not bool(im.any()) else 2
        before, steps = float("inf"), len(statistics.residuals[k])
        made = image[k] if with_image else torch.zeros_like(z[k])
        for trial in range(1 + REFINEMENTS):
            residual = torch.zeros_like(z[k])
            for part in range(parts):
                made[part] = product(z[k, part])
            residual[0] = y - z[k, 0] + re * made[0] - im * made[1]
            residual[1] = -z[k, 1] + re * made[1] + im * made[0]
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


def _length(x: Tensor, over: AllRows) -> Tensor:
    """Return the lengths of columns, shape (C), float64."""
    return over.total(column_dots(x, x)).sqrt()
