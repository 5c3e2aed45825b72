"""The Chebyshev layer of Defferrard et al. (Eq. 4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from torch import Tensor
from torch.nn.parameter import Parameter

from armagnn import checks
from armagnn.nn.chebyshev_sum import chebyshev, polynomial
from armagnn.nn.conv import Conv, empty
from armagnn.nn.layer_registry import register_layer
from armagnn.nn.spectral_form import spectral, spectral_pays, spectrum
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.extremes import extremal_eigenvalues
from armagnn.operators.kept import once_per_operator

LEAST: Final = 1e-6
"""The least λmax: below it, T_k of the scaled Laplacian overflows for small k."""


@register_layer("chebyshev", stacks="order")
class ChebConv(Conv):
    r"""The Chebyshev convolution

    .. math::
        \bar X = \sigma\left( \sum_{k=0}^{K-1} T_k(\tilde L) X W_k + b \right), \qquad
        \tilde L = \frac{2}{\lambda_{max}} L - I,

    Eq. 4 of the paper, from `Convolutional Neural Networks on Graphs with Fast Localized Spectral Filtering
    <https://arxiv.org/abs/1606.09375>`_. L is the ``laplacian`` operator, and :math:`T_k = 2 x T_{k-1} - T_{k-2}`.

    ``order`` counts the terms, as Eq. 4 is written: K terms, degree K - 1, K - 1 hops, and K = 1 looks at no neighbour.
    The paper's derivation of GCN ("K = 1") counts the degree instead; what it starts from is ``order=2`` here.

    The sum is evaluated by the three-term recursion on X or, where X W is the narrower or X is sparse, by Clenshaw's,
    the same backwards on the X W_k: K - 1 products with the operator. Both are stable for any order while the spectrum
    of the scaled Laplacian stays within [-1, 1], that is, while ``lambda_max`` is not below the true one. Many signals
    on a small graph are filtered in its frequencies: :math:`T_k(\tilde L) = U\, T_k(\tilde\Lambda)\, U^\top`, with
    eigenvectors U that are found once.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        order: K, the number of terms.
        lambda_max: a number, 2 being a bound for every graph; or ``"computed"``, the largest eigenvalue of the operator
            at hand, worked out when the layer first meets it. For disjoint graphs in one operator it is the largest
            of all, so what comes out for a graph then depends on its company: keep to 2 in batches of graphs.
        act: the non-linearity σ: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of the input features X is dropped while training; all terms see the
            same dropped X.
        bias: add a trained vector b.

    Shapes:
        - ``x``: (..., N, F_in) dense, or (N, F_in) sparse, never made dense.
        - output: (..., N, F_out).
        - ``weight``: (F_in, K, F_out), the W_k side by side; ``bias``: (F_out).

    Example:
        >>> import torch
        >>> conv = ChebConv(8, 16, order=3)
        >>> op = conv.operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> conv(torch.randn(3, 8), op).shape
        torch.Size([3, 16])
        >>> conv
        ChebConv(8, 16, order=3)
    """

    kind = "laplacian"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 2,
        lambda_max: float | Literal["computed"] = 2.0,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.order = checks.integer("order", order, 1)
        self.lambda_max: float | Literal["computed"] = "computed"
        if not (isinstance(lambda_max, str) and lambda_max == "computed"):
            self.lambda_max = checks.real("lambda_max", lambda_max, least=LEAST, extra=" or 'computed'")
        self.weight = Parameter(empty("weight", self.in_channels, self.order, self.out_channels))
        self.reset_parameters()

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        scale = self._scale(op)
        if isinstance(x, Tensor) and spectral_pays(
            op, x.shape[1], self.order - 1, (self.in_channels, self.out_channels)
        ):
            table = chebyshev(scale * spectrum(op).frequencies - 1.0, self.order - 1)
            return spectral(op, x, self.weight, table)
        return polynomial(op, scale, x, self.weight, None, self._filters_first(x))

    def _scale(self, op: GraphOperator) -> float:
        """Return 2 / λmax."""
        return 2.0 / (largest_eigenvalue(op) if self.lambda_max == "computed" else self.lambda_max)

    def _shown(self) -> dict[str, Any]:
        return {"order": self.order} | ({} if self.lambda_max == 2.0 else {"lambda_max": self.lambda_max})


@once_per_operator
def largest_eigenvalue(laplacian: GraphOperator) -> float:
    """Return λmax of a Laplacian, or 2 where all its eigenvalues are 0 and any scale will do.

    Example:
        >>> import torch
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> round(largest_eigenvalue(pair), 6)
        2.0
    """
    _, high = extremal_eigenvalues(laplacian.detach().require_symmetric("lambda_max='computed'"))
    return high if high > 1e-6 else 2.0
