"""Any response, applied exactly (Eq. 1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.errors import ParameterError
from armagnn.filters.base import Filter, Variable, check_variable, coefficients, show_variable
from armagnn.filters.targets import resolve, variable_of, vectorized
from armagnn.operators import GraphOperator


class SpectralFilter(Filter):
    r"""The filter :math:`\bar X = U \, \mathrm{diag}[h(\mu_1), \dots, h(\mu_N)] \, U^T X` (Eq. 1) for any response h.

    The truth that other filters approximate: it needs an eigendecomposition, so up to 10,000 nodes. Pass
    ``spectrum=(mu, U)`` of `armagnn.spectral.spectrum` to compute that once.

    Args:
        h: a function of mu in [-1, 1], a name, or samples ``(mu, h)``; see `armagnn.filters.targets`. Gradients pass
            through a function of tensors.
        variable: ``"lambda"`` if h is a function of lambda in [0, 2], or samples ``(lambda, h)``.

    Example:
        >>> import torch
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        >>> SpectralFilter(lambda mu: 1 - mu).filter(op, torch.tensor([1.0, 0.0]))  # the Laplacian
        tensor([ 1., -1.])
    """

    methods = {"exact": ("spectrum",), "eigen": ("spectrum",)}  # noqa: RUF012

    def __init__(self, h: object, variable: Variable = "mu") -> None:
        check_variable(variable)
        in_lambda = variable == "lambda" and not isinstance(h, str)
        if in_lambda and not callable(h):
            h = _reflected(h)
        self.variable = "lambda" if in_lambda else variable_of(h)
        function = vectorized(h) if callable(h) else resolve(h).function
        self._function = (lambda mu: function(1 - mu)) if in_lambda and callable(h) else function
        self._name = h if isinstance(h, str) else getattr(h, "__name__", "samples" if not callable(h) else "h")

    def _response(self, mu: Tensor) -> Tensor:
        return self._function(mu)

    def _on_spectrum(self, op: GraphOperator, eigenvalues: Tensor) -> Tensor:
        response = super()._on_spectrum(op, eigenvalues)
        if not bool(torch.isfinite(response.detach()).all()):
            bad = float(eigenvalues[~torch.isfinite(response.detach())][0])
            raise ParameterError(f"the response is not finite at the eigenvalue {bad:.4g} of this graph.")
        return response

    def _apply(self, op: GraphOperator, x: Tensor, method: str, **options: Any) -> Tensor:
        return self._eigen(op, x, **options)

    def __repr__(self) -> str:
        return f"SpectralFilter({self._name}{show_variable(self.variable)})"


def _reflected(samples: object) -> object:
    """Return samples (mu, h) of samples (lambda, h)."""
    if not isinstance(samples, tuple | list) or len(samples) != 2:
        return samples
    frequencies, values = samples
    return 1 - coefficients("lambda", frequencies), values
