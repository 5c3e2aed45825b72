"""Claim: the skip connections allow stacking many layers without over-smoothing (Section 4.2).

Both places of the paper's network on Cora are made deeper together: T steps of ARMA (K = 2), T layers of GCN, or a
Chebyshev filter that reaches T hops (T + 1 terms, up to 16 hops: its weights grow with T). Only the input is dropped
(0.5) so that depth is not confused with a chain of dropouts; Adam, L2 5e-4, at most 200 epochs, patience 50 on
validation loss.

Smoothness is measured on the hidden units H, the output of the first place: the Dirichlet energy tr(H'LH) / tr(H'H),
the mean frequency lambda in [0, 2], 0 being constant on every component (after D^-1/2); and the mean cosine distance
between the hidden vectors of two nodes, 0 if all point the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.operators import GraphOperator
from armagnn.spectral.plot import new_figure
from armagnn.tasks import NodeNet, conv_options
from armagnn.training.outcome import Setting
from armagnn_paper.claims_rows import ClaimRow, Measurement, draw_line
from armagnn_paper.claims_training import COLOURS, METHODS, NAMES, accuracy, cora, restored, train_all

DEPTHS: Final = (1, 2, 4, 8, 16, 32, 64)
MOST_HOPS: Final = {"arma": 64, "gcn": 64, "chebyshev": 16}
METRICS: Final = ("accuracy", "dirichlet", "distance")


class DeepNet(NodeNet):
    """The network of two places of which only the input is dropped, however many layers they hold."""

    def set_rates(self, input: float | Tensor, hidden: float | Tensor, skip: float | Tensor) -> None:
        """Set the drop rate of the input."""
        self.input_dropout, self.hidden_dropout = input, 0.0


def jobs() -> list[Measurement]:
    """One for every method and depth, the shallow ones first."""
    return [
        Measurement({"method": method, "level": str(depth)}, partial(measure_depth, method, depth))
        for depth in DEPTHS
        for method in METHODS
        if depth <= MOST_HOPS[method]
    ]


def measure_depth(method: str, depth: int, runs: int, epochs: int = 200) -> list[ClaimRow]:
    """Train a method at a depth, and measure accuracy and smoothness."""
    dataset = cora()
    options = conv_options(method, depth + 1 if method == "chebyshev" else 2, depth)

    def build() -> NodeNet:
        return DeepNet(method, dataset.num_features, dataset.num_classes, options=options)

    settings = [Setting(seed, 0.01, 5e-4, (0.5, 0.0, 0.0)) for seed in range(runs)]
    outcomes = train_all(build, dataset, settings, epochs=epochs, patience=50)
    laplacian, rows = dataset.operator("laplacian"), []
    for run, outcome in enumerate(outcomes):
        net = restored(build, outcome)
        op = net.conv1.operator(dataset.edge_index, dataset.num_nodes)
        with torch.no_grad():
            hidden = net.conv1(dataset.x, op)
        values = (
            accuracy(net, dataset.x, op, dataset.y, dataset.test_idx),
            dirichlet_energy(laplacian, hidden),
            mean_distance(hidden),
        )
        rows += [
            ClaimRow(method, "depth", str(depth), run, metric, value)
            for metric, value in zip(METRICS, values, strict=True)
        ]  # fmt: skip
    return rows


def dirichlet_energy(laplacian: GraphOperator, h: Tensor) -> float:
    """Return tr(H'LH) / tr(H'H), the mean frequency lambda of a signal; NaN if it is zero.

    Example:
        >>> pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> dirichlet_energy(pair, torch.tensor([[1.0], [-1.0]])), dirichlet_energy(pair, torch.ones(2, 1))
        (2.0, 0.0)
    """
    energy = h.square().sum()
    return ((h * (laplacian @ h)).sum() / energy).item() if energy > 0 else torch.nan


def mean_distance(h: Tensor) -> float:
    """Return the mean of 1 - cos over all pairs of nodes whose vectors are not zero; NaN if there is none.

    Example:
        >>> mean_distance(torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]))
        1.0
    """
    unit = h[h.norm(dim=1) > 0].double()
    count = len(unit)
    if count < 2:
        return torch.nan
    unit = unit / unit.norm(dim=1, keepdim=True)
    total: float = unit.sum(0).square().sum().item()  # of the cosines of all pairs, each with itself too
    return 1.0 - (total - count) / (count * (count - 1))


def draw(rows: Sequence[ClaimRow]) -> Any:
    """Accuracy and smoothness against depth."""
    figure, axes = new_figure(11, 3.6, 1, 3)
    titles = ("test accuracy on Cora, %", "Dirichlet energy of the hidden units", "mean cosine distance of nodes")
    for place, metric, title in zip(axes[0], METRICS, titles, strict=True):
        for method in METHODS:
            draw_line(place, rows, metric, method, "depth", color=COLOURS[method], label=NAMES[method])
        place.set_xscale("log", base=2)
        place.set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
        place.set(xlabel="T, steps or layers in each of two places", title=title)
    axes[0, 0].legend(fontsize=9)
    return figure
