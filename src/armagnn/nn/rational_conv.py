"""The rational layer: Eqs. 6 to 13 exactly, with poles and residues that are trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from armagnn import checks, kernels
from armagnn.errors import GraphError, ParameterError
from armagnn.filters import ARMAFilter
from armagnn.filters.base import Array, evaluate
from armagnn.filters.drawing import small_curve
from armagnn.filters.recursion import recursion
from armagnn.nn import pole_parameters
from armagnn.nn.chebyshev_sum import chebyshev_coefficients, series
from armagnn.nn.conv import Conv, empty, times
from armagnn.nn.layer_registry import register_layer
from armagnn.nn.spectral_form import spectral_can, spectral_pays, spectrum
from armagnn.operators import CSR, GraphOperator
from armagnn.solvers import Statistics
from armagnn.solvers.conjugate_gradients import MAX_ITER, TOLERANCE
from armagnn.solvers.partial_fractions import partial_fractions
from armagnn.torch_private import as_they_are, learned, refuse_transforms, traced

METHODS: Final = ("auto", "exact", "series", "recursion", "eigen")

SMALL: Final = 256
"""Nodes of a graph that is always filtered in its frequencies: they are found in milliseconds."""

TYPICAL: Final = 64
"""Steps that conjugate gradients take, about; what filtering in the frequencies is compared with."""

LARGEST: Final = 10_000
"""Nodes of a graph whose frequencies are found if somebody asks for them."""


@register_layer("rational", stacks="order")
class RationalConv(Conv):
    r"""The rational convolution

    .. math::
        \bar X = \sigma\left( h(M) X W + b \right), \qquad
        h(\mu) = c + \sum_{k=1}^K \frac{b_k}{1 - a_k \mu},

    Eqs. 6 to 13 of the paper without the truncation of Eq. 14: the ARMA filter itself, whose poles :math:`1/a_k`,
    residues b_k and constant c are trained. M is the ``arma`` operator of an undirected graph. Poles are real or come
    in conjugate pairs, as the initial design has them. They cannot reach [-1, 1], where frequencies lie: the parameters
    are a map of the plane without [-1, 1] (see `armagnn.nn.pole_parameters`).

    =============  =============================================================================  ======================
    method         how                                                                            limits
    =============  =============================================================================  ======================
    ``exact``      conjugate gradients for all poles in one Krylov space                          first derivatives
    ``series``     the response's Chebyshev series, cut where no term left exceeds ``tol``        long near R = 1
    ``recursion``  :math:`\bar X^{(t+1)} = a M \bar X^{(t)} + b X` (Eq. 8) until it stands still  \|a\| < 1; no vmap
    ``eigen``      :math:`U\, \mathrm{diag}(h(\mu))\, U^\top X`, the vectors found once           10,000 nodes
    ``auto``       ``eigen`` for small graphs, many signals on one graph and batches whose
                   spectra are known; ``series`` where ``radius`` bounds it by 64 terms;
                   else ``exact``
    =============  =============================================================================  ======================

    The gradient of ``exact`` comes from a second solve, not from the steps, so memory does not grow with them. It
    reaches x, poles, residues and edge weights. ``series`` has the same length whatever the poles are, because R bounds
    how slowly its terms fall; it waits for no norm, so a GPU records it with the rest of a training step.

    Args:
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output.
        order: K, the number of poles; a conjugate pair counts as two. The response has 2 K + 1 coefficients.
        init: where the response starts: a name or a function of mu or samples, as `ARMAFilter.design` takes them; a
            list of K poles, with residues fitted to a low-pass; or an `ARMAFilter` of K terms (and a constant one).
        groups: number of responses; each serves out_channels / groups neighbouring channels. All start alike.
        learn_poles: train the poles with the residues; otherwise they are a buffer.
        method: how the response is applied.
        tol: relative residual of a solve; by default 1e-12 in float64 and 1e-6 in float32.
        max_iter: steps after which a solve stops, with a warning.
        radius: R in (0, 1), how near poles may come, 2 R / (1 + R²) bounding \|a\|: a solve takes about
            log(tol) / log(R) products at most, and a series exactly as many.
        act: the non-linearity σ: a name, a callable, or None for a linear layer.
        dropout: probability with which an entry of the input features X is dropped while training.
        bias: add a trained vector b.

    Shapes:
        - ``x``: (..., N, F_in) dense, or (N, F_in) sparse, never made dense.
        - output: (..., N, F_out).
        - ``weight``: (F_in, F_out); ``pole``, ``residue``: (groups * K); ``constant``: (groups); ``bias``: (F_out).

    Example:
        >>> import torch
        >>> conv = RationalConv(8, 16, order=4, method="exact")
        >>> op = conv.operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
        >>> conv(torch.randn(3, 8), op).shape
        torch.Size([3, 16])
        >>> conv.statistics.converged
        [True, True]
        >>> conv
        RationalConv(8, 16, order=4, method='exact')
        >>> conv.response([-1.0, 0.5, 1.0]) > 0.5
        array([False,  True,  True])
    """

    kind = "arma"
    pole: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        order: int = 4,
        init: Any = "low-pass",
        groups: int = 1,
        learn_poles: bool = True,
        method: Literal["auto", "exact", "series", "recursion", "eigen"] = "auto",
        tol: float | None = None,
        max_iter: int = MAX_ITER,
        radius: float = 0.99,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__(in_channels, out_channels, act, dropout, bias)
        self.order, self.init = pole_parameters.check_order(order), init
        self.groups = checks.integer("groups", groups, 1)
        if self.out_channels % self.groups:
            raise ParameterError(f"groups must divide out_channels={self.out_channels}, got {self.groups}.")
        self.method = checks.choice("method of RationalConv", method, METHODS)
        self.tol = None if tol is None else checks.real("tol", tol, above=0, below=1)
        self.max_iter = checks.integer("max_iter", max_iter, 1)
        self.radius = checks.real("radius", radius, above=0, below=1)
        with torch.device("cpu"):  # a design has numbers, also for a layer on the device "meta"
            self._start = pole_parameters.start(init, self.order, self.radius)
        self.statistics: Statistics | None = None
        """How the last solve went, its backward pass included; None before, and for ``series`` and ``eigen``."""
        self.weight = Parameter(empty("weight", self.in_channels, self.out_channels))
        with checks.room("pole", self.groups, self.order):
            pole = torch.empty(self.groups * self.order)
        if checks.flag("learn_poles", learn_poles):
            self.pole = Parameter(pole)
        else:
            self.register_buffer("pole", pole)
        self.residue = Parameter(torch.empty(self.groups * self.order))
        self.constant = Parameter(torch.empty(self.groups))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights anew (Glorot, uniform), set the bias to zero and the response to where it starts."""
        super().reset_parameters()
        with torch.no_grad():
            self.pole.copy_(self._start.pole.repeat(self.groups))
            self.residue.copy_(self._start.residue.repeat(self.groups))
            self.constant.fill_(self._start.constant)

    # ------------------------------------------------------------------------------------------------------- response

    def _fractions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return a and b, shape (P, 2, groups), and the constants (groups), float64."""
        shape, pairs = (self.groups, self.order), self._start.pairs
        a = pole_parameters.factors(self.pole.view(shape), pairs, self.radius)
        return a, pole_parameters.numbers(self.residue.view(shape), pairs), self.constant.double()

    @property
    def poles(self) -> Tensor:
        """The poles 1 / a, shape (order), or (groups, order); those of a pair stand side by side."""
        a, pairs = self._fractions()[0], self._start.pairs
        p = 1 / torch.complex(a[:, 0], a[:, 1]).T
        both = torch.stack([p[:, :pairs], p[:, :pairs].conj()], 2).flatten(1)
        found = torch.cat([both, torch.complex(p[:, pairs:].real, torch.zeros_like(p[:, pairs:].real))], 1)
        return found.squeeze(0) if self.groups == 1 else found

    def response(self, mu: Tensor | Array | list[float] | float) -> Tensor | Array:
        """Return h(mu): a tensor, differentiable, for a tensor, else an array. Several groups are the first axis."""

        def evaluated(mu: Tensor) -> Tensor:
            table = pole_parameters.response(*self._fractions(), mu.double().reshape(-1)).to(mu.dtype)
            return table.T.reshape(mu.shape if self.groups == 1 else (self.groups, *mu.shape))

        return evaluate(evaluated, mu)

    def filter(self, group: int = 0) -> ARMAFilter:
        """Return the response of a group as a filter, with the constant as a term of a = 0; without gradients.

        Example:
            >>> conv = RationalConv(1, 1, order=2, init="heat")
            >>> conv.filter().order
            3
        """
        group = checks.integer("group", group, 0, self.groups - 1)
        with torch.no_grad():
            a, b, constant = (t[..., group] for t in self._fractions())
        pairs = self._start.pairs
        numbers = []
        for t, share in ((torch.complex(a[:, 0], a[:, 1]), 1.0), (torch.complex(b[:, 0], b[:, 1]), 0.5)):
            both = share * torch.stack([t[:pairs], t[:pairs].conj()], 1).flatten()
            numbers.append(torch.cat([both, t[pairs:]]))
        last = torch.zeros(1, dtype=numbers[0].dtype, device=a.device)
        a, b = torch.cat([numbers[0], last]), torch.cat([numbers[1], last + constant])
        return ARMAFilter(a, b) if pairs else ARMAFilter(a.real, b.real)

    def plot(self, ax: Any = None, mu: Any = None, **style: Any) -> Any:
        """Draw the responses over lambda and return the matplotlib axes; arguments as of `Filter.plot`."""
        for group in range(self.groups):
            ax = self.filter(group).plot(ax, mu, **style)
        return ax

    # ------------------------------------------------------------------------------------------------------ filtering

    def _filter(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        op.require_symmetric("RationalConv")
        if isinstance(x, Tensor) and self.groups == 1 and self._filters_first(x):
            return times(self._filtered(x, op), self.weight)
        return self._filtered(times(x, self.weight), op)

    def _filtered(self, y: Tensor, op: GraphOperator) -> Tensor:
        """Return h(M) Y for Y of shape (N, batch, F), of each channel by the response of its group."""
        wide = torch.promote_types(op.dtype, torch.float32)
        given, y = y.dtype, y.to(wide)
        a, b, constant = self._fractions()
        channels = y.shape[2] // self.groups
        with as_they_are(y.device):
            if self._by_frequencies(op, y):
                mu = spectrum(op).frequencies if op.blocks is None else op.blocks.frequencies
                table = pole_parameters.response(a, b, constant, mu).repeat_interleave(channels, 1)
                return _in_frequencies(op, y, table.to(wide).unsqueeze(1)).to(given)
            if self._by_series(wide):
                return self._in_series(op.to(wide), y, a, b, constant).to(given)
            a, b, c = (_columns(t, channels, y.shape[1]) for t in (a, b, constant))
            flat = y.flatten(1)
            log: list[Statistics] = []
            if self.method == "recursion":
                out = self._by_recursion(op.to(wide), flat, a, b, log)
            else:
                out = partial_fractions(op.to(wide), flat, a, b, self.tol, self.max_iter, log)
            out = out + c.to(wide) * flat
        if log:
            self.statistics = log[-1]
        return out.reshape(y.shape).to(given)

    def _by_frequencies(self, op: GraphOperator, y: Tensor) -> bool:
        if self.method == "eigen":
            if traced() or learned(op.value):
                raise GraphError("method='eigen' gives no gradient for edge weights and does not compile: use 'exact'.")
            if op.num_nodes > LARGEST:
                raise GraphError(
                    f"method='eigen' needs at most {LARGEST} nodes, got {op.num_nodes}: use method='exact'."
                )
            return True
        if self.method != "auto" or traced():
            return False
        if op.blocks is not None:
            return True
        small = op.num_nodes <= SMALL and spectral_can(op)
        return small or spectral_pays(op, y.shape[1], TYPICAL, (y.shape[2], y.shape[2]))

    def _by_series(self, wide: torch.dtype) -> bool:
        return self.method == "series" or (self.method == "auto" and self._terms(wide) <= TYPICAL)

    def _terms(self, dtype: torch.dtype) -> int:
        """Return the degree of the series that a response with all poles at the radius needs."""
        tol = self.tol if self.tol is not None else TOLERANCE[dtype]
        return pole_parameters.most_steps(self.radius, tol)

    def _in_series(self, op: GraphOperator, y: Tensor, a: Tensor, b: Tensor, constant: Tensor) -> Tensor:
        """Return h(M) Y by the Chebyshev series of each group's response."""
        degree = self._terms(y.dtype)
        table = chebyshev_coefficients(lambda mu: pole_parameters.response(a, b, constant, mu), degree, y.device)
        table = table.squeeze(1) if self.groups == 1 else table.repeat_interleave(y.shape[2] // self.groups, 1)
        return series(op, y, table.to(y.dtype))

    def spectral_degree(self, op: GraphOperator) -> int:
        """The degree of a polynomial of that operator that costs what the layer does, about; 0 where it is to solve."""
        return TYPICAL if self.method in ("auto", "eigen") and op.symmetric else 0

    def _by_recursion(self, op: GraphOperator, y: Tensor, a: Tensor, b: Tensor, log: list[Statistics]) -> Tensor:
        refuse_transforms("RationalConv with method='recursion'")
        size = max(torch.hypot(a[:, 0], a[:, 1]).detach().flatten().tolist(), default=0.0)
        if size >= 1:
            raise ParameterError(
                f"method='recursion' needs |a| < 1 and this response has |a| = {size:.4g}: use method='exact'."
            )
        if learned(op.value):
            raise GraphError("method='recursion' gives no gradient for edge weights: use method='exact'.")
        repeated = y.unsqueeze(1).expand(-1, len(a), -1).flatten(1)
        z, statistics = recursion(op, torch.complex(a[:, 0], a[:, 1]).flatten(), repeated, self.tol, self.max_iter)
        log.append(statistics)
        z, b = z.view(len(y), len(a), y.shape[1]), b.to(y.dtype)
        return torch.sum(z.real * b[:, 0] - z.imag * b[:, 1], 1)

    def _picture(self) -> str:
        return "".join(small_curve(self.filter(group).response) for group in range(min(self.groups, 3)))

    def _shown(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"order": self.order}
        if not (isinstance(self.init, str) and self.init == "low-pass"):
            settings["init"] = self.init if isinstance(self.init, str) else "given"
        settings |= {} if self.groups == 1 else {"groups": self.groups}
        settings |= {} if isinstance(self.pole, Parameter) else {"learn_poles": False}
        return settings | ({} if self.method == "auto" else {"method": self.method})


def _columns(t: Tensor, channels: int, batch: int) -> Tensor:
    """Return the numbers of each column, shape (..., batch × groups × channels), from those of groups (..., groups)."""
    each = t.unsqueeze(-1).expand(*t.shape, channels).flatten(-2)
    return each.unsqueeze(-2).expand(*t.shape[:-1], batch, each.shape[-1]).flatten(-2)


def _in_frequencies(op: GraphOperator, y: Tensor, table: Tensor) -> Tensor:
    r"""Return :math:`U (\hat H \odot U^\top Y)` for Y of shape (N, batch, F) and responses of shape (N, 1, F or 1)."""
    flat = y.flatten(1)
    if op.blocks is not None:
        blocks = op.blocks.vectors
        store = blocks.store.dtype
        transformed = kernels.block_product(blocks, flat.to(store), transposed=True).view(y.shape)
        return kernels.block_product(blocks, (table * transformed).flatten(1).to(store)).view(y.shape)
    vectors = spectrum(op).vectors.to(y.dtype)
    transformed = (vectors.t() @ flat).view(y.shape)
    return (vectors @ (table * transformed).flatten(1)).view(y.shape)
