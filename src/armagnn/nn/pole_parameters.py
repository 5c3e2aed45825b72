r"""Poles of a rational response as parameters that cannot reach [-1, 1], where frequencies lie.

The plane without [-1, 1] is the disk :math:`|w| < 1`, by :math:`p = (w + 1/w) / 2`. A complex number u of any size
becomes :math:`w = R u / \sqrt{1 + |u|^2}`, within the radius R < 1, and the factor :math:`a = 1/p = 2w / (1 + w^2)`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn import checks
from armagnn.errors import ParameterError, shown
from armagnn.filters import ARMAFilter
from armagnn.filters.design import CONDITION, MAX_ORDER, design
from armagnn.filters.targets import NAMED, Target, resolve

Array = npt.NDArray[Any]

INSIDE: Final = 0.995
"""Poles start within this part of the disk: at its edge a parameter would be infinite."""

ANYWHERE: Final = "low-pass"
"""The response that residues are fitted to where poles alone are given."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where the parameters of a response of order K begin: pairs first, real and imaginary part side by side.

    Attributes:
        pairs: the number of conjugate pairs; the other K - 2 pairs poles are real.
        pole: the u of each pair (two numbers) and of each real pole (one), shape (K), float64.
        residue: likewise, shape (K).
        constant: the constant term.
    """

    pairs: int
    pole: Tensor
    residue: Tensor
    constant: float


def start(init: Any, order: int, radius: float) -> Start:
    """Return the parameters of a design, of given poles, or of a filter.

    Args:
        init: a target as `ARMAFilter.design` takes it; a list of K poles, complex ones in conjugate pairs; or an
            `ARMAFilter` of K terms, to which a constant one may be added.
        order: K.
        radius: R.

    Example:
        >>> found = start([2.0, 1 + 1j, 1 - 1j], 3, 0.99)
        >>> found.pairs, found.pole.shape
        (1, torch.Size([3]))
        >>> factors(found.pole.unsqueeze(0), 1, 0.99)[:, :, 0]  # 1/p: of the pair, and 1/2
        tensor([[ 0.5000, -0.5000],
                [ 0.5000,  0.0000]], dtype=torch.float64)
    """
    if isinstance(init, str) and init.lower().removeprefix("ideal ") in NAMED:
        return _designed(init.lower().removeprefix("ideal "), order, radius)
    if isinstance(init, ARMAFilter):
        return _of_filter(init, order, radius)
    poles = _poles(init)
    if poles is not None:
        return _of_poles(poles, resolve(ANYWHERE), order, radius)
    wanted = resolve(init)
    return _of_poles(_inverse(design(wanted, order)[0].numpy()), wanted, order, radius)


@functools.lru_cache
def _designed(name: str, order: int, radius: float) -> Start:
    wanted = resolve(name)
    return _of_poles(_inverse(design(wanted, order)[0].numpy()), wanted, order, radius)


def _poles(init: Any) -> Array | None:
    """Return the poles that somebody gave as a list of numbers, or None."""
    if not isinstance(init, Sequence | np.ndarray | Tensor) or isinstance(init, str):
        return None
    try:
        values = np.asarray(init.detach().cpu() if isinstance(init, Tensor) else init)
    except (TypeError, ValueError, RuntimeError):
        return None
    if values.dtype.kind not in "fiuc" or values.ndim != 1 or values.size == 0:
        return None
    return values.astype(np.complex128)


def _inverse(a: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array(np.where(a == 0, np.inf, 1 / np.asarray(a, dtype=np.complex128)))


def _of_poles(poles: Array, target: Target, order: int, radius: float) -> Start:
    """Return the given poles, moved into the radius, with the residues and the constant that fit a target best."""
    w, pairs = _in_disk(poles, order, radius)
    a = 2 * w / (1 + w * w)
    mu, value = target.mu.numpy(), target.value.numpy()
    basis = np.concatenate([_columns(a, pairs, mu), np.ones((len(mu), 1))], 1)
    # directions that change the response by little would make huge residues, which cancel each other
    found = np.linalg.lstsq(basis, value, rcond=CONDITION)[0]
    return Start(pairs, _parameters(w, pairs, radius), torch.from_numpy(found[:-1].copy()), float(found[-1]))


def _of_filter(given: ARMAFilter, order: int, radius: float) -> Start:
    """Return the poles and residues of a filter, whose terms with a = 0 are the constant."""
    a, b = (v.detach().cpu().numpy().astype(np.complex128) for v in (given.a, given.b))
    if given.variable != "mu":
        raise ParameterError("init must be an ARMAFilter in mu: make it with variable='mu'.")
    flat = a == 0
    constant, a, b = float(b[flat].real.sum()), a[~flat], b[~flat]
    w, pairs = _in_disk(1 / a, order, radius)
    residue = np.zeros(order)
    for place, number in enumerate(np.concatenate([2 * w[:pairs] / (1 + w[:pairs] ** 2), _real(w, pairs)])):
        for sign in (1, -1) if place < pairs else (1,):
            twin = number if sign == 1 else np.conj(number)
            own = b[np.argmin(np.abs(a - twin))]
            part = np.array([own.real, sign * own.imag]) if place < pairs else np.array([own.real])
            first = 2 * place if place < pairs else pairs + place
            residue[first : first + len(part)] += part
    return Start(pairs, _parameters(w, pairs, radius), torch.from_numpy(residue), constant)


def _real(w: Array, pairs: int) -> Array:
    return np.array(2 * w[pairs:] / (1 + w[pairs:] ** 2))


def _in_disk(poles: Array, order: int, radius: float) -> tuple[Array, int]:
    """Return w of the upper pole of each pair, then of the real ones, moved into the radius; and how many pairs."""
    if len(poles) != order:
        raise ParameterError(f"init must have as many poles as the order, {order}, got {len(poles)}.")
    if np.isnan(poles).any():
        raise ParameterError("init must not have poles that are NaN.")
    real = np.isinf(poles) | (np.abs(poles.imag) <= 1e-12 * np.abs(poles))
    if bool((real & (np.abs(poles.real) <= 1)).any()):
        raise ParameterError(
            f"init has a pole on [-1, 1], where frequencies lie, got {shown(poles.tolist())}. Give real poles beyond "
            "it, as 1.2 or -3, and complex ones in pairs, as 0.1j and -0.1j."
        )
    upper, lower = poles[~real & (poles.imag > 0)], poles[~real & (poles.imag < 0)]
    if len(upper) != len(lower) or not all((np.abs(lower - p.conj()) <= 1e-6 * abs(p)).any() for p in upper):
        raise ParameterError(f"init must have complex poles in conjugate pairs, got {shown(poles.tolist())}.")
    chosen = np.concatenate([upper, poles[real].real.astype(np.complex128)])
    w = np.zeros_like(chosen)
    finite = np.isfinite(chosen)
    root = np.sqrt(chosen[finite] - 1) * np.sqrt(chosen[finite] + 1)
    w[finite] = 1 / (chosen[finite] + root)  # this branch has |p + root| >= 1
    size = np.abs(w)
    w *= np.minimum(1.0, INSIDE * radius / np.where(size > 0, size, 1.0))
    return w, len(upper)


def _parameters(w: Array, pairs: int, radius: float) -> Tensor:
    """Return the u that give these w."""
    u = w / np.sqrt(radius**2 - np.abs(w) ** 2)
    flat = np.concatenate([np.stack([u[:pairs].real, u[:pairs].imag], 1).ravel(), u[pairs:].real])
    return torch.from_numpy(np.ascontiguousarray(flat))


def _columns(a: Array, pairs: int, mu: Array) -> Array:
    """Return what each number of the residues multiplies, shape (S, K)."""
    terms = 1 / (1 - mu[:, None] * a)
    both = np.stack([terms[:, :pairs].real, -terms[:, :pairs].imag], 2).reshape(len(mu), -1)
    return np.concatenate([both, terms[:, pairs:].real], 1)


# ---------------------------------------------------------------------------------------------------- what layers use


def numbers(parameter: Tensor, pairs: int) -> Tensor:
    """Return parameters (G, K) as real and imaginary parts, shape (P, 2, G), float64; P counts a pair once.

    Example:
        >>> numbers(torch.tensor([[1.0, 2.0, 3.0]]), 1)[:, :, 0]
        tensor([[1., 2.],
                [3., 0.]], dtype=torch.float64)
    """
    wide = parameter.double()
    both = wide[:, : 2 * pairs].reshape(len(wide), pairs, 2)
    real = wide[:, 2 * pairs :]
    return torch.cat([both, torch.stack([real, torch.zeros_like(real)], 2)], 1).movedim(0, 2)


def factors(parameter: Tensor, pairs: int, radius: float) -> Tensor:
    """Return the a of parameters u, shape (G, K), as real and imaginary parts, shape (P, 2, G), float64.

    Example:
        >>> factors(torch.tensor([[1e9]]), 0, 0.5)  # the largest a of a real pole: 2 R / (1 + R²)
        tensor([[[0.8000],
                 [0.0000]]], dtype=torch.float64)
    """
    x, y = numbers(parameter, pairs).unbind(1)
    scale = radius * torch.rsqrt(1 + x.square() + y.square())
    x, y = scale * x, scale * y
    # 2w / (1 + w²)
    re, im = 1 + (x - y) * (x + y), 2 * x * y
    size = 0.5 * (re.square() + im.square())
    return torch.stack([(x * re + y * im) / size, (y * re - x * im) / size], 1)


def response(a: Tensor, b: Tensor, constant: Tensor, mu: Tensor) -> Tensor:
    r"""Return :math:`h_g(\mu) = c_g + \sum_k \mathrm{Re}\, b_k / (1 - a_k \mu)`, shape (S, G), for mu of shape (S).

    Example:
        >>> a, b = torch.tensor([[[0.5], [0.0]]]), torch.tensor([[[1.0], [0.0]]])
        >>> response(a, b, torch.tensor([0.1]), torch.tensor([0.0, 1.0]))
        tensor([[1.1000],
                [2.1000]])
    """
    (ar, ai), (br, bi) = a.unbind(1), b.unbind(1)
    mu = mu.view(-1, 1, 1)
    re, im = 1 - ar * mu, ai * mu  # of 1 - a mu, and minus the imaginary part
    return constant + ((br * re - bi * im) / (re.square() + im.square())).sum(1)


def check_order(order: Any) -> int:
    """Return the order of a response that can be designed."""
    return checks.integer("order", order, 1, MAX_ORDER)


def most_steps(radius: float, tol: float) -> int:
    """Return how many steps of a solver a pole at this radius takes at most, by the bound of Chebyshev polynomials."""
    return math.ceil(math.log(tol) / math.log(radius))
