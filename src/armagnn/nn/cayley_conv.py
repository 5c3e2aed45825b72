"""The Cayley layer of Levie et al. (Eqs. 17 and 18)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from armagnn import checks, kernels
from armagnn.errors import DTypeError, ParameterError
from armagnn.nn.cayley_transform import Jacobi, needed_degree, responses
from armagnn.nn.chebyshev_sum import chebyshev, chebyshev_coefficients, polynomial
from armagnn.nn.conv import Conv, empty, times
from armagnn.nn.layer_registry import register_layer
from armagnn.nn.spectral_form import spectral, spectral_blocks, spectral_pays, spectrum
from armagnn.operators import CSR, GraphOperator
from armagnn.torch_private import is_batched, traced

MOST_ZOOM: Final = 1e6
"""The largest zoom to start from, and the inverse of the least: beyond it float32 tells no frequencies apart."""

MOST_POWERS: Final = 50
"""The largest K of a layer."""

HIGHEST: Final = 1500
"""The highest degree K (T + 1) of a layer. How many terms float32 needs is worked out in seconds, once a process."""

GATHER: Final = 4
"""What a multiplication by a nonzero of the graph costs a processor, in multiplications by a weight."""


@register_layer("cayley", stacks="order", layers="jacobi")
class CayleyConv(Conv):
    r"""The Cayley convolution

    .. math::
        \bar X = \sigma\left( X C_0 + 2 \mathrm{Re} \sum_{j=1}^K \tilde{\mathcal C}^j X C_j + b \right), \qquad
        \tilde{\mathcal C} \approx (hL - iI)(hL + iI)^{-1},

    Eqs. 17 and 18 of the paper, from `CayleyNets <https://arxiv.org/abs/1705.07664>`_. L is the ``laplacian`` operator;
    its Cayley transform maps the frequencies to the unit circle, and the zoom h spreads the part of the spectrum near
    1/h over it. Eq. 17 has h = 1 and :math:`(L + iI)(L - iI)^{-1}`, the conjugate: the same layers with conjugate C_j.

    The weights C_1, ..., C_K are complex, as Levie et al. have them: each is a pair of real matrices, and C_0 is real.

    The transform of Y is the solution Z of (hL + iI) Z = (hL - iI) Y after T Jacobi iterations,

    .. math::
        Z^{(0)} = B = D^{-1} (hL - iI) Y, \qquad Z^{(t+1)} = B - D^{-1} (hL + iI - D) Z^{(t)},

    D being the diagonal of hL + iI. That is T + 1 products with L, so the layer reaches K (T + 1) hops. Without
    self-loops the error falls at least as fast as :math:`(|h| / \sqrt{h^2 + 1})^T`, slowly for a large zoom.

    Without self-loops L has ones on its diagonal, D is the number h + i, and the iterations are a polynomial in the
    real E = L - I: with :math:`u = (h - i)/(h + i)` and :math:`a = -h/(h + i)`,

    .. math::
        \tilde{\mathcal C} = p(E) = uI + (u - 1) \sum_{t=1}^T a^t E^t - a^{T+1} E^{T+1}.

    The layer is then a real polynomial of degree D = K (T + 1), and is evaluated as one: as a sum of Chebyshev
    polynomials,

    .. math::
        \bar X = \sigma\left( \sum_{n=0}^{D} T_n(E) X W_n + b \right), \qquad
        2 \mathrm{Re}\, p^j = \sum_n A_{n,2j-1} T_n, \quad -2 \mathrm{Im}\, p^j = \sum_n A_{n,2j} T_n, \quad
        W_n = \sum_c A_{nc} W_c,

    W_c being the 1 + 2 K real weights. That is D products with the real E, none of which depends on h or on the weights
    where F_in <= F_out (see `ChebConv`), for all powers together; or, for many signals on a small graph, and for
    batches of graphs whose spectra were found (`GraphBatches.find_spectra`), two products with the eigenvectors of L.
    In float32 the sum ends where, whatever h is, it would see no more of it (`needed_degree`): with K = 12 and T = 11,
    at degree 65 of 144.

    With self-loops, with directed edges (whose complex frequencies lie where Chebyshev polynomials are large) or with
    new values in the operator, the iterations run as they stand, which costs more.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        order: K, the highest power; there are K complex weights besides C_0.
        jacobi: T, the Jacobi iterations for each power.
        zoom: h, or where it starts if it is trained. Any real number is sound: -h is the conjugate of h.
        train_zoom: train h with the weights; otherwise it is a buffer.
        act: the non-linearity σ: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of the input features X is dropped while training; all powers see the
            same dropped X.
        bias: add a trained vector b.

    Shapes:
        - ``x``: (..., N, F_in) dense, or (N, F_in) sparse, never made dense.
        - output: (..., N, F_out).
        - ``weight``: (F_in, 1 + 2 K, F_out): C_0, Re C_1, Im C_1, Re C_2, ...; ``bias``: (F_out); ``zoom``: ().

    Example:
        >>> import torch
        >>> conv = CayleyConv(8, 16, order=2)
        >>> op = conv.operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> conv(torch.randn(3, 8), op).shape
        torch.Size([3, 16])
        >>> conv
        CayleyConv(8, 16, order=2, jacobi=5)
    """

    kind = "laplacian"
    zoom: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 1,
        jacobi: int = 5,
        zoom: float = 1.0,
        train_zoom: bool = True,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.order, self.jacobi = checks.integer("order", order, 1, MOST_POWERS), checks.integer("jacobi", jacobi, 1)
        if self.order * (self.jacobi + 1) > HIGHEST:
            raise ParameterError(
                f"order={self.order} and jacobi={self.jacobi} make a polynomial of degree order * (jacobi + 1) = "
                f"{self.order * (self.jacobi + 1)}; the highest degree is {HIGHEST}."
            )
        self.initial_zoom = checks.real("zoom", zoom, least=1 / MOST_ZOOM, most=MOST_ZOOM)
        needed_degree(self.jacobi, self.order)  # to be known when the layer is compiled
        self.weight = Parameter(empty("weight", self.in_channels, 1 + 2 * self.order, self.out_channels))
        if checks.flag("train_zoom", train_zoom):
            self.zoom = Parameter(torch.empty(()))
        else:
            self.register_buffer("zoom", torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform), set the bias to zero and the zoom to where it starts."""
        super().reset_parameters()
        with torch.no_grad():
            self.zoom.fill_(self.initial_zoom)

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        if not is_polynomial(op):
            return self._iterated(x, Jacobi(op, self.zoom, self.jacobi))
        if isinstance(x, Tensor) and op.blocks is not None and not traced():
            return spectral_blocks(op.blocks, x, self.weight, self._table(op.blocks.frequencies - 1.0, op.dtype))
        channels, degree = (self.in_channels, self.out_channels), self._degree(op.dtype)
        if isinstance(x, Tensor) and spectral_pays(op, x.shape[1], degree, channels):
            return spectral(op, x, self.weight, self._responses(spectrum(op).frequencies - 1.0))
        return polynomial(op, 1.0, x, self.weight, self._coefficients(op.dtype), self._terms_first(x, op))

    def _terms_first(self, x: Tensor | CSR, op: GraphOperator) -> bool:
        """Return whether to multiply the D + 1 terms T_n X by weights, or X by 1 + 2 K of them."""
        if not self._filters_first(x):
            return False
        if traced() or x.device.type != "cpu" or not is_batched(x):
            return True
        # a processor multiplies the many small matrices of trials slowly: the fewer the better
        degree, near = self._degree(op.dtype), op.nnz / max(1, op.num_nodes)
        fin, count, fout = self.weight.shape
        terms = GATHER * degree * near * fin + (degree + 1) * fin * fout
        return terms <= GATHER * degree * (near + 2) * fout + count * fout * (fin + degree + 1)

    def _degree(self, dtype: torch.dtype) -> int:
        """The degree of the layer as a polynomial of L: K (T + 1), or as much of it as the type can see."""
        return self.order * (self.jacobi + 1) if dtype == torch.float64 else needed_degree(self.jacobi, self.order)

    def _responses(self, e: Tensor) -> Tensor:
        return responses(self.zoom, self.jacobi, self.order, e)

    def _table(self, e: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the responses at many frequencies 1 + e, shape (M, 1 + 2 K), from those at few."""
        return kernels.product(chebyshev(e, self._degree(dtype)).to(dtype), self._coefficients(dtype).to(dtype))

    def spectral_degree(self, op: GraphOperator) -> int:
        """The degree of the layer as a polynomial of that operator; 0 if it is none."""
        return self._degree(op.dtype) if is_polynomial(op) else 0

    def _coefficients(self, dtype: torch.dtype) -> Tensor:
        """Return the coefficients, shape (D + 1, 1 + 2 K), of the responses in Chebyshev polynomials of L - I."""
        found = chebyshev_coefficients(self._responses, self._degree(torch.float64), self.zoom.device)
        return found[: self._degree(dtype) + 1]

    def _iterated(self, x: Tensor | CSR, transform: Jacobi) -> Tensor:
        """Return the filter, power by power."""
        # 2 Re(C Y) = 2 Re C Re Y - 2 Im C Im Y; the factors go to the weights, which are small
        fin, fout, order = self.in_channels, self.out_channels, self.order
        first, rest = self.weight[:, 0], 2.0 * self.weight[:, 1:].reshape(fin, order, 2, fout)
        if isinstance(x, Tensor) and self._filters_first(x):
            powers = [x.unsqueeze(3)]
            for _ in range(order):
                powers.append(transform(powers[-1]))
            signs = 1.0 - 2.0 * torch.arange(2, dtype=rest.dtype, device=rest.device).unsqueeze(1)
            weight = torch.cat([(rest * signs).transpose(0, 1).flatten(0, 2), first])
            # X last: gradients of the others then are at even places, over which complex numbers fit
            return times(torch.cat([power.flatten(2) for power in (*powers[1:], powers[0])], 2), weight)
        products = times(x, torch.cat([rest.transpose(2, 3).flatten(1), first], 1))
        pairs = products[..., :-fout].reshape(*products.shape[:2], order, fout, 2)
        return products[..., -fout:] + horner(transform, pairs.unbind(2))

    def _shown(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"order": self.order, "jacobi": self.jacobi}
        settings |= {} if self.initial_zoom == 1.0 else {"zoom": self.initial_zoom}
        return settings | ({} if isinstance(self.zoom, Parameter) else {"train_zoom": False})


def is_polynomial(op: GraphOperator) -> bool:
    """Return whether the layer is evaluated as a sum of Chebyshev polynomials of L - I.

    It is one wherever the diagonal of L is one. But where L is not symmetric its frequencies may be complex, where
    Chebyshev polynomials of a high degree are huge and cancel, while Jacobi's iterations stay small.
    """
    if not isinstance(op, GraphOperator):
        raise DTypeError(f"op must be a GraphOperator of kind 'laplacian', got {type(op).__name__}.")
    return op.unit_diagonal and op.symmetric


def horner(transform: Jacobi, products: Sequence[Tensor]) -> Tensor:
    """Return the real part of the sum of C^j X C_j, j >= 1, from the complex X C_j, each (N, batch, F, 2)."""
    *lower, state = products
    for product in reversed(lower):
        state = product + transform(state)
    return transform(state)[..., 0]
