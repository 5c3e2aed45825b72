"""Fitting poles and residues of an ARMA filter to a target response."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import least_squares
from torch import Tensor

from armagnn.checks import integer
from armagnn.errors import ParameterError
from armagnn.filters.targets import Target, resolve

Array = npt.NDArray[Any]
MAX_ORDER: Final = 16
STABLE_RADIUS: Final = 0.98
"""Largest |a| of a stable design: the recursion gains a digit in 114 steps."""
FREE_RADIUS: Final = 0.998
"""The exterior of [-1, 1] is the disk |w| < 1, by 1/a = (w + 1/w) / 2; poles keep off by the spacing of the grid."""
CONDITION: Final = 1e-4
"""Directions of b that change the response by less than this are left alone: they only make b huge."""


@dataclass(frozen=True)
class Report:
    """How well a design meets its target on mu in [-1, 1] (or at the samples given).

    Attributes:
        rms: root of the mean square error.
        largest: the largest error; at a step of the target at least half its height.
        sharpness: the steepest slope of the response, per unit of mu.
        free: for a stable design, what free poles reach.
    """

    rms: float
    largest: float
    sharpness: float
    free: Report | None = None

    def __repr__(self) -> str:
        own = (
            f"RMS error {self.rms:.4f}, largest {self.largest:.2g}, steepest slope {self.sharpness:.3g} per unit of mu"
        )
        return own if self.free is None else f"{own}; free poles: {self.free!r}"


def design(target: object, order: int, stable: bool = False) -> tuple[Tensor, Tensor, Report]:
    """Return a (K), b (K) and a `Report`: the best of fits from several starts; see `ARMAFilter.design`."""
    order = integer("order", order, 1, MAX_ORDER)
    wanted = target if isinstance(target, Target) else resolve(target)
    if len(wanted.mu) < 2 * order:
        raise ParameterError(
            f"order {order} has {2 * order} coefficients, but there are {len(wanted.mu)} samples only."
        )
    # the fit stops by absolute measures, so it sees a target of size one
    size = float(wanted.value.abs().max()) or 1.0
    scaled = replace(wanted, value=wanted.value / size)
    a, b = _best(scaled, order, stable)
    b = size * b
    report = _report(wanted, a, b)
    if stable:
        free_a, free_b = _best(scaled, order, False)
        free = _report(wanted, free_a, size * free_b)
        report = Report(report.rms, report.largest, report.sharpness, free)
    if not a.imag.any():
        a, b = a.real, b.real
    return torch.from_numpy(np.ascontiguousarray(a)), torch.from_numpy(np.ascontiguousarray(b)), report


def _best(target: Target, order: int, stable: bool) -> tuple[Array, Array]:
    fits = []
    # More than three real poles were never best: seven targets, orders 1 to 8, free and stable.
    for pairs in range(order // 2, max(order // 2 - 2, -1), -1):
        problem = _Design(target, pairs, order - 2 * pairs, stable)
        fits += [problem.solve(start) for start in problem.starts()]
    _, a, b = min(fits, key=lambda fit: fit[0])
    return a, b


class PoleFit:
    r"""The least squares :math:`\min \| \sum_k \mathrm{Re}\, b_k t(w_k) - y \|` in poles w and coefficients b.

    For given poles the best b is a linear problem; the poles move by Gauss-Newton (variable projection). Parameters are
    radii and angles of conjugate pairs in a disk, then real poles. A subclass says what a pole is a column of.

    Attributes:
        wanted: y.
        pairs: the number of conjugate pairs.
        real: the number of real poles.
        radius: of the disk.
        condition: directions of b that change the sum by less than this, relatively, are left alone.
    """

    def __init__(self, wanted: Array, pairs: int, real: int, radius: float, condition: float) -> None:
        self.wanted, self.pairs, self.real = wanted, pairs, real
        self.radius, self.condition = radius, condition

    def terms(self, w: Array) -> Array:
        """Return the column t(w) of each pole, shape (S, P), complex."""
        raise NotImplementedError

    def slopes(self, w: Array) -> Array:
        """Return the derivatives dt / dw, shape (S, P)."""
        raise NotImplementedError

    def more(self) -> Array:
        """Return columns that depend on no pole, shape (S, M)."""
        return np.empty((len(self.wanted), 0))

    def poles(self, theta: Array) -> Array:
        """Return w, of pairs the one in the upper half plane, then the real ones."""
        n = self.pairs
        return np.concatenate([theta[:n] * np.exp(1j * theta[n : 2 * n]), theta[2 * n :]])

    def fit(self, theta: Array) -> tuple[Array, Array, Array]:
        """Return the residual, the best coefficients, and an orthonormal basis of the columns."""
        terms, n = self.terms(self.poles(theta)), self.pairs
        columns = np.concatenate([terms[:, :n].real, -terms[:, :n].imag, terms[:, n:].real, self.more()], 1)
        left, singular, right = np.linalg.svd(columns, full_matrices=False)
        keep = singular > self.condition * singular[0]
        left, singular, right = left[:, keep], singular[keep], right[keep]
        inner = left.T @ self.wanted
        return left @ inner - self.wanted, right.T @ (inner / singular), left

    def residual(self, theta: Array) -> Array:
        """Return what the best coefficients leave of the target."""
        return self.fit(theta)[0]

    def jacobian(self, theta: Array) -> Array:
        """Return Kaufman's Jacobian of the residual: the part of each column's change that b cannot make up for."""
        _, c, left = self.fit(theta)
        n = self.pairs
        b = np.concatenate([c[:n] + 1j * c[n : 2 * n], c[2 * n : 2 * n + self.real]])
        change = b * self.slopes(self.poles(theta))  # of the sum: Re(change dw)
        turn = np.exp(1j * theta[n : 2 * n])
        columns = [change[:, :n] * turn, change[:, :n] * turn * 1j * theta[:n], change[:, n:]]
        jacobian: Array = np.concatenate([column.real for column in columns], 1)
        jacobian -= left @ (left.T @ jacobian)
        return jacobian

    def move(self, start: Array, most: int = 200, tol: float = 1e-10) -> tuple[float, Array]:
        """Return the sum of squares and the parameters that Gauss-Newton finds from a start, in so many evaluations."""
        n, r = self.pairs, self.radius
        low = np.concatenate([np.zeros(2 * n), np.full(self.real, -r)])
        high = np.concatenate([np.full(n, r), np.full(n, np.pi), np.full(self.real, r)])
        found = least_squares(
            self.residual,
            np.clip(start, low + 1e-6, high - 1e-6),
            self.jacobian,
            bounds=(low, high),
            ftol=tol,
            xtol=tol,
            gtol=1e-14,
            max_nfev=most,
        )
        return 2 * found.cost, found.x

    def even(self) -> list[Array]:
        """Return starts that know nothing of y: poles spread evenly, near and far."""
        n, r = self.pairs, self.radius
        even = (np.arange(n) + 0.5) * (np.pi / max(n, 1))
        return [np.concatenate([np.full(n, near * r), even, near * self._real()]) for near in (0.5, 0.9)]

    def _real(self) -> Array:
        return np.linspace(-0.8, 0.8, self.real) if self.real > 1 else np.full(self.real, 0.3)


class _Design(PoleFit):
    """The fit of a response at given frequencies."""

    def __init__(self, target: Target, pairs: int, real: int, stable: bool) -> None:
        self.mu, self.value, self.stable = target.mu.numpy(), target.value.numpy(), stable
        self.weight = len(self.mu) ** -0.5
        super().__init__(self.weight * self.value, pairs, real, STABLE_RADIUS if stable else FREE_RADIUS, CONDITION)

    def factors(self, w: Array) -> tuple[Array, Array]:
        """Return a and da / dw."""
        if self.stable:
            return w, np.ones_like(w)
        return 2 * w / (1 + w * w), 2 * (1 - w * w) / (1 + w * w) ** 2

    def terms(self, w: Array) -> Array:
        return np.array(self.weight / (1 - self.mu[:, None] * self.factors(w)[0]))

    def slopes(self, w: Array) -> Array:
        a, slope = self.factors(w)
        return np.array(self.weight * slope * self.mu[:, None] / (1 - self.mu[:, None] * a) ** 2)

    def solve(self, start: Array) -> tuple[float, Array, Array]:
        """Return the mean square error, a and b, from this start."""
        n = self.pairs
        cost, theta = self.move(start)
        _, c, _ = self.fit(theta)
        a, _ = self.factors(self.poles(theta))
        b = np.concatenate([(c[:n] + 1j * c[n : 2 * n]) / 2, c[2 * n :]])
        pairs = [np.stack([v[:n], v[:n].conj()], 1).ravel() for v in (a, b)]
        return cost, np.concatenate([pairs[0], a[n:]]), np.concatenate([pairs[1], b[n:]])

    def starts(self) -> list[Array]:
        """Return where to start: poles spread evenly, gathered at the steepest places, and those of AAA."""
        n, r = self.pairs, self.radius
        real, out = self._real(), self.even()
        if n:
            steep = self._steepest(n)
            # Newman: poles of the best approximation to a step lie above it, at distances in geometric progression
            round_ = np.arange(n) // len(steep)
            distance = 0.5 * 0.2**round_
            pole = steep[np.arange(n) % len(steep)] + 1j * distance
            w = 1 / pole if self.stable else _to_disk(pole)
            w = np.where(w.imag < 0, w.conj(), w)
            out.append(np.concatenate([np.minimum(np.abs(w), r), np.angle(w), real]))
            w = self._near_minimax()
            if len(w) == n:
                out.append(np.concatenate([np.minimum(np.abs(w), r), np.angle(w), real]))
        return out

    def _near_minimax(self) -> Array:
        """Return the complex poles, one of each pair, of AAA, whose largest error is near the least possible."""
        from scipy.interpolate import AAA

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # of so few terms it does not converge
            found = AAA(self.mu, self.value, max_terms=2 * self.pairs + self.real + 1, clean_up=False).poles()
        upper = found[np.isfinite(found) & (found.imag > 1e-9)]
        w = 1 / upper if self.stable else _to_disk(upper)
        w = np.where(w.imag < 0, w.conj(), w)
        nearest = np.argsort(-np.abs(w), kind="stable")[: self.pairs]
        return np.array(w[nearest])

    def _steepest(self, most: int) -> Array:
        """Return up to ``most`` places, apart from each other, where the target changes fastest."""
        change = np.abs(np.diff(self.value))
        middle = (self.mu[1:] + self.mu[:-1]) / 2
        found: list[float] = []
        for k in np.argsort(-change, kind="stable"):
            if change[k] < 0.5 * change.max() or len(found) == most:
                break
            if all(abs(middle[k] - other) > 0.1 for other in found):
                found.append(float(middle[k]))
        return np.array(found or [0.0])


def _to_disk(pole: Array) -> Array:
    """Return the w in the unit disk with (w + 1/w) / 2 = pole."""
    w: Array = pole + np.sqrt(pole * pole - 1)
    return np.array(np.where(np.abs(w) > 1, 1 / w, w))


def _report(target: Target, a: Array, b: Array) -> Report:
    mu = target.mu.numpy()
    grid = np.linspace(-1, 1, 4001)
    error = (b / (1 - mu[:, None] * a)).sum(1).real - target.value.numpy()
    slope = (a * b / (1 - grid[:, None] * a) ** 2).sum(1).real
    largest = float(np.abs(error).max())
    # squares of errors above 1e154 are infinite, those below 1e-162 are zero: the largest error is the unit
    rms = largest * float(np.sqrt(np.mean((error / (largest or 1.0)) ** 2)))
    return Report(rms, largest, float(np.abs(slope).max()))
