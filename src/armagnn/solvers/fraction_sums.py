"""What `partial_fractions` computes forwards and backwards: sums over poles, and the gradients by their numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn import kernels
from armagnn.kernels import column_dots
from armagnn.operators.all_rows import AllRows
from armagnn.solvers.conjugate_gradients import ONE, TOLERANCE, power_of_two
from armagnn.solvers.iteration import Statistics
from armagnn.solvers.krylov_sums import Array, krylov_sums
from armagnn.solvers.shifted_systems import shifted_systems

ADVICE: Final = "raise max_iter or tol, or keep the poles away from [-1, 1]"


def product_of(matrix: tuple[Any, ...]) -> Callable[..., Tensor]:
    """Return what multiplies by M, into a given tensor where the device's kernel can."""
    multiply, (rowptr, col, value) = kernels.backend(matrix[2].device).gcs, matrix[:3]
    return lambda x, out=None: multiply(rowptr, col, value, x, None, None, "none", 0.0, target=out)


def complex_numbers(t: Tensor) -> Array:
    """Return real and imaginary parts (P, 2, C) as complex numbers (P, C)."""
    return np.asarray(torch.complex(t[:, 0].double(), t[:, 1].double()).cpu().numpy())


def sum_of_fractions(
    product: Callable[..., Tensor],
    y: Tensor,
    a: Tensor,
    b: Tensor,
    tol: float | None,
    max_iter: int,
    other: Tensor | None = None,
    slopes: bool = False,
    over: AllRows = ONE,
) -> tuple[Tensor, Array, Array, Statistics]:
    r"""Return :math:`\sum_k \mathrm{Re}\, b_k Z_k`, :math:`\langle Z_k, X \rangle`, and its slopes by a_k.

    The residual of the sum is computed, with one product: that of all systems together. Where it is larger
    than the tolerance and rounding errors excuse, each system is solved and refined. Where every rank holds some rows
    of Y, ``over`` adds up over them; the second and the third result are then the rank's part of a sum over ranks.
    """
    tol = TOLERANCE[y.dtype] if tol is None else tol
    poles, residues = complex_numbers(a), complex_numbers(b)
    scale = power_of_two(y, over)
    right = y / scale
    sound = over.total((~torch.isfinite(right)).sum(0)) == 0
    if not bool(sound.all()):
        right = torch.where(sound, right, 0.0)
    weights = [dict(enumerate(residues)), dict(enumerate(poles * residues))]
    found = krylov_sums(product, right, poles, weights, tol, max_iter, other, slopes, over)
    out, again = found.values
    statistics = found.statistics
    if not statistics.failed:
        residual = product(again).sub_(out).addcmul_(right, torch.from_numpy(residues.real.sum(0)).to(right))
        size, left = (over.total(column_dots(t, t)).sqrt().cpu().numpy() for t in (right, residual))
        weight = np.abs(residues).sum(0)
        unit = np.where(weight * size > 0, weight * size, 1.0)
        met = left <= tol * unit
        if not met.all():
            lengths = found.lengths(poles, size)
            rounding = (np.abs(residues) * ((1 + np.abs(poles)) * lengths + size)).sum(0)
            met = left <= np.maximum(tol * unit, np.minimum(4 * torch.finfo(y.dtype).eps * rounding, tol**0.5 * unit))
        statistics.residual = float((left / unit).max(initial=0.0))
        if not met.all():
            z, image, statistics = shifted_systems(product, right, a, tol, max_iter, over)
            out = combined(b, z)
            if other is not None:
                answers = shifted_systems(product, other, a, tol, max_iter, over)[0]
                found = replace(found, products=pairs(z, [(other, None)] * len(z)), slopes=pairs(image, answers))
    else:
        statistics.residual = max(trace[-1] for trace in statistics.residuals if trace)
    statistics._warn("conjugate gradients", ADVICE)
    if not bool(sound.all()):
        out[:, ~sound] = torch.nan
    factor = scale.double().cpu().numpy()
    return out * scale, found.products * factor, found.slopes * factor, statistics


def combined(b: Tensor, z: Tensor) -> Tensor:
    """Return the sum of Re(b_k z_k)."""
    b = b.to(z.dtype)
    out = b[0, 0] * z[0, 0]
    for (br, bi), (zr, zi), first in zip(b, z, [True] + [False] * len(b), strict=False):
        if not first:
            out.addcmul_(zr, br)
        out.addcmul_(zi, bi, value=-1)
    return out


def pairs(left: Any, right: Any) -> Array:
    """Return the products of columns of complex matrices, shape (P, C), of pairs of real ones; None is zero."""
    found = []
    for (re, im), (other_re, other_im) in zip(left, right, strict=True):
        real, imaginary = column_dots(re, other_re), column_dots(im, other_re)
        if other_im is not None:
            real, imaginary = real - column_dots(im, other_im), imaginary + column_dots(re, other_im)
        found.append(torch.complex(real, imaginary))
    return np.asarray(torch.stack(found).cpu().numpy())


def parts_of(q: Array) -> Tensor:
    """Return the gradients by the real and the imaginary part of x of Re(q dx): Re q and -Im q."""
    return torch.from_numpy(np.stack([q.real, -q.imag], 1))


def sides(a: Tensor, b: Tensor, z: Tensor, adjoint: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices (N, 2 C) whose rows i and j have the gradient of entry (i, j) of M as their product."""
    (ar, ai), (br, bi), (lr, li) = a, b, adjoint
    cr, ci = (t.to(z.dtype) for t in (ar * br - ai * bi, ar * bi + ai * br))
    return torch.cat([cr * lr - ci * li, -(cr * li + ci * lr)], 1), torch.cat([z[0], z[1]], 1)


def by_value_of(
    product: Callable[..., Tensor],
    a: Tensor,
    b: Tensor,
    y: Tensor,
    g: Tensor,
    tol: float | None,
    max_iter: int,
    add: Callable[[Tensor, Tensor], None],
    over: AllRows = ONE,
) -> tuple[Tensor, Array, Array, Statistics]:
    """Return what `sum_of_fractions` does; of each pole, give ``add`` the `sides` of the gradient by the values."""
    columns = y.shape[1]
    wide, factors = torch.cat([y, g], 1), a.repeat(1, 1, 2)
    both, image, statistics = shifted_systems(product, wide, factors, tol, max_iter, over)
    statistics._warn("conjugate gradients", ADVICE)
    z, adjoint, image = both[..., :columns], both[..., columns:], image[..., columns:]
    for parts in zip(a, b, z, adjoint, strict=True):
        add(*sides(*parts))
    return combined(b, adjoint), pairs(adjoint, [(y, None)] * len(a)), pairs(image, z), statistics
