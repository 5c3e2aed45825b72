r"""What the layers of networks that were trained on heterophilous graphs do to each frequency.

A layer of the heterophily tables is linear up to its norm and activation. On a signal of the frequency mu it acts as
one matrix,

.. math::
    R(\mu) = h(\mu) W + V \quad \text{(rational)}, \qquad
    R(\mu) = \frac{1}{K} \sum_k R_k^{(T)}(\mu), \quad
    R_k^{(1)} = \mu W_{0k} + V_k, \quad R_k^{(t+1)} = \mu R_k^{(t)} W_k + V_k \quad \text{(ARMA)},

where the activations between the steps of ARMA are left out. Its gain is :math:`\|R(\mu)\|_F`. Networks are trained as
in the table: the chosen setting, split 0, seed 0. The gains are rows of a CSV file; what is in it is not trained again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.data import load
from armagnn.nn import ARMAConv, RationalConv
from armagnn.spectral import spectral_density
from armagnn.spectral.plot import new_figure
from armagnn_paper.claims import Measurement, measure, rows_of
from armagnn_paper.heterophily_table import HETEROPHILY
from armagnn_paper.summaries import LABELS
from armagnn_paper.table import Cell

DATASETS: Final = ("minesweeper", "squirrel-filtered", "texas")
METHODS: Final = ("arma", "rational")
POINTS: Final = 81
"""Frequencies that are looked at, evenly from -1 to 1."""


@dataclass(frozen=True)
class GainRow:
    """The gain of one layer at one frequency.

    Attributes:
        dataset: on which the network was trained.
        method: its layers.
        run: its seed.
        layer: from 1.
        mu: the frequency, an eigenvalue of the ``arma`` operator: 1 is low, -1 high.
        gain: the Frobenius norm of the layer's matrix at mu.
    """

    dataset: str
    method: str
    run: int
    layer: int
    mu: float
    gain: float


def matrices(conv: Any, skip: Any, mu: Tensor) -> Tensor:
    """Return R(mu) of a layer, shape (M, F_in, F_out), with the map V that the network adds to it, if any.

    Example:
        >>> conv = RationalConv(3, 2, order=2)
        >>> matrices(conv, None, torch.tensor([0.0, 1.0], dtype=torch.float64)).shape
        torch.Size([2, 3, 2])
    """
    with torch.no_grad():
        if isinstance(conv, RationalConv):
            response: Any = conv.response(mu)
            found: Tensor = response[:, None, None] * conv.weight.to(mu)
        elif isinstance(conv, ARMAConv) and conv.init == "linear" and conv.fixed_point is None:
            found = _of_stacks(conv, mu)
        else:
            raise TypeError(f"gains are of rational layers and of ARMA layers with T steps, got {conv}.")
        added: Tensor | float = 0.0 if skip is None else skip.weight.to(mu)
        return found + added


def _of_stacks(conv: ARMAConv, mu: Tensor) -> Tensor:
    """R(mu) of an ARMA layer: the mean over its stacks, without the activations between the steps."""
    first: Any = conv.initial_weight
    skips, places = conv.skip_weight.to(mu), mu[:, None, None]
    stacks = []
    for k in range(conv.num_stacks):
        found = places * first[:, k].to(mu) + skips[0, :, k]
        for t in range(1, conv.num_layers):
            weight: Any = conv.weight
            later = weight[min(t - 1, len(weight) - 1), k].to(mu)
            found = places * (found @ later) + skips[min(t, len(skips) - 1), :, k]
        stacks.append(found)
    return torch.stack(stacks).mean(0)


def train(dataset: str, method: str, device: str, runs: int) -> list[GainRow]:
    """Train the chosen network on split 0 from seed 0, and return the gains of its layers."""
    experiment = HETEROPHILY.config(Cell(dataset, method, "tuned")).experiment()
    settings = [replace(experiment.config.setting(run), target=0) for run in range(runs)]
    mu, rows = torch.linspace(-1, 1, POINTS, dtype=torch.float64), []
    for outcome in experiment.trials(settings, 0, device).run():
        net: Any = experiment.network()
        net.load_state_dict(outcome.state)
        for layer, conv in enumerate(net.convs):
            gains = matrices(conv, net.skips[layer] if net.skips else None, mu).flatten(1).norm(dim=1)
            place = dataset, method, outcome.setting.seed, layer + 1
            rows += [GainRow(*place, *pair) for pair in zip(mu.tolist(), gains.tolist(), strict=True)]
    return rows


def run(path: Path, datasets: Sequence[str], methods: Sequence[str], device: str) -> Iterator[str]:
    """Train what the file at `path` does not hold yet, and say what was done."""
    jobs = [
        Measurement({"dataset": dataset, "method": method}, partial(train, dataset, method, device))
        for dataset in datasets
        for method in methods
    ]
    for job, rows in measure(jobs, path, 1, GainRow):
        yield f"{', '.join(map(str, job.covers.values()))}: {len(rows)} numbers"


def draw(path: Path) -> Any:
    """The gains of all layers, each divided by its largest, over the density of the graph's frequencies."""
    rows: list[GainRow] = rows_of(path, GainRow)
    datasets = [each for each in DATASETS if any(row.dataset == each for row in rows)]
    figure, axes = new_figure(4 * len(datasets), 5.4, 2, max(len(datasets), 1), sharex=True)
    for column, dataset in enumerate(datasets):
        mu = torch.linspace(-1, 1, 401, dtype=torch.float64)
        density = spectral_density(load(dataset).operator())(mu)
        for place, method in zip(axes[:, column], METHODS, strict=True):
            place.fill_between(1 - mu, density / density.max(), color="0.88", linewidth=0)
            own = [row for row in rows if (row.dataset, row.method, row.run) == (dataset, method, 0)]
            layers = sorted({row.layer for row in own})
            for layer in layers:
                line = [row for row in own if row.layer == layer]
                most = max(row.gain for row in line) or 1.0
                colour = _colour((layer - 1) / max(len(layers) - 1, 1))
                name = f"layer {layer}" if layer in (1, len(layers)) else None
                x, y = [1 - row.mu for row in line], [row.gain / most for row in line]
                place.plot(x, y, color=colour, linewidth=1.3, label=name)
            place.set(ylim=(0, 1.05), xlim=(0, 2), title=f"{LABELS[dataset]}, {LABELS[method]}")
            if layers:
                place.legend(fontsize=8, loc="lower left")
    figure.supxlabel("frequency λ (grey: how many eigenvalues lie there)", fontsize=10)
    figure.supylabel("gain of a layer, divided by its largest", fontsize=10)
    return figure


def _colour(share: float) -> Any:
    from matplotlib import colormaps  # slow to import, and needed only here

    return colormaps["viridis"](0.9 * share)
