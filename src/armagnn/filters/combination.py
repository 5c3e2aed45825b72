"""Sums and multiples of filters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.errors import ParameterError
from armagnn.filters.base import Filter
from armagnn.operators import GraphOperator

Term = tuple[float | Tensor, Filter]


class CombinedFilter(Filter):
    r"""The filter :math:`h(\mu) = \sum_i c_i h_i(\mu)`, as made by ``f + g``, ``f - g`` and ``c * f``; mu in [-1, 1].

    Every term is applied by the method that is asked for, or by ``exact`` where it has no such method (a polynomial has
    no recursion). It acts on the kinds of operator on which all its terms are defined.

    Example:
        >>> from armagnn.filters import ARMAFilter, PolynomialFilter
        >>> high_pass = PolynomialFilter([1.0]) - ARMAFilter([0.5], [0.5])
        >>> high_pass(1.0), high_pass
        (array(0.), 1 × PolynomialFilter([1]) - 1 × ARMAFilter(a=[0.5], b=[0.5]))
    """

    def __init__(self, terms: list[Term]) -> None:
        self.terms = terms
        kinds, *others = (f.kinds for _, f in terms)
        self.kinds = tuple(kind for kind in kinds if all(kind in more for more in others))  # type: ignore[misc]
        if not self.kinds:
            raise ParameterError(
                f"no operator suits all of {', '.join(type(f).__name__ for _, f in terms)}: they cannot be added."
            )
        methods: dict[str, tuple[str, ...]] = {}
        for _, f in terms:
            for method, names in f.methods.items():
                methods[method] = tuple(dict.fromkeys([*methods.get(method, ()), *names]))
        self.methods = methods  # type: ignore[misc]

    def check_operator(self, op: GraphOperator) -> None:
        """Raise a typed error unless every term is defined on this operator."""
        for _, f in self.terms:
            f.check_operator(op)

    def _response(self, mu: Tensor) -> Tensor:
        total = torch.zeros_like(mu)
        for factor, f in self.terms:
            total = total + factor * f._response(mu)
        return total

    def _on_spectrum(self, op: GraphOperator, eigenvalues: Tensor) -> Tensor:
        total = torch.zeros_like(eigenvalues)
        for factor, f in self.terms:
            total = total + factor * f._on_spectrum(op, eigenvalues)
        return total

    def _apply(self, op: GraphOperator, x: Tensor, method: str, **options: Any) -> Tensor:
        total = torch.zeros_like(x)
        for factor, f in self.terms:
            own = method if method in f.methods else "exact"
            mine = {name: value for name, value in options.items() if name in f.methods[own]}
            total = total + factor * f._apply(f.meant(op), x, own, **mine)
        return total

    def __repr__(self) -> str:
        text = ""
        for factor, f in self.terms:
            number = float(factor.detach() if isinstance(factor, Tensor) else factor)
            sign = (" - " if number < 0 else " + ") if text else ("-" if number < 0 else "")
            text += f"{sign}{abs(number):g} × {f!r}"
        return text


def combine(*terms: Term) -> CombinedFilter:
    """Return the sum of c × f over the terms, sums within sums dissolved."""
    flat: list[Term] = []
    for factor, f in terms:
        inner = f.terms if isinstance(f, CombinedFilter) else [(1.0, f)]
        flat += [(factor * own, part) for own, part in inner]
    return CombinedFilter(flat)
