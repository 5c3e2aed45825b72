"""How many eigenvalues lie where, for graphs of any size, from products with random signals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import LARGEST, integer, real, real_tensor
from armagnn.errors import GraphError, ShapeError
from armagnn.filters.chebyshev import jackson_damping
from armagnn.filters.drawing import draw
from armagnn.operators import GraphOperator
from armagnn.solvers.eigen import check_graph

MOST: Final = 10**5
"""Moments; more are a slip."""
MARGIN: Final = 1e-6
"""Room beyond the ends, where 1 / sqrt(1 - t²) would divide by zero."""


@checked
@dataclass(frozen=True)
class Density:
    r"""The distribution of the eigenvalues: :math:`\rho(\mu) \ge 0` with integral 1 over the operator's range.

    Attributes:
        moments: :math:`\frac{1}{N} \mathrm{tr} \, T_k(t)`, shape (K), damped; t is mu scaled to [-1, 1].
        low, high: the range of the eigenvalues.
        symbol: what they are: ``mu``, which are ``high - lambda``, or the ``lambda`` of a Laplacian.
    """

    moments: Tensor
    low: float
    high: float
    symbol: str = "mu"

    def __post_init__(self) -> None:
        real("high", self.high, above=real("low", self.low))
        real_tensor("moments", self.moments, "(K)")
        if not len(self.moments):
            raise ShapeError("moments must hold one number or more, got none.")

    def __call__(self, mu: Tensor) -> Tensor:
        """Return the density at ``mu``, which is 0 outside the range."""
        t = self._scaled(mu)
        inside = t.abs() < 1 - MARGIN
        angle = torch.acos(t.clamp(-1 + MARGIN, 1 - MARGIN))
        k = torch.arange(len(self.moments), dtype=torch.float64)
        weight = torch.where(k == 0, 1.0, 2.0) * self.moments
        series = (torch.cos(angle.unsqueeze(-1) * k) @ weight).clamp(min=0.0)
        slope = 2 / (self.high - self.low)
        return torch.where(inside, slope * series / (torch.pi * torch.sin(angle)), 0.0)

    @checked
    def count(self, mu: Tensor) -> Tensor:
        """Return the share of eigenvalues that are at most ``mu``, from 0 to 1."""
        angle = torch.acos(self._scaled(mu).clamp(-1, 1))
        k = torch.arange(1, len(self.moments), dtype=torch.float64)
        below = (torch.pi - angle) * self.moments[0] - torch.sin(angle.unsqueeze(-1) * k) @ (2 * self.moments[1:] / k)
        return (below / torch.pi).clamp(0.0, 1.0)

    def _scaled(self, mu: Tensor) -> Tensor:
        return (2 * mu.to("cpu", torch.float64) - (self.high + self.low)) / (self.high - self.low)

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the density over lambda, low frequencies on the left, and return the matplotlib axes."""
        shift = None if self.symbol == "lambda" else (self.low + self.high) / 2
        name = "density of eigenvalues"
        return draw(lambda mu: self(torch.from_numpy(mu)).numpy(), shift, ax=ax, y_label=name, **style)


@checked
def spectral_density(op: GraphOperator, moments: int = 100, probes: int = 10, seed: int = 0) -> Density:
    r"""Return the density of an operator's eigenvalues, :math:`\rho(\mu) = \frac{1}{N} \sum_m \delta(\mu - \mu_m)`.

    The kernel polynomial method: the moments :math:`\mathrm{tr} \, T_k(M)` are estimated with random signs z,
    :math:`E[z^T T_k(M) z]`, and Jackson's damping smooths every eigenvalue over a width of about
    :math:`\pi / \text{moments}`. It takes ``moments / 2`` products with ``probes`` signals (two moments from each), so
    millions of edges are fine; the error falls like :math:`1 / \sqrt{N \cdot \text{probes}}`.

    Args:
        op: a symmetric operator: ``arma`` or ``gcn`` (mu in [-1, 1], or what ``lambda_min`` and ``lambda_max`` made of
            it) or ``laplacian`` (lambda in [0, 2]).
        moments: K, the resolution.
        probes: random signals, at least 1.
        seed: of the random signs.

    Example:
        >>> ring = torch.arange(5000)
        >>> edges = torch.stack([torch.cat([ring, (ring + 1) % 5000]), torch.cat([(ring + 1) % 5000, ring])])
        >>> density = spectral_density(GraphOperator.from_edge_index(edges), moments=40)
        >>> round(float(density.count(torch.tensor(0.0))), 2)      # the eigenvalues are cosines: half below 0
        0.5
    """
    check_graph(op).require_symmetric("a spectral density")
    if op.total_nodes == 0:
        raise GraphError("the graph has no nodes, so it has no spectrum.")
    if op.kind not in RANGES:
        raise GraphError(
            f"the density needs eigenvalues in a known range, and those of kind {op.kind!r} may lie anywhere: build "
            f"the operator as one of {', '.join(RANGES)}."
        )
    moments, probes = (
        integer("moments", moments, 2, MOST),
        integer("probes", probes, 1, max(1, LARGEST // op.total_nodes)),
    )
    seed = integer("seed", seed, -(2**63), 2**64 - 1)
    low, high = (end + op.known_shift() for end in RANGES[op.kind])
    op, n = op.detach(), op.total_nodes
    generator = torch.Generator().manual_seed(seed)
    own = slice(op.first_node, op.first_node + op.num_nodes)  # of nodes that many ranks share
    signs = torch.randint(0, 2, (n, probes), generator=generator)[own].to(op.device, op.dtype) * 2 - 1
    middle = (low + high) / 2  # half the range is 1 for every kind
    found = torch.zeros(moments, dtype=torch.float64)
    found[0] = 1.0
    before, now = signs, op @ signs - middle * signs
    scale = 1.0 / (n * probes)
    for k in range(1, moments // 2 + 1):
        # T_2k-1 = 2 T_k T_k-1 - T_1 and T_2k = 2 T_k² - 1: two moments from one product
        for index, product in ((2 * k - 1, now * before), (2 * k, now * now)):
            if index < moments:
                raw = float(op.total(product.double().sum())) * scale
                if not abs(raw) <= 1.001:
                    raise GraphError(
                        f"the operator has eigenvalues beyond [{low:g}, {high:g}] or holds NaN: build it anew."
                    )
                found[index] = raw if index == 1 else 2 * raw - float(found[index % 2])
        before, now = now, 2 * (op @ now - middle * now) - before
    return Density(found * jackson_damping(moments), low, high, "lambda" if op.kind == "laplacian" else "mu")


RANGES: Final = {"arma": (-1.0, 1.0), "gcn": (-1.0, 1.0), "laplacian": (0.0, 2.0)}
