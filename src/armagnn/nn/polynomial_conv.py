r"""Layers that are one trained polynomial of the graph and a matrix: the base of GPR, Bernstein and Jacobi."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from armagnn import checks
from armagnn.filters.base import Array, evaluate
from armagnn.filters.polynomial_bases import basis_terms
from armagnn.nn.chebyshev_sum import chebyshev_coefficients, series
from armagnn.nn.conv import Conv, empty, times
from armagnn.operators import CSR, GraphOperator

HIGHEST: Final = 100
"""The highest degree."""


class OnePolynomialConv(Conv):
    r"""The convolution with one polynomial response,

    .. math::
        \bar X = \sigma\left( h(M) X W + b \right), \qquad h(\mu) = \sum_{k=0}^K \theta_k B_k(\mu),

    of degree K in the ``arma`` operator M, whose coefficients :math:`\theta_k` in a basis :math:`B_k` are trained with
    W and b. A subclass names its basis (see `armagnn.filters.polynomial_bases`) and where the coefficients start.

    Whatever the basis, the sum is evaluated by Chebyshev polynomials: :math:`h = \sum_n c_n T_n`, where c is a fixed
    matrix times :math:`\theta`. That takes K products with the operator (the Bernstein basis itself takes
    K (K + 3) / 2) and is stable. Training still takes place in the basis.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        order: K, the degree.
        act: the non-linearity: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of the input features X is dropped while training.
        bias: add a trained vector b.

    Shapes:
        - ``x``: (..., N, F_in) dense, or (N, F_in) sparse, never made dense.
        - output: (..., N, F_out).
        - ``weight``: (F_in, F_out); ``theta``: (K + 1), or ((K + 1) F_out) where channels have their own;
          ``bias``: (F_out).
    """

    kind = "arma"
    basis: ClassVar[str]
    """The name of the basis."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 10,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.order = checks.integer("order", order, 0, HIGHEST)
        self.weight = Parameter(empty("weight", self.in_channels, self.out_channels))
        self.theta = Parameter(torch.empty(self._start().numel()))
        self.reset_parameters()

    def _start(self) -> Tensor:
        """Return where the coefficients start, shape (K + 1), or (K + 1, F_out)."""
        raise NotImplementedError

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform), set the bias to zero and the response to where it starts."""
        super().reset_parameters()
        with torch.no_grad():
            self.theta.copy_(self._start().flatten())

    def coefficients(self) -> Tensor:
        """Return the coefficients in the basis, as the layer uses them, shape (K + 1), or (K + 1, F_out)."""
        return self.theta

    def response(self, mu: Tensor | Array | list[float] | float) -> Tensor | Array:
        """Return h(mu): a tensor, differentiable, for a tensor, else an array. Several channels are the first axis."""

        def evaluated(mu: Tensor) -> Tensor:
            theta = self.coefficients().to(mu.dtype)
            table = _values(self.basis, mu.reshape(-1), self.order) @ theta
            return table.reshape(mu.shape) if theta.dim() == 1 else table.T.reshape(theta.shape[1], *mu.shape)

        return evaluate(evaluated, mu)

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        theta = self.coefficients()
        change = chebyshev_coefficients(lambda e: _values(self.basis, e, self.order), self.order, theta.device)
        c = change.to(theta.dtype) @ theta
        if isinstance(x, Tensor) and theta.dim() == 1 and self._filters_first(x):
            return times(series(op, x, c), self.weight)
        return series(op, times(x, self.weight), c)

    def _shown(self) -> dict[str, Any]:
        return {"order": self.order}


def _values(basis: str, mu: Tensor, degree: int) -> Tensor:
    """Return B_0(mu), ..., B_K(mu), shape (M, K + 1), of numbers mu, shape (M)."""
    return torch.stack(basis_terms(basis, lambda x: mu * x, torch.ones_like(mu), degree), 1)
