"""Training the two methods with poles on images, both by gradient: rational filters, and the layer of Eq. 14."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.bench.grid_filters import Array, GridData, Reduced
from armagnn.filters.design import PoleFit
from armagnn.operators import GraphOperator

RADIUS: Final = 0.95
"""How near the poles of a rational filter may come to the frequencies, as |w|."""

DEGREE: Final = 512
"""Terms of the Chebyshev series that stand for a rational filter in training: 0.95^512 is 4e-12."""

CONDITION: Final = 1e-11
"""Directions of the coefficients that change the loss by less than this, relatively, are left alone."""

STEPS: Final = 2000
RATES: Final = (0.01, 0.1)
"""Of Adam."""


class MaskedFit(PoleFit):
    r"""The masked squared error of an image as a function of the poles of a rational filter.

    With :math:`p = (w + 1/w) / 2` a term is the series :math:`1 / (1 - \mu / p) = s (1 + 2 \sum_j w^j T_j(\mu))`,
    :math:`s = (1 + w^2) / (1 - w^2)`.

    Args:
        r: of `reduce_loss`, for the columns :math:`T_j(M) x`, (P, P).
        q: for the filter, (P).
        pairs: the number of conjugate pairs of poles.
        real: the number of real poles.
    """

    def __init__(self, r: Array, q: Array, pairs: int, real: int) -> None:
        super().__init__(q, pairs, real, RADIUS, CONDITION)
        self.r, self.powers = r, np.arange(r.shape[1])[:, None]

    def terms(self, w: Array) -> Array:
        """Return the column of each pole."""
        return self._times(self._series(w) * ((1 + w * w) / (1 - w * w)))

    def slopes(self, w: Array) -> Array:
        """Return their derivatives by w."""
        series, scale = self._series(w), (1 + w * w) / (1 - w * w)
        down = 2.0 * self.powers * w ** np.maximum(self.powers - 1, 0)
        return self._times(series * (4 * w / (1 - w * w) ** 2) + scale * down)

    def more(self) -> Array:
        """Return the column of the constant."""
        return self.r[:, :1]

    def _series(self, w: Array) -> Array:
        series = 2.0 * np.asarray(w, dtype=np.complex128) ** self.powers
        series[0] = 1.0
        return series

    def _times(self, columns: Array) -> Array:
        both = self.r @ np.concatenate([columns.real, columns.imag], 1)
        half = columns.shape[1]
        return np.array(both[:, :half] + 1j * both[:, half:])


@dataclass(frozen=True, eq=False)
class Fractions:
    """A rational filter: a and b, complex, one for a pair of poles, and the constant."""

    a: Array
    b: Array
    constant: float


def fit_rational(loss: Reduced, which: int, order: int, starts: Sequence[tuple[int, Array]]) -> tuple[int, Array]:
    """Return the pairs and parameters of the poles with the lowest loss, from given starts and from even ones.

    Args:
        loss: of `reduce_loss`, for Chebyshev columns.
        which: the number of the filter.
        order: K.
        starts: pairs and parameters of other trainings; without any, starts are spread evenly.
    """
    q, given = loss.q[:, which], list(starts)
    if not given:
        for pairs in range(order // 2, max(order // 2 - 2, -1), -1):
            given += [(pairs, start) for start in MaskedFit(loss.r, q, pairs, order - 2 * pairs).even()]
    found = []
    for pairs, start in given:
        cost, theta = MaskedFit(loss.r, q, pairs, order - 2 * pairs).move(start)
        found.append((cost, pairs, theta))
    _, pairs, theta = min(found, key=lambda one: one[0])
    return pairs, theta


def fractions(loss: Reduced, which: int, order: int, pairs: int, theta: Array) -> Fractions:
    """Return poles and residues of a training."""
    problem = MaskedFit(loss.r, loss.q[:, which], pairs, order - 2 * pairs)
    w, (_, c, _) = problem.poles(theta), problem.fit(theta)
    b = np.concatenate([c[:pairs] + 1j * c[pairs : 2 * pairs], c[2 * pairs : order]])
    return Fractions(2 * w / (1 + w * w), b, float(c[order]))


def descend(loss: Reduced, order: int) -> list[Fractions]:
    """Return what Adam finds for each filter, from poles spread evenly and from h = 1, with the better learning rate.

    The parameters are those of `armagnn.nn.RationalConv` of an even order.
    """
    filters, pairs = loss.q.shape[1], order // 2
    r, q = torch.from_numpy(loss.r), torch.from_numpy(loss.q)
    powers = torch.arange(r.shape[1], dtype=r.dtype).view(-1, 1, 1)
    angle = (torch.arange(pairs, dtype=r.dtype) + 0.5) * (np.pi / pairs)
    w = torch.polar(torch.full_like(angle, 0.5 * RADIUS), angle)
    u = torch.view_as_real(w / (RADIUS**2 - w.abs().square()).sqrt())

    def factor(u: Tensor) -> Tensor:
        scaled = RADIUS * u * torch.rsqrt(1 + u.square().sum(-1, keepdim=True))
        return torch.view_as_complex(scaled)

    def error(u: Tensor, b: Tensor, constant: Tensor) -> Tensor:
        w = factor(u)
        series = torch.polar(w.abs() ** powers, w.angle() * powers) * 2.0
        scale = torch.view_as_complex(b) * (1 + w * w) / (1 - w * w)
        summed = (series * scale).real.sum(-1)  # (P, filters)
        first = 0.5 * summed[:1] + constant
        return (r @ torch.cat([first, summed[1:]]) - q).square().sum(0)

    best: list[tuple[float, Fractions]] = []
    for rate in RATES:
        parameters = [u.expand(filters, -1, -1).clone(), torch.zeros(filters, pairs, 2).double(), torch.ones(filters)]
        leaves = [parameter.double().requires_grad_() for parameter in parameters]
        optimizer = torch.optim.Adam(leaves, lr=rate)
        for _ in range(STEPS):
            optimizer.zero_grad()
            error(*leaves).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            left, w, b = error(*leaves).tolist(), factor(leaves[0]), torch.view_as_complex(leaves[1].detach())
            a, c = 2 * w / (1 + w * w), leaves[2].tolist()
        own = [Fractions(a[k].numpy(), b[k].numpy(), c[k]) for k in range(filters)]
        pairs_of = list(zip(left, own, strict=True))
        best = [min(one) for one in zip(best, pairs_of, strict=True)] if best else pairs_of
    return [found for _, found in best]


# ----------------------------------------------------------------------------------------------------------------- ARMA


ARMA_STEPS: Final = 500
"""Steps of Adam: a quarter of those of the other methods, whose training is faster."""

ARMA_LAYERS: Final = 10
"""T."""


def train_arma(data: GridData, count: int) -> Array:
    """Return the squared errors (5, B) that Adam reaches; every image and filter has weights of its own.

    The weights count that had the lowest loss on the way.
    """
    images = data.images.shape[1]
    edges = torch.from_numpy(np.concatenate([data.edges, data.edges[:, ::-1]]).T.astype(np.int64))
    op = GraphOperator.from_edge_index(edges, len(data.images), dtype=torch.float32)
    stacks, trials = count // 3, images * len(data.targets)
    x = torch.from_numpy(data.images.T).float().repeat(len(data.targets), 1)  # a trial is a filter, then an image
    y = torch.from_numpy(np.concatenate([target.T for target in data.targets.values()])).float()
    inside = torch.from_numpy(data.mask)
    lowest = torch.full((trials,), torch.inf)
    for rate in RATES:
        generator = torch.Generator().manual_seed(0)
        w, v, out = (torch.rand(trials, stacks, generator=generator) for _ in range(3))
        w, v, out = leaves = [t.requires_grad_() for t in (0.9 * (2 * w - 1), v, 2 * out - 1)]
        optimizer = torch.optim.Adam(leaves, lr=rate)
        for _ in range(ARMA_STEPS):
            optimizer.zero_grad()
            left = (relu_stacks(op, x, w, v, out) - y)[:, inside].square().sum(1)
            lowest = torch.minimum(lowest, left.detach())
            left.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    found: Array = lowest.view(len(data.targets), images).double().numpy()
    return found


def relu_stacks(op: GraphOperator, x: Tensor, w: Tensor, v: Tensor, out: Tensor, steps: int = ARMA_LAYERS) -> Tensor:
    r"""Return :math:`\sum_k o_k \bar X_k^{(T)}` of Eq. 14 with one feature, shape (R, N), for weights (R, K).

    It is `ARMAConv` with ``init="tied"``, but for the weights o in the place of the mean of the stacks.
    """
    skip = x.T.unsqueeze(2) * v  # (N, R, K)
    state = skip
    for _ in range(steps):
        state = torch.relu((op @ (state * w if state is not skip else state).flatten(1)).view_as(skip) + skip)
    return (state * out).sum(2).T
