r"""Training linear filters on the images of `grid_filters`, one model for each image and filter.

Two protocols, with the same loss, the squared error summed over the masked pixels:

- ``fit``: linear coefficients by least squares; poles by Gauss-Newton with the coefficients solved for at every step
  (variable projection), from starts that know nothing of the target;
- ``adam``: all parameters by Adam, as the benchmark trains: 2,000 steps, the better of two learning rates.

ARMA is the layer of Eq. 14 with ReLU, T = 10 steps and as many stacks as the number of coefficients allows, three for a
stack: W, V (W0 is V) and the weight with which the stack enters the output, which no ReLU cuts off.

For a polynomial basis of P terms the loss is a quadratic form of P numbers. A rational filter whose poles stay within a
radius is a Chebyshev series, of which `grid_poles.DEGREE` terms are kept: what is left out is 1e-11 of it. So its
loss is a quadratic form, too, and a step of its training costs milliseconds. What is reported is the error of the
filter itself, applied to the image by `partial_fractions`, which is what `RationalConv` does.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from rich.table import Table

from armagnn.bench.grid_filters import RESPONSES, Array, GridData, Reduced, reduce_loss
from armagnn.bench.grid_poles import DEGREE, RATES, STEPS, Fractions, descend, fit_rational, fractions, train_arma
from armagnn.checks import choice, integer
from armagnn.files import write_atomic
from armagnn.filters.polynomial_bases import BASES, basis_terms
from armagnn.operators import GraphOperator
from armagnn.solvers.partial_fractions import partial_fractions

COEFFICIENTS: Final = (9, 13, 17)
"""Numbers of coefficients. A rational filter of order K has 2 K + 1."""

METHODS: Final = (*BASES, "arma", "rational")
PROTOCOLS: Final = ("fit", "adam")


PAGERANK: Final = 0.1
"""alpha of the coefficients alpha (1 - alpha)^k that GPR-GNN starts from."""


SLOW: Final = 3
"""Images that are trained on where a training takes seconds."""


@dataclass(frozen=True)
class Row:
    """One number of one training: of an image (``run``) and a filter (``dataset``)."""

    dataset: str
    method: str
    protocol: str
    run: int
    fold: int
    metric: str
    value: float
    coefficients: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Learned:
    """The trainings of a method: errors, responses and times.

    Attributes:
        sse: squared errors, (5, B).
        response: returns h(mu), (5, B, S), at frequencies (S); None of ARMA, which is not linear.
        seconds: processor time of a training, on average.
    """

    method: str
    protocol: str
    coefficients: int
    sse: Array
    response: Callable[[Array], Array] | None
    seconds: float

    def rows(self) -> Iterator[Row]:
        """Yield a row for each image and filter."""
        for name, errors in zip(RESPONSES, self.sse, strict=True):
            for run, error in enumerate(errors):
                protocol = f"{self.protocol}-{self.coefficients}"
                yield Row(
                    f"grid/{name}", self.method, protocol, run, 0, "sse", float(error), self.coefficients, self.seconds
                )


def plan(images: int) -> Iterator[tuple[str, str, int, int]]:
    """Yield method, protocol, coefficients and number of images of all trainings; the slow ones have few images.

    Example:
        >>> len(list(plan(50)))
        39
        >>> [cell for cell in plan(50) if cell[0] == "rational" and cell[2] == 9]
        [('rational', 'fit', 9, 50), ('rational', 'adam', 9, 3)]
    """
    for count in COEFFICIENTS:
        for method in METHODS:
            for protocol in PROTOCOLS if method != "arma" else ("adam",):
                slow = method in ("arma", "rational") and protocol == "adam"
                yield method, protocol, count, min(images, SLOW) if slow else images


def learn_grid(data: GridData, method: str, protocol: str, coefficients: int) -> Learned:
    """Train a method on every image and filter.

    Args:
        data: the images.
        method: one of `METHODS`.
        protocol: ``fit``, or ``adam``, the only one of ARMA.
        coefficients: their number.
    """
    choice("method", method, METHODS)
    choice("protocol", protocol, PROTOCOLS if method != "arma" else ("adam",))
    integer("coefficients", coefficients, 3, 33)
    if method == "arma":
        begin, sse = time.process_time(), train_arma(data, coefficients)
        seconds = (time.process_time() - begin) / sse.size
        return Learned(method, protocol, 3 * (coefficients // 3), sse, None, seconds)
    if method == "rational":
        return _rational(data, coefficients, protocol)
    return _polynomial(data, method, protocol, coefficients)


# ---------------------------------------------------------------------------------------------------------- polynomials


def _polynomial(data: GridData, basis: str, protocol: str, count: int) -> Learned:
    begin = time.process_time()
    terms = np.stack(basis_terms(basis, lambda x: data.matrix @ x, data.images, count - 1))  # (P, N, B)
    inside, targets = terms[:, data.mask], _targets(data)
    images = range(data.images.shape[1])
    if protocol == "fit":
        found = [np.linalg.lstsq(inside[:, :, i].T, targets[:, :, i].T, rcond=None)[0].T for i in images]
        best = np.stack(found, 1)  # (5, B, P)
    else:
        best = _by_adam([reduce_loss(inside[:, :, i].T, targets[:, :, i].T) for i in images], _start(basis, count))
    errors = np.einsum("fbp,pnb->fnb", best, inside) - targets
    seconds = (time.process_time() - begin) / (len(images) * len(RESPONSES))

    def response(mu: Array) -> Array:
        return np.array(best @ np.stack(basis_terms(basis, lambda x: mu * x, np.ones_like(mu), count - 1)))

    return Learned(basis, protocol, count, (errors**2).sum(1), response, seconds)


def _targets(data: GridData) -> Array:
    """Return the masked targets, (5, S, B)."""
    return np.stack([target[data.mask] for target in data.targets.values()])


def _start(basis: str, count: int) -> Array:
    """Return the coefficients that training starts from: those of GPR-GNN, else those of h = 1."""
    if basis == "gpr":
        start = PAGERANK * (1 - PAGERANK) ** np.arange(count)
        start[-1] = (1 - PAGERANK) ** (count - 1)
        return np.array(start)
    return np.ones(count) if basis == "bernstein" else np.eye(count)[0]


def _by_adam(losses: Sequence[Reduced], start: Array) -> Array:
    """Return the coefficients (5, B, P) that Adam finds, for each training with the better of the learning rates."""
    r = torch.from_numpy(np.stack([loss.r for loss in losses]))
    q = torch.from_numpy(np.stack([loss.q for loss in losses]))
    best, lowest = torch.zeros(len(r), len(start), q.shape[2], dtype=r.dtype), None
    for rate in RATES:
        c = torch.from_numpy(start).view(1, -1, 1).expand(*best.shape).clone().requires_grad_()
        optimizer = torch.optim.Adam([c], lr=rate)
        for _ in range(STEPS):
            optimizer.zero_grad()
            (r @ c - q).square().sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        left = (r @ c.detach() - q).square().sum(1, keepdim=True)
        better = left < lowest if lowest is not None else torch.ones_like(left, dtype=torch.bool)
        best, lowest = torch.where(better, c.detach(), best), left if lowest is None else torch.minimum(left, lowest)
    return best.permute(2, 0, 1).numpy()


# ------------------------------------------------------------------------------------------------------------- rational


def _rational(data: GridData, count: int, protocol: str) -> Learned:
    begin, order, images = time.process_time(), (count - 1) // 2, range(data.images.shape[1])
    targets = _targets(data)
    found: list[list[Fractions]] = [[] for _ in RESPONSES]
    last: list[list[tuple[int, Array]]] = [[] for _ in RESPONSES]
    for i in images:
        columns = basis_terms("chebyshev", lambda x: data.matrix @ x, data.images[:, i : i + 1], DEGREE - 1)
        loss = reduce_loss(np.concatenate(columns, 1)[data.mask], targets[:, :, i].T)
        if protocol == "adam":
            for own, new in zip(found, descend(loss, order), strict=True):
                own.append(new)
            continue
        for which in range(len(RESPONSES)):
            best = fit_rational(loss, which, order, last[which])
            found[which].append(fractions(loss, which, order, *best))
            last[which] = [best]
    seconds = (time.process_time() - begin) / (len(images) * len(RESPONSES))
    sse = np.stack([_applied_error(data, own, target) for own, target in zip(found, targets, strict=True)])

    def response(mu: Array) -> Array:
        return np.array(
            [[f.constant + (f.b / (1 - f.a * mu[:, None])).sum(1).real for f in own] for own in found]
        )  # fmt: skip

    return Learned("rational", protocol, count, sse, response, seconds)


def _applied_error(data: GridData, found: Sequence[Fractions], target: Array) -> Array:
    """Return the masked squared error of each image, (B), with the filters applied by conjugate gradients."""
    edges = torch.from_numpy(np.concatenate([data.edges, data.edges[:, ::-1]]).T.astype(np.int64))
    op = GraphOperator.from_edge_index(edges, len(data.images), dtype=torch.float64)
    poles = max(len(f.a) for f in found)
    both = [f.a for f in found], [f.b for f in found]
    wide = [np.stack([np.pad(v, (0, poles - len(v))) for v in values], 1) for values in both]
    a, b = (torch.from_numpy(np.stack([v.real, v.imag], 1)) for v in wide)
    y: Any = partial_fractions(op, torch.from_numpy(data.images), a, b)
    y = y.numpy() + np.array([f.constant for f in found]) * data.images
    return np.array(((y[data.mask] - target) ** 2).sum(0))


# ----------------------------------------------------------------------------------------------------------- the report


def table(learned: Sequence[Learned]) -> Table:
    """The squared error of an image, summed over the mask, mean over images; and the seconds of a training."""
    shown = Table(
        "method", "training", "coefficients", *RESPONSES, "images", "seconds", title="Squared error of an image"
    )
    for one in learned:
        errors = [f"{error:.2g}" for error in one.sse.mean(1)]
        count, images = str(one.coefficients), str(one.sse.shape[1])
        shown.add_row(one.method, one.protocol, count, *errors, images, f"{one.seconds:.3f}")
    return shown


def draw(learned: Sequence[Learned], path: Path, coefficients: int = 9) -> None:
    """Draw the responses learned from the first image by a polynomial and a rational filter, and their errors below."""
    import matplotlib.pyplot as plt

    mu = np.linspace(-1, 1, 801)
    chosen = {
        one.method: one
        for one in learned
        if (one.protocol, one.coefficients) == ("fit", coefficients) and one.method in ("chebyshev", "rational")
    }
    figure, axes = plt.subplots(2, len(RESPONSES), figsize=(15, 5), sharex=True, layout="constrained")
    for column, (name, h) in enumerate(RESPONSES.items()):
        axes[0, column].plot(1 - mu, h(mu), color="0.6", linewidth=3, label="wanted")
        for method, colour in (("chebyshev", "tab:orange"), ("rational", "tab:blue")):
            one = chosen.get(method)
            if one is None or one.response is None:
                continue
            found = one.response(mu)[column, 0]
            label = {"chebyshev": f"polynomial of degree {coefficients - 1}", "rational": "rational"}[method]
            axes[0, column].plot(1 - mu, found, color=colour, linewidth=1, label=label)
            axes[1, column].semilogy(1 - mu, np.abs(found - h(mu)), color=colour, linewidth=1)
        axes[0, column].set_title(name)
        axes[1, column].set_xlabel(r"$\lambda = 1 - \mu$")
    axes[0, 0].set_ylabel(r"$h$")
    axes[1, 0].set_ylabel("error")
    axes[0, 0].legend()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".") or "png", dpi=110)
    plt.close(figure)
    write_atomic(path, buffer.getvalue())
