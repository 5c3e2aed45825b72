"""The filter of a stack of linear GCN layers (Eq. 5)."""

from __future__ import annotations

from typing import Any, Final

from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.filters.base import Filter, rows_of
from armagnn.operators import GraphOperator

MOST_STEPS: Final = 100_000
"""More products than any response needs: at the largest T all frequencies but the lowest are gone."""


class GCNFilter(Filter):
    r"""The filter :math:`h(\mu) = \mu^T`, that is :math:`\bar X = \hat A^T X`: T linear GCN layers without weights.

    mu are the eigenvalues of :math:`\hat A = \tilde D^{-1/2} (A + \gamma I) \tilde D^{-1/2}`, the operator of kind
    ``gcn`` that ``f.operator(...)`` builds. For :math:`\gamma = 0` they are those of the arma operator, in [-1, 1], so
    h amplifies both ends of the spectrum, the high frequencies with the sign of :math:`(-1)^T`. Self-loops
    move them up, towards the low-pass. On a graph where every node has degree d that is exactly
    :math:`\mu \mapsto \frac{d \mu + \gamma}{d + \gamma}`, which `on_regular` shows; elsewhere the eigenvectors change
    too, and there is no such formula.

    Args:
        gamma: weight of the self-loops, at least 0.
        T: the number of layers.

    Example:
        >>> import torch
        >>> f = GCNFilter(gamma=1.0, T=2)
        >>> op = f.operator(torch.tensor([[0, 1], [1, 0]]))
        >>> f.filter(op, torch.tensor([1.0, 0.0]))
        tensor([0.5000, 0.5000])
        >>> f.on_regular(torch.tensor([-1.0, 0.0, 1.0]), degree=1)
        tensor([0.0000, 0.2500, 1.0000])
    """

    def __init__(self, gamma: float = 1.0, T: int = 1) -> None:
        self.gamma, self.T = checks.real("gamma", gamma, least=0), checks.integer("T", T, 1, MOST_STEPS)
        # without self-loops the two operators are one
        self.kinds = ("gcn", "arma") if gamma == 0 else ("gcn",)  # type: ignore[misc]

    def operator(self, graph: Any, num_nodes: int | None = None, edge_weight: Tensor | None = None) -> GraphOperator:
        """Return the ``gcn`` operator with this gamma, from anything that `GraphOperator.from_graph` reads."""
        return GraphOperator.from_graph(graph, num_nodes, edge_weight, kind="gcn", gamma=self.gamma)

    def _operator_for(self, graph: Any, x: Tensor) -> GraphOperator:
        return GraphOperator.from_graph(graph, rows_of(x), kind="gcn", gamma=self.gamma, dtype=x.dtype).to(x.device)

    def _response(self, mu: Tensor) -> Tensor:
        return mu**self.T

    @checked
    def on_regular(self, mu: Tensor, degree: float) -> Tensor:
        """Return the response to mu in [-1, 1] of the *arma* operator, if every node has this degree."""
        checks.real_tensor("mu", mu, "(...)")
        degree = checks.real("degree", degree, above=0)
        share = 1 / (1 + self.gamma / degree)  # a large degree times mu would overflow
        return self._response(share * mu + (1 - share))

    def _apply(self, op: GraphOperator, x: Tensor, method: str, **options: Any) -> Tensor:
        for _ in range(self.T):
            x = op @ x
        return x

    def __repr__(self) -> str:
        return f"GCNFilter(gamma={self.gamma:g}, T={self.T})"
