r"""Bases of the polynomials of an operator, :math:`B_0(M) X, \dots, B_K(M) X`, one product after another.

All span the same polynomials of degree K. They differ in how well gradient descent finds its way in them.

============== ================================================================= =====================================
basis          :math:`B_k`, of :math:`\mu` in [-1, 1], :math:`\lambda = 1 - \mu` used by
============== ================================================================= =====================================
``polynomial`` :math:`\lambda^k`                                                 Eqs. 2 and 3
``gpr``        :math:`\mu^k`                                                     GPR-GNN (Chien et al., 2021)
``chebyshev``  :math:`T_k(\mu)`                                                  Eq. 4
``bernstein``  :math:`2^{-K} \binom{K}{k} \lambda^k (2 - \lambda)^{K-k}`         BernNet (He et al., 2021)
``jacobi``     :math:`P_k^{(a,b)}(\mu)`, a = b = 1                               JacobiConv (Wang and Zhang, 2022)
============== ================================================================= =====================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from armagnn.checks import choice, integer

BASES: Final = ("polynomial", "gpr", "chebyshev", "bernstein", "jacobi")
JACOBI: Final = (1.0, 1.0)
"""a and b of the Jacobi polynomials."""


def basis_terms(basis: str, product: Callable[[Any], Any], x: Any, degree: int) -> list[Any]:
    """Return B_k(M) x for k = 0, ..., K, where ``product`` multiplies with M; x may be a tensor, an array or a number.

    Args:
        basis: one of `BASES`.
        product: returns M x.
        x: the signals.
        degree: K.

    Example:
        >>> basis_terms("chebyshev", lambda x: 0.5 * x, 1.0, 2)  # of the number M = 0.5
        [1.0, 0.5, -0.5]
        >>> sum(basis_terms("bernstein", lambda x: 0.5 * x, 1.0, 5))  # they are a partition of one
        1.0
    """
    choice("basis", basis, BASES)
    integer("degree", degree, 0, 1000)
    if basis == "bernstein":
        return _bernstein(product, x, degree)
    a, b = JACOBI
    terms = [x]
    for k in range(1, degree + 1):
        last, before = terms[-1], terms[-2] if k > 1 else None
        mixed = product(last)
        if basis == "polynomial":
            terms.append(last - mixed)
        elif basis == "gpr":
            terms.append(mixed)
        elif basis == "chebyshev":
            terms.append(mixed if before is None else 2 * mixed - before)
        elif before is None:
            terms.append((a - b) / 2 * last + (a + b + 2) / 2 * mixed)
        else:
            s = 2 * k + a + b
            scale = 2 * k * (k + a + b) * (s - 2)
            straight, along = (s - 1) * (a * a - b * b) / scale, (s - 1) * s * (s - 2) / scale
            back = 2 * (k + a - 1) * (k + b - 1) * s / scale
            terms.append(along * mixed + straight * last - back * before)
    return terms


def _bernstein(product: Callable[[Any], Any], x: Any, degree: int) -> list[Any]:
    """Return the Bernstein terms: first the powers of (1 - M) / 2, then those of (1 + M) / 2 on top."""
    powers = [x]
    for _ in range(degree):
        powers.append(0.5 * (powers[-1] - product(powers[-1])))
    terms = []
    for k, power in enumerate(powers):
        for _ in range(degree - k):
            power = 0.5 * (power + product(power))
        terms.append(math.comb(degree, k) * power)
    return terms
