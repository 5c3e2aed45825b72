"""Sums of answers of linear systems in shifted operators, all shifts from one Krylov space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from torch import Tensor

from armagnn.errors import GraphError
from armagnn.kernels import StateUpdate, backend, column_dots
from armagnn.operators.all_rows import AllRows
from armagnn.solvers.conjugate_gradients import ONE
from armagnn.solvers.iteration import Statistics

Array = npt.NDArray[Any]

Product = Callable[[Tensor, Tensor], Tensor]
"""Returns M x for x of shape (N, C), in the second tensor or in a new one."""

WINDOW: Final = 16
"""Vectors of the Krylov space that are combined at once; two or more."""

LARGE_WINDOW: Final = 8
"""The same for vectors that fill the memory."""

LARGE: Final = 1 << 23
"""Numbers of such a vector (N C), at least."""


@dataclass(frozen=True, eq=False)
class Sums:
    r"""What `krylov_sums` found.

    Attributes:
        values: the sums, shape (O, N, C).
        statistics: with a trace for each of the P factors: of the recursion's own residuals, relative to \|Y\|.
        products: :math:`\langle z_k, x \rangle` with the columns of another matrix, shape (P, C), complex; where each
            rank has some rows, the part of these.
        slopes: the derivatives of the products by a_k, likewise.
        alpha: the diagonal of T, of each step, shape (C).
        beta: what stands before it in each row of T, shape (C).
    """

    values: Tensor
    statistics: Statistics
    products: Array
    slopes: Array
    alpha: list[Array]
    beta: list[Array]

    def lengths(self, a: Array, size: Array) -> Array:
        r"""Return :math:`|z_k| = |y| |(I - a_k T)^{-1} e_1|`, shape (P, C), for right sides of length ``size``."""
        front, pivots, lowers = np.ones_like(a), list[Array](), [np.zeros_like(a)]
        for alpha, beta in zip(self.alpha, self.beta, strict=True):
            before = pivots[-1] if pivots else 1.0
            lowers.append(a * beta / before)
            pivots.append(1 - a * alpha - a * beta * lowers[-1])
        fronts = []
        for pivot, lower in zip(pivots, [1.0, *lowers[2:]], strict=True):
            front = front * lower
            fronts.append(front / pivot)
        total, c = np.zeros(a.shape), np.zeros_like(a)
        for part, lower in zip(reversed(fronts), [0.0, *reversed(lowers[2:])], strict=True):
            c = part + lower * c
            total += np.abs(c) ** 2
        return np.array(np.sqrt(total) * size)


def krylov_sums(
    product: Product,
    y: Tensor,
    a: Array,
    weights: Sequence[Mapping[int, Array]],
    tol: float,
    max_iter: int,
    other: Tensor | None = None,
    slopes: bool = False,
    over: AllRows = ONE,
) -> Sums:
    r"""Return :math:`x_o = \sum_k \mathrm{Re}\, c_{ok} z_k` of the answers of :math:`(I - a_k M) z_k = y`.

    M is symmetric, with eigenvalues in [-1, 1]; the poles :math:`1 / a_k` lie off [-1, 1], real or complex. For a
    column y all systems share one Krylov space, that of M and y. Lanczos' recursion

    .. math::
        \beta_{j+1} v_{j+1} = M v_j - \alpha_j v_j - \beta_j v_{j-1}, \qquad v_1 = y / |y|,

    makes an orthonormal basis V of it, in which M is the tridiagonal T, with one product for all k. The answer of
    conjugate gradients is :math:`z_k = |y| V (I - a_k T)^{-1} e_1`. The factors :math:`L D L^\top` of the small matrix
    are found row by row:

    .. math::
        \delta_j &= 1 - a \alpha_j - a \beta_j l_j, & l_{j+1} &= a \beta_{j+1} / \delta_j, \\
        d_j &= v_j + l_j d_{j-1}, \quad z \leftarrow z + (w_j / \delta_j) d_j, & w_{j+1} &= l_{j+1} w_j,

    with :math:`w_1 = |y|, l_1 = 0`. The residual of step j has the length :math:`|w_{j+1}|`. For a real a this is the
    method of conjugate gradients, for a complex one that of conjugate orthogonal ones (COCG). No pivot
    :math:`\delta_j` vanishes: :math:`\delta_j / a` is never nearer to the real line than :math:`1 / a` is, and for a
    real a with |a| < 1 the matrix is definite. Where the pivot of a real a is not positive, M has an eigenvalue beyond
    [-1, 1], and an error says so.

    The recursion of d and z is carried out on a few numbers of each column, for `WINDOW` steps (`LARGE_WINDOW` of long
    vectors); then the d_k and the sums are brought up to date from the vectors of these steps in one pass. So memory
    does not grow with the steps.

    The same numbers give :math:`\langle z_k, x \rangle`, because :math:`\langle d_j, x \rangle` has the recursion of
    d_j; and, differentiated by a, the slopes :math:`\langle M (I - a_k M)^{-2} y, x \rangle`.

    Args:
        product: M.
        y: the right sides, shape (N, C), float32 or float64, finite.
        a: the factors, shape (P, C), complex; a row of real numbers stays real.
        weights: of each sum the c_k, shape (C), complex, by the k that it has.
        tol: a column of a factor is done when the residual is at most ``tol`` times \|y\|; with ``slopes`` its
            derivative by a, too.
        max_iter: the most steps.
        other: the matrix of the ``products``, shape (N, C); None for none.
        slopes: whether their derivatives are wanted.
        over: what adds up over the ranks, where each has some rows of y.

    Example:
        >>> import torch
        >>> M = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
        >>> y, one = torch.tensor([[1.0], [0.0]], dtype=torch.float64), [{0: np.ones(1)}]
        >>> found = krylov_sums(lambda x, out: M @ x, y, np.array([[0.5]]), one, 1e-12, 10)
        >>> found.values.flatten(), found.statistics.steps
        (tensor([1.3333, 0.6667], dtype=torch.float64), [2])
    """
    a = np.asarray(a, dtype=np.complex128)
    size = _lengths(y, over)
    window = LARGE_WINDOW if y.numel() >= LARGE else WINDOW
    state = _States(y, a, weights, window)
    small = _Small(a, size, tol, slopes, window)
    vectors, lanczos_vector = state.vectors, backend(y.device).lanczos_vector
    vectors[0].copy_(y)
    unit = np.where(size > 0, size, 1.0)
    # vectors of the basis are kept as they come, and divided by their lengths in passing
    length, length_before, beta = unit, np.ones_like(unit), np.zeros_like(size)
    alphas, betas = list[Array](), list[Array]()
    step = 0
    while small.running and step < max_iter:
        here, after, last = (vectors[(step + k) % len(vectors)] for k in (0, 1, -1))
        made = product(here, after)
        if made is not after:
            after.copy_(made)
        alpha = _total(column_dots(after, here), over) / length**2
        along = None if other is None else _total(column_dots(here, other), ONE) / length
        small.take(alpha, beta, length, along)
        alphas.append(alpha)
        betas.append(beta)
        # before the first vector there is none, and its factor is zero
        factors = np.stack([1 / length, -alpha / length, -beta / length_before])
        beta = np.sqrt(_total(lanczos_vector(after, here, last if step else here, factors), over))
        small.measure(beta)
        length_before, length = length, np.where(beta > 0, beta, 1.0)
        step += 1
        if small.filled == window:
            state.update(small, step)
    if small.filled:
        state.update(small, step, last=True)
    return Sums(state.values, small.statistics(), small.products, small.slopes, alphas, betas)


def _total(x: Tensor, over: AllRows) -> Array:
    found: Array = over.total(x).cpu().numpy()
    return found


def _lengths(x: Tensor, over: AllRows) -> Array:
    return np.array(np.sqrt(_total(column_dots(x, x), over)))


class _Small:
    """The recursion of d and z in numbers: of each factor and column, and of the vectors since the last update.

    ``d = own d' + sum_w share_w v_w`` and ``z = z' + own_z d' + sum_w share_z_w v_w`` with the d' and z' of then.
    """

    def __init__(self, a: Array, size: Array, tol: float, slopes: bool, window: int) -> None:
        shape = a.shape
        self.a, self.tol = a, tol
        self.real: list[bool] = (a.imag == 0).all(1).tolist()
        self.unit = np.where(size > 0, size, 1.0)
        self.w, self.lower = np.broadcast_to(size, shape).astype(np.complex128), np.zeros_like(a)
        self.active = np.broadcast_to(size > 0, shape).copy()
        self.running = bool(self.active.any())
        self.residuals: list[list[float]] = [[] for _ in a]
        self.products, self.slopes, self.d_other = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)
        self.share, self.share_z = (np.zeros((window, *shape), dtype=np.complex128) for _ in range(2))
        # derivatives by a
        self.with_slopes = slopes
        self.w_slope, self.lower_slope, self.d_slope = (np.zeros_like(a) for _ in range(3))
        self.empty()

    def empty(self) -> None:
        """Begin a window."""
        self.filled = 0
        self.own, self.own_z = np.ones_like(self.a), np.zeros_like(self.a)

    def take(self, alpha: Array, beta: Array, length: Array, along: Array | None) -> None:
        """Take the numbers of one more vector, whose length is not divided out yet, and its products with others."""
        a, lower, n = self.a, self.lower, self.filled
        pivot = 1 - a * alpha - a * beta * lower
        wrong = self.active & (a.imag == 0) & (pivot.real <= 0)
        if wrong.any():
            bad = float(np.abs(1 / a.real[wrong]).min())
            raise GraphError(
                f"the operator has an eigenvalue beyond the pole at |mu| = {bad:.4g}, where the response is infinite: "
                "build the operator without lambda_min and lambda_max, or move the pole away from [-1, 1]."
            )
        step = np.where(self.active, self.w / pivot, 0.0)
        self.own *= lower
        self.share[:n] *= lower
        self.share[n] = 1 / length
        self.own_z += step * self.own
        self.share_z[:n] += step * self.share[:n]
        self.share_z[n] = step * self.share[n]
        if self.with_slopes:
            self.pivot_slope = -alpha - beta * (lower + a * self.lower_slope)
        if along is not None:
            d_before = self.d_other
            self.d_other = along + lower * d_before
            self.products += step * self.d_other
            if self.with_slopes:
                self.d_slope = self.lower_slope * d_before + lower * self.d_slope
                step_slope = np.where(self.active, (self.w_slope - step * self.pivot_slope) / pivot, 0.0)
                self.slopes += step_slope * self.d_other + step * self.d_slope
        self.pivot = pivot
        self.filled += 1

    def measure(self, beta: Array) -> None:
        """Take the length of the next vector, and find out which systems are solved."""
        lower = self.a * beta / self.pivot
        left = np.abs(lower * self.w)
        if self.with_slopes:
            self.lower_slope = beta / self.pivot - lower * self.pivot_slope / self.pivot
            self.w_slope = np.where(self.active, self.lower_slope * self.w + lower * self.w_slope, self.w_slope)
            slope_left = np.abs(self.w_slope)
        self.w = np.where(self.active, lower * self.w, self.w)
        left = np.where(self.active, left, np.abs(self.w)) / self.unit
        busy = self.active.any(1)
        for k in np.flatnonzero(busy):
            self.residuals[k].append(float(left[k].max()))
        self.active &= np.maximum(left, slope_left / self.unit) > self.tol if self.with_slopes else left > self.tol
        self.lower = lower
        self.running = bool(self.active.any())

    def statistics(self) -> Statistics:
        """Return the traces, and which factors are done in every column."""
        done = (~self.active.any(1)).tolist()
        return Statistics(self.residuals, converged=done, tolerances=[self.tol] * len(self.a))


class _States:
    """The sums and the d_k, complex ones as two real matrices, and the vectors since the last update."""

    def __init__(self, y: Tensor, a: Array, weights: Sequence[Mapping[int, Array]], window: int) -> None:
        self.outputs, self.weights = len(weights), weights
        self.first: list[int] = []  # where the d_k are
        place = self.outputs
        for row in a:
            self.first.append(place)
            place += 1 if (row.imag == 0).all() else 2
        self.count = [end - first for first, end in zip(self.first, [*self.first[1:], place], strict=True)]
        self.kernels = backend(y.device)
        self.all = self.kernels.blank(y, place, *y.shape).zero_()
        self.vectors = self.kernels.blank(y, window + 1, *y.shape)

    @property
    def values(self) -> Tensor:
        return self.all[: self.outputs]

    def update(self, small: _Small, step: int, last: bool = False) -> None:
        """Bring the sums and the d_k up to date."""
        n, columns = small.filled, small.a.shape[1]
        places = [(step - n + w) % len(self.vectors) for w in range(n)]
        updates = []
        for o, given in enumerate(self.weights):
            sources, old, new = [o], [np.ones(columns)], np.zeros((n, columns))
            for k, c in given.items():
                if not (small.own_z[k].any() or small.share_z[:n, k].any()):
                    continue
                own = c * small.own_z[k]
                new += (c * small.share_z[:n, k]).real
                sources.append(self.first[k])
                old.append(own.real)
                if self.count[k] == 2:
                    sources.append(self.first[k] + 1)
                    old.append(-own.imag)
            if len(sources) > 1:
                updates.append(StateUpdate(o, sources, np.stack(old)[None], new[None]))
        for k, (first, count) in enumerate(zip(self.first, self.count, strict=True)):
            if last or not small.active[k].any():
                continue
            own, share = small.own[k], small.share[:n, k]
            if count == 1:
                updates.append(StateUpdate(first, [first], own.real[None, None], share.real[None]))
                continue
            old = [np.stack([own.real, -own.imag]), np.stack([own.imag, own.real])]
            updates.append(StateUpdate(first, [first, first + 1], np.stack(old), np.stack([share.real, share.imag])))
        self.kernels.combine_states(self.all, self.vectors, places, updates)
        small.empty()
