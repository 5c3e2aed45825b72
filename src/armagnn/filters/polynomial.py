"""The polynomial filter of Eqs. 2 and 3."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.errors import GraphError
from armagnn.filters.base import Filter, Variable, check_variable, coefficients, show, show_variable
from armagnn.operators import GraphOperator


class PolynomialFilter(Filter):
    r"""The filter :math:`h(\mu) = \sum_{k=0}^K w_k \mu^k`, that is :math:`\bar X = \sum_{k=0}^K w_k M^k X`.

    A moving average over K hops. With ``variable="lambda"`` the powers are those of :math:`\lambda = 1 - \mu` and of
    the Laplacian :math:`L`, which is how Eqs. 2 and 3 are written, whatever ``lambda_min`` and ``lambda_max`` the
    operator was built with; then it may also be of kind ``laplacian``. The argument of ``response`` is mu in [-1, 1] in
    both cases. It takes K products with the operator.

    Args:
        w: the coefficients :math:`w_0, \dots, w_K`; a tensor may need a gradient.
        variable: the one whose powers are meant, ``"mu"`` or ``"lambda"``.

    Example:
        >>> smooth = PolynomialFilter([0.5, 0.5])          # (I + M) / 2
        >>> smooth.response([-1.0, 0.0, 1.0])
        array([0. , 0.5, 1. ])
        >>> PolynomialFilter([1.0, -0.5], variable="lambda").response([-1.0, 0.0, 1.0])  # I - L / 2: the same
        array([0. , 0.5, 1. ])
    """

    def __init__(self, w: Any, variable: Variable = "mu") -> None:
        check_variable(variable)
        self.w, self.variable = coefficients("w", w), variable
        if variable == "lambda":
            self.kinds = (*self.kinds, "laplacian")  # type: ignore[misc]

    @property
    def order(self) -> int:
        """K, the highest power: the reach in hops."""
        return self.w.shape[0] - 1

    def _response(self, mu: Tensor) -> Tensor:
        point = 1 - mu if self.variable == "lambda" else mu
        out = torch.zeros_like(point)
        for w in self.w.to(point).flip(0):
            out = out * point + w
        return out

    def _apply(self, op: GraphOperator, x: Tensor, method: str, **options: Any) -> Tensor:
        turned = (self.variable == "lambda") != (op.kind == "laplacian")  # I - op is the matrix whose powers are meant
        w = self.w.to(x)
        out = w[-1] * x
        for k in range(self.order - 1, -1, -1):  # Horner
            out = (out - op @ out if turned else op @ out) + w[k] * x
        return out

    def check_operator(self, op: GraphOperator) -> None:
        """Raise a typed error unless the filter is defined on this operator."""
        if getattr(op, "kind", None) == "laplacian" and self.variable == "mu":
            raise GraphError(
                "this PolynomialFilter has coefficients for powers of mu = 1 - lambda, and the operator is a Laplacian "
                "with eigenvalues lambda: build it with kind='arma', or pass variable='lambda' if you mean powers of L."
            )
        super().check_operator(op)

    def __repr__(self) -> str:
        return f"PolynomialFilter({show(self.w)}{show_variable(self.variable)})"
