"""The Chebyshev filter, linear form of Eq. 4."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer
from armagnn.errors import ParameterError
from armagnn.filters.base import Filter, Variable, check_variable, coefficients, show, show_variable
from armagnn.filters.targets import resolve
from armagnn.operators import GraphOperator

POINTS = 4096
"""Chebyshev points at which a function is read: its coefficients are then exact to about 1e-3 for a step, to rounding
for anything smooth."""


class ChebyshevFilter(Filter):
    r"""The filter :math:`h(\mu) = \sum_{k=0}^{K-1} c_k T_k(\mu)`, that is :math:`\bar X = \sum_k c_k T_k(M) X` (Eq. 4).

    A polynomial in the basis :math:`T_k(\mu) = 2 \mu T_{k-1}(\mu) - T_{k-2}(\mu)`, which is well conditioned on mu in
    [-1, 1]. Eq. 4 has :math:`T_k(\tilde L)` with
    :math:`\tilde L = 2L / \lambda_{max} - I`; for :math:`\lambda_{max} = 2` that is :math:`-M`, so its coefficients are
    these with every other sign changed. K coefficients, as in Eq. 4, take K - 1 products and reach K - 1 hops.

    Args:
        c: the coefficients :math:`c_0, \dots, c_{K-1}`; a tensor may need a gradient.
        variable: of operators built with ``lambda_min`` or ``lambda_max``, ``"mu"`` takes :math:`T_k(M)` and
            ``"lambda"`` :math:`T_k(I - L)`.

    Example:
        >>> f = ChebyshevFilter.design("heat", order=16)
        >>> [round(float(h), 6) for h in f.response([0.0, 0.5, 1.0])]   # exp(-5 (1 - mu))
        [0.006738, 0.082085, 1.0]
    """

    def __init__(self, c: Any, variable: Variable = "mu") -> None:
        check_variable(variable)
        self.c, self.variable = coefficients("c", c), variable

    @property
    def order(self) -> int:
        """K, the number of coefficients."""
        return self.c.shape[0]

    @classmethod
    @checked
    def design(cls, target: object, order: int, jackson: bool = False) -> Self:
        """Return the truncated Chebyshev series of a target response.

        Args:
            target: a name, a function of mu in [-1, 1], or samples ``(mu, h)``; see `armagnn.filters.targets`.
            order: K, the number of coefficients.
            jackson: damp the coefficients so that steps do not ring (no overshoot), at the cost of wider flanks.

        Example:
            >>> plain, damped = (ChebyshevFilter.design("low-pass", 16, jackson=j) for j in (False, True))
            >>> mu = torch.linspace(-1, 1, 201)
            >>> round(float(plain.response(mu).max()), 2), round(float(damped.response(mu).max()), 2)
            (1.09, 1.0)
        """
        order = integer("order", order, 1, POINTS // 4)
        angle = (torch.arange(POINTS, dtype=torch.float64) + 0.5) * (math.pi / POINTS)
        wanted = resolve(target)
        value = wanted.function(torch.cos(angle)).detach()
        if not bool(torch.isfinite(value).all()):
            raise ParameterError("the target is not finite on [-1, 1]: give a bounded response.")
        k = torch.arange(order, dtype=torch.float64)
        c = (2 / POINTS) * (torch.cos(k[:, None] * angle) @ value)
        c[0] /= 2
        return cls(c * jackson_damping(order) if jackson else c, wanted.variable)

    def _response(self, mu: Tensor) -> Tensor:
        return self._sum(lambda t: mu * t, torch.ones_like(mu))

    def _apply(self, op: GraphOperator, x: Tensor, method: str, **options: Any) -> Tensor:
        return self._sum(lambda t: op @ t, x)

    def _sum(self, times: Any, x: Tensor) -> Tensor:
        """Return the sum of c_k T_k x, where ``times`` multiplies by the argument of T."""
        c = self.c.to(x)
        before, now = torch.zeros_like(x), x
        out = c[0] * x
        for k in range(1, self.order):
            before, now = now, times(now) if k == 1 else 2 * times(now) - before
            out = out + c[k] * now
        return out

    def __repr__(self) -> str:
        return f"ChebyshevFilter({show(self.c)}{show_variable(self.variable)})"


def jackson_damping(order: int) -> Tensor:
    r"""Return the factors of Jackson's kernel, shape (K), 1 at k = 0 and falling to almost 0.

    .. math:: g_k = \frac{(K - k + 1) \cos k\alpha + \sin k\alpha \cot \alpha}{K + 1}, \qquad \alpha = \frac{\pi}{K + 1}

    They make the truncated series a smoothing of the function by a positive kernel of width about :math:`\pi / K`.

    Example:
        >>> jackson_damping(3)
        tensor([1.0000, 0.7071, 0.2500], dtype=torch.float64)
    """
    k = torch.arange(order, dtype=torch.float64)
    alpha = math.pi / (order + 1)
    return ((order - k + 1) * torch.cos(k * alpha) + torch.sin(k * alpha) / math.tan(alpha)) / (order + 1)
