"""The ARMA filter: K parallel first-order terms (Eqs. 6 to 13)."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.errors import ParameterError, ShapeError
from armagnn.filters import rational
from armagnn.filters.base import (
    Filter,
    Variable,
    check_solver,
    check_variable,
    coefficients,
    is_scalar,
    show,
    show_variable,
)
from armagnn.filters.design import Report, design
from armagnn.filters.recursion import MAX_ITER as MAX_STEPS
from armagnn.filters.recursion import recursion
from armagnn.filters.targets import resolve
from armagnn.operators import GraphOperator
from armagnn.solvers import Statistics
from armagnn.solvers.conjugate_gradients import MAX_ITER, solve_polynomial

ENTRIES = 1 << 25
"""Numbers in the state of a solver; wider signals are filtered some columns at a time."""


class ARMAFilter(Filter):
    r"""The filter :math:`h(\mu) = \sum_{k=1}^K \frac{b_k}{1 - a_k \mu}` (Eq. 13), mu in [-1, 1] and lambda = 1 - mu.

    Every rational response (Eq. 6) with different poles is such a sum; its poles are :math:`1 / a_k`. Complex
    coefficients come in conjugate pairs, whose sum is real; of anything else the real part is taken,
    :math:`h = \mathrm{Re} \sum_k \dots`, so that b / (1 - a μ) with complex a, b is half of a pair.

    ============== ======================================================================================= ============
    method         how                                                                                     needs
    ============== ======================================================================================= ============
    ``exact``      :math:`(I - aM) Z = X` by conjugate gradients; for a pair, the real positive-definite   no pole on
                   :math:`(I - 2 \mathrm{Re}(a) M + |a|^2 M^2) Z = X`                                      [-1, 1]
    ``recursion``  :math:`\bar X^{(t+1)} = a M \bar X^{(t)} + b X` (Eq. 8) until it stands still           \|a\| < 1
    ``eigen``      :math:`U \, \mathrm{diag}(h(\mu)) \, U^T X`                                             10,000 nodes
    ============== ======================================================================================= ============

    The first two take ``tol`` (relative residual; for the recursion relative error), ``max_iter``, and ``statistics``,
    a list to which they append a `Statistics`: steps, residual, history. For a real a, a pole off [-1, 1] is the same
    as |a| < 1; a complex pair may have any size.

    Label propagation, :math:`(1 - \alpha)(I - \alpha M)^{-1} Y`, is ``ARMAFilter([alpha], [1 - alpha])``. Personalised
    PageRank with damping alpha is the same filter between the square roots of the degrees d (1 where there is no edge),
    :math:`\pi = D^{1/2} h(M) D^{-1/2} v`: ``d**0.5 * f.filter(op, v / d**0.5)``.

    Args:
        a: K numbers, real or complex; a tensor may need a gradient.
        b: K numbers.
        variable: of operators built with ``lambda_min`` or ``lambda_max``, ``"mu"`` takes h(M) and ``"lambda"`` takes
            h(I - L); of others they are one.

    Example:
        >>> f = ARMAFilter(a=[0.5], b=[0.5])
        >>> f.response([-1.0, 0.0, 1.0])
        array([0.33333333, 0.5       , 1.        ])
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> op = GraphOperator.from_edge_index(path, dtype=torch.float64)
        >>> labels = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
        >>> f.filter(op, labels)                        # label propagation from node 0, alpha = 0.5
        tensor([0.5833, 0.2357, 0.0833], dtype=torch.float64)
        >>> how = []
        >>> _ = f.filter(op, labels, method="recursion", tol=1e-6, statistics=how)
        >>> how[0].iterations, how[0].converged
        (20, True)
        >>> d = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
        >>> d**0.5 * f.filter(op, labels / d**0.5)      # personalised PageRank of node 0, damping 0.5
        tensor([0.5833, 0.3333, 0.0833], dtype=torch.float64)
    """

    methods = {  # noqa: RUF012
        "exact": ("tol", "max_iter", "statistics"),
        "recursion": ("tol", "max_iter", "statistics"),
        "eigen": ("spectrum",),
    }

    def __init__(self, a: Any, b: Any, variable: Variable = "mu") -> None:
        check_variable(variable)
        self.variable = variable
        self.a, self.b = (coefficients(name, v, allow_complex=True) for name, v in (("a", a), ("b", b)))
        if self.a.shape != self.b.shape:
            raise ShapeError(f"a and b must have one value per term, got {self.a.shape[0]} and {self.b.shape[0]}.")
        self.report: Report | None = None

    @property
    def order(self) -> int:
        """K, the number of first-order terms; a conjugate pair counts as two."""
        return self.a.shape[0]

    # --------------------------------------------------------------------------------------------------- constructions

    @classmethod
    @checked
    def design(cls, target: object, order: int, stable: bool = False) -> Self:
        r"""Return the filter of K terms that fits a target response on mu in [-1, 1] in the least-squares sense.

        Poles and residues are found together: for given poles the best b is a linear problem, and the poles move by
        Gauss-Newton from several starts. They may lie anywhere off [-1, 1]. That counts 2 K real coefficients.

        Args:
            target: a name (``low-pass``, ``high-pass``, ``band-pass``, ``band-stop``, ``comb``, ``heat``), a function
                of mu, or samples ``(mu, h)``; see `armagnn.filters.targets`.
            order: K, from 1 to 16.
            stable: keep |a| < 1, so that the recursion can be used. Poles then stay out of the unit disk, and a step
                can be no steeper than that allows; the report says what it cost.

        Returns:
            The filter; its ``report`` has the error on [-1, 1].

        Example:
            >>> f = ARMAFilter.design("low-pass", order=4)
            >>> f.report
            RMS error 0.0605, largest 0.49, steepest slope 19.9 per unit of mu
        """
        wanted = resolve(target)
        a, b, report = design(wanted, order, stable)
        filter = cls(a, b, wanted.variable)
        filter.report = report
        return filter

    @classmethod
    def from_rational(cls, p: Any, q: Any, variable: Variable = "lambda") -> Self:
        r"""Return the filter :math:`\frac{\sum_{k=0}^{P} p_k \lambda^k}{1 + \sum_{k=1}^K q_k \lambda^k}` (Eq. 6).

        The numerator may have the degree of the denominator (the constant becomes a term with a = 0). Refused by name:
        a higher one, which needs a polynomial besides; repeated poles, which are no sum of first-order terms; a pole at
        mu = 0.

        Args:
            p: :math:`p_0, p_1, \dots`
            q: :math:`q_1, \dots, q_K`, without the leading 1.
            variable: what the powers are of, ``"lambda"`` as in Eq. 6, or ``"mu"``.

        Example:
            >>> ARMAFilter.from_rational([2.0], [1.0])                    # 2 / (1 + lambda) = 1 / (1 - mu / 2)
            ARMAFilter(a=[0.5], b=[1], variable='lambda')
            >>> ARMAFilter.from_rational([1.0], [0.0, 1.0], variable="mu")  # 1 / (1 + mu²): a conjugate pair
            ARMAFilter(a=[0+1j, 0-1j], b=[0.5, 0.5])
        """
        check_variable(variable)
        return cls(*rational.to_parallel(coefficients("p", p), coefficients("q", q), variable), variable)

    def to_rational(self, variable: Variable = "lambda") -> tuple[Tensor, Tensor]:
        """Return p (K) and q (K) of Eq. 6, in float64; the powers are of lambda, or of mu.

        Example:
            >>> ARMAFilter([0.5], [1.0]).to_rational()
            (tensor([2.], dtype=torch.float64), tensor([1.], dtype=torch.float64))
        """
        check_variable(variable)
        return rational.from_parallel(self.a, self.b, variable)

    # -------------------------------------------------------------------------------------------------------- response

    def _response(self, mu: Tensor) -> Tensor:
        a, b = self._coefficients(mu)
        terms = b / (1 - a * mu.unsqueeze(-1))
        return (terms.real if terms.is_complex() else terms).sum(-1)

    def _on_spectrum(self, op: GraphOperator, eigenvalues: Tensor) -> Tensor:
        a, _ = self._coefficients(eigenvalues)
        mu = self._argument(op, eigenvalues)
        if bool(((1 - a * mu.unsqueeze(-1)).abs() < 1e-12).any()):
            raise ParameterError("a pole of the filter is an eigenvalue of this graph: h is infinite there.")
        return self._response(mu)

    def _coefficients(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return a and b in the type of a tensor, or the complex type that belongs to it."""
        complex_too = self.a.is_complex() or self.b.is_complex()
        dtype = torch.promote_types(like.dtype, torch.complex32) if complex_too else like.dtype
        return self.a.to(like.device, dtype), self.b.to(like.device, dtype)

    # ------------------------------------------------------------------------------------------------------- filtering

    def _apply(
        self,
        op: GraphOperator,
        x: Tensor,
        method: str,
        tol: float | None = None,
        max_iter: int | None = None,
        statistics: list[Statistics] | None = None,
        **options: Any,
    ) -> Tensor:
        check_solver(op, tol, max_iter, statistics)
        log: list[Statistics] = [] if statistics is None else statistics
        apply = self._by_recursion if method == "recursion" else self._by_solving
        width = max(1, ENTRIES // (op.num_nodes * self.order))
        parts = [apply(op, part, tol, max_iter, log) for part in torch.split(x, width, 1)]
        return torch.cat(parts, 1) if len(parts) > 1 else parts[0]

    def _by_recursion(
        self, op: GraphOperator, x: Tensor, tol: float | None, max_iter: int | None, log: list[Statistics]
    ) -> Tensor:
        size = float(self.a.detach().abs().max())
        if size >= 1:
            raise ParameterError(
                f"the recursion needs |a| < 1 and this filter has |a| = {size:.4g}: (aM)^t (Eq. 10) would not die out. "
                "Use method='exact', or design the filter with stable=True."
            )
        _, b = self._coefficients(x)
        a = self.a.to(x.device)
        state, statistics = recursion(op, _spread(a, x), _repeat(x, self.order), tol, max_iter or MAX_STEPS)
        log.append(statistics)
        terms = b[:, None] * state.view(len(x), self.order, -1)
        return (terms.real if terms.is_complex() else terms).sum(1)

    def _by_solving(
        self, op: GraphOperator, x: Tensor, tol: float | None, max_iter: int | None, log: list[Statistics]
    ) -> Tensor:
        a, b = self._coefficients(x)
        real, pairs = units(a, b)
        out = torch.zeros_like(x)
        for unit_a, unit_b in (real, pairs):
            if not len(unit_a):
                continue
            rows = [torch.ones_like(unit_a.real), -unit_a.real]
            if unit_a.is_complex():
                rows = [rows[0], 2 * rows[1], unit_a.real.square() + unit_a.imag.square()]
            c = torch.stack([_spread(row, x) for row in rows])
            z, statistics = solve_polynomial(op, c, _repeat(x, len(unit_a)), tol, max_iter or MAX_ITER)
            log.append(statistics)
            z = z.view(len(x), len(unit_a), -1)
            out = out + (unit_b.real[:, None] * z).sum(1)
            if unit_a.is_complex():  # Re b / (1 - aμ) = (Re b - Re(b conj a) μ) / |1 - aμ|²
                numerator = unit_b.real * unit_a.real + unit_b.imag * unit_a.imag
                out = out - op @ (numerator[:, None] * z).sum(1)
        return out

    # --------------------------------------------------------------------------------------------------------- algebra

    def __add__(self, other: Filter) -> Filter:
        if not isinstance(other, ARMAFilter) or self.variable != other.variable:
            return super().__add__(other)
        return ARMAFilter(torch.cat([self.a, other.a]), torch.cat([self.b, other.b]), self.variable)

    def __mul__(self, factor: float | Tensor) -> Filter:
        return ARMAFilter(self.a, factor * self.b, self.variable) if is_scalar(factor) else NotImplemented

    __rmul__ = __mul__

    def __sub__(self, other: Filter) -> Filter:
        return self + -other if isinstance(other, ARMAFilter) else super().__sub__(other)

    def __repr__(self) -> str:
        return f"ARMAFilter(a={show(self.a)}, b={show(self.b)}{show_variable(self.variable)})"


def _repeat(x: Tensor, times: int) -> Tensor:
    """Return (N, times × C): the signals side by side, once for each term."""
    return x.unsqueeze(1).expand(-1, times, -1).flatten(1)


def _spread(values: Tensor, x: Tensor) -> Tensor:
    """Return (terms × C): each term's number for each of its columns."""
    return values.unsqueeze(1).expand(-1, x.shape[1]).flatten()


def units(a: Tensor, b: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the terms with real poles, and complex ones with each pair made one; refuse poles on [-1, 1]."""
    if not a.is_complex():
        _check_real(a)
        return (a, b), (a[:0], b[:0])
    poles, residues = a.detach(), b.detach()
    # with both parts zero no gradient is lost by leaving the imaginary ones away
    plain = (poles.imag == 0) & (residues.imag == 0)
    _check_real(poles.real[poles.imag == 0])
    left = [k for k in range(len(a)) if not plain[k]]
    own_a, own_b = [], []
    while left:
        k = left.pop(0)
        twin = next((j for j in left if poles[j] == poles[k].conj() and residues[j] == residues[k].conj()), None)
        if twin is None:
            own_a.append(a[k])
            own_b.append(b[k])
        else:  # the mean has the gradient of the two
            left.remove(twin)
            own_a.append((a[k] + a[twin].conj()) / 2)
            own_b.append(b[k] + b[twin].conj())
    pairs = (torch.stack(own_a), torch.stack(own_b)) if own_a else (a[:0], b[:0])
    return (a.real[plain], b.real[plain]), pairs


def _check_real(a: Tensor) -> None:
    if len(a) and float(a.detach().abs().max()) >= 1:
        bad = float(a.detach().abs().max())
        raise ParameterError(
            f"this filter has a real a with |a| = {bad:.4g}, so a pole at |mu| = {1 / bad:.4g}, on [-1, 1], where "
            "frequencies lie: h is infinite there. Take |a| < 1, or a conjugate pair off the real line."
        )
