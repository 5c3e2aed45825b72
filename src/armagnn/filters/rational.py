"""From the rational form (Eq. 6) of a filter to the parallel form (Eq. 13) and back. Plain float64, no gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from numpy.polynomial import polynomial as poly
from torch import Tensor

from armagnn.errors import ParameterError
from armagnn.filters.base import Variable

Array = npt.NDArray[Any]

CLOSE = 1e-4
"""Relative distance below which two poles are one: then their residues would be huge and cancel each other."""

REPEATED = "the rational form has a repeated pole{}: it is no sum of first-order terms (Eq. 13). Move the poles apart."


def to_parallel(p: Tensor, q: Tensor, variable: Variable) -> tuple[Tensor, Tensor]:
    """Return a and b of Eq. 13 for the coefficients of Eq. 6 (q without its leading 1)."""
    top = np.trim_zeros(p.detach().cpu().double().numpy(), "b")
    bottom = np.trim_zeros(np.concatenate([[1.0], q.detach().cpu().double().numpy()]), "b")
    if variable == "lambda":
        top, bottom = _reflect(top), _reflect(bottom)  # now in mu
    if len(top) > len(bottom):
        raise ParameterError(
            f"the rational form is improper: its numerator has degree {len(top) - 1}, its denominator "
            f"{len(bottom) - 1}. Divide, and add a PolynomialFilter of the quotient to the ARMAFilter of the remainder."
        )
    if abs(bottom[0]) <= 1e-12 * np.abs(bottom).max():
        raise ParameterError("the rational form has a pole at mu = 0 (lambda = 1), on [-1, 1]: h is infinite there.")
    top, bottom = top / bottom[0], bottom / bottom[0]
    constant = 0.0
    if len(top) == len(bottom):
        constant = top[-1] / bottom[-1]
        top = top - constant * bottom
        top = top[:-1]
    a = 1 / poly.polyroots(bottom) if len(bottom) > 1 else np.empty(0)
    a = _conjugate(a)
    for k in range(len(a)):
        near = np.abs(a - a[k]) < CLOSE * np.maximum(np.abs(a), abs(a[k]))
        if near.sum() > 1:
            raise ParameterError(REPEATED.format(f" at mu = {1 / a[k]:.4g}"))
    # at its pole, b_k is what is left of the fraction without the factor (1 - a_k mu)
    others = [np.prod(1 - np.delete(a, k) / a[k]) for k in range(len(a))]
    b = np.array([poly.polyval(1 / a[k], top) / others[k] for k in range(len(a))]) if len(top) else np.zeros(len(a))
    if constant or not len(a):
        a, b = np.append(a, 0.0), np.append(b, constant)
    # roots of high multiplicity come out scattered: what they give is then not the fraction
    mu = np.cos(np.linspace(0.0, np.pi, 64))
    truth = (poly.polyval(mu, top) if len(top) else 0.0) / poly.polyval(mu, bottom) + constant
    split = (b / (1 - a * mu[:, None])).sum(1)
    fine = np.isfinite(truth) & np.isfinite(split)
    if np.abs(split - truth)[fine].max(initial=0.0) > 1e-8 * max(1e-300, np.abs(truth)[fine].max(initial=0.0)):
        raise ParameterError(REPEATED.format(", or several that are almost one"))
    if not np.iscomplexobj(a) or not a.imag.any():
        a, b = a.real, b.real
    else:
        b = np.where(a.imag == 0, b.real, b)
    return torch.from_numpy(np.ascontiguousarray(a)), torch.from_numpy(np.ascontiguousarray(b))


def from_parallel(a: Tensor, b: Tensor, variable: Variable) -> tuple[Tensor, Tensor]:
    """Return p (K) and q (K) of Eq. 6."""
    poles, residues = (v.detach().cpu().to(torch.complex128).numpy() for v in (a, b))
    lone = _without_twins(poles, residues)
    if lone:  # its real part is half of a pair
        poles = np.concatenate([poles, poles[lone].conj()])
        residues = np.concatenate([np.where(np.isin(np.arange(len(residues)), lone), residues / 2, residues),
                                   residues[lone].conj() / 2])  # fmt: skip
    factors = [np.array([1, -pole]) for pole in poles]
    if variable == "lambda":
        factors = [np.array([1 - pole, pole]) for pole in poles]  # 1 - a (1 - λ)
    bottom, top = np.ones(1, dtype=complex), np.zeros(1, dtype=complex)
    for k, factor in enumerate(factors):
        bottom = poly.polymul(bottom, factor)
        term = np.full(1, residues[k])
        for j, other in enumerate(factors):
            term = poly.polymul(term, other) if j != k else term
        top = poly.polyadd(top, term)
    if abs(bottom[0]) <= 1e-300:
        raise ParameterError(
            "the filter has a pole at lambda = 0 (mu = 1), so it has no form with a leading 1 (Eq. 6)."
        )
    size = len(poles)
    p, q = np.zeros(size), np.zeros(size)
    p[: len(top)] = (top / bottom[0]).real[:size]
    q[: len(bottom) - 1] = (bottom / bottom[0]).real[1:]
    return torch.from_numpy(p), torch.from_numpy(q)


def _reflect(coefficients: Array) -> Array:
    """Return the polynomial in mu of one in lambda = 1 - mu."""
    out = np.zeros(1)
    for c in coefficients[::-1]:
        out = poly.polyadd(poly.polymul(out, [1.0, -1.0]), [c])
    return out[: len(coefficients)]


def _conjugate(a: Array) -> Array:
    """Return the poles with pairs that are conjugate to the last bit, the one in the upper half plane first."""
    real = np.sort(a[np.abs(a.imag) <= 1e-12 * np.abs(a)].real)
    upper = a[a.imag > 1e-12 * np.abs(a)]
    upper = upper[np.lexsort([upper.imag, upper.real])]
    return np.concatenate([real, np.stack([upper, upper.conj()], 1).ravel()])


def _without_twins(a: Array, b: Array) -> list[int]:
    """Return the complex terms whose conjugate is not among the others; each is the twin of one at most."""
    left = [k for k in range(len(a)) if a[k].imag]
    lone = []
    while left:
        k = left.pop(0)
        twin = next((j for j in left if a[j] == a[k].conj() and b[j] == b[k].conj()), None)
        if twin is None:
            lone.append(k)
        else:
            left.remove(twin)
    return lone
