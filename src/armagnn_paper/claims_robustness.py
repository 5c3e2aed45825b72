"""Claim: rational filters are robust to noise and to small changes of the graph (Sections 2, 3 and 4).

Networks are trained on Cora as it is and tested on a Cora that was changed: Gaussian noise of so many times the root
mean square of the features on every feature of every node; a share of the edges removed; edges between random pairs
of nodes added, as a share of those that there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.operators import CSR
from armagnn.spectral.plot import new_figure
from armagnn_paper.claims_rows import ClaimRow, Measurement, draw_line
from armagnn_paper.claims_training import COLOURS, METHODS, NAMES, accuracy, cora, train_on_cora

LEVELS: Final = {
    "feature noise": (0.0, 0.25, 0.5, 1.0, 2.0, 4.0),
    "edges removed": (0.0, 0.1, 0.25, 0.5, 0.75, 0.9),
    "edges added": (0.0, 0.1, 0.25, 0.5, 1.0, 2.0),
}


def jobs() -> list[Measurement]:
    """One for every method."""
    return [Measurement({"method": method}, partial(measure_method, method)) for method in METHODS]


def measure_method(method: str, runs: int) -> list[ClaimRow]:
    """Train a method and test it under every change; a run draws its own noise and edges."""
    dataset, rows = cora(), []
    for run, net in enumerate(train_on_cora(method, runs)):
        for variable, levels in LEVELS.items():
            for level in levels:
                generator = torch.Generator().manual_seed(1000 * run + round(100 * level))
                x, edges = dataset.x, dataset.edge_index
                if variable == "feature noise" and level > 0:
                    x = noisy(x, level, generator)
                elif variable == "edges removed":
                    edges = without_edges(edges, level, generator)
                elif variable == "edges added":
                    edges = with_edges(edges, dataset.num_nodes, level, generator)
                op = net.conv1.operator(edges, dataset.num_nodes)
                value = accuracy(net, x, op, dataset.y, dataset.test_idx)
                rows.append(ClaimRow(method, variable, f"{level:g}", run, "accuracy", value))
    return rows


def noisy(x: Tensor | CSR, level: float, generator: torch.Generator) -> Tensor:
    """X with Gaussian noise of `level` times the root mean square of its entries, dense."""
    dense = x.to_dense() if isinstance(x, CSR) else x
    return dense + level * dense.square().mean().sqrt() * torch.randn(dense.shape, generator=generator)


def without_edges(edge_index: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """The graph without a share of its undirected edges, each with both directions.

    Example:
        >>> pair = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> without_edges(pair, 0.5, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 2])
    """
    pairs = edge_index[:, edge_index[0] < edge_index[1]]
    kept = torch.randperm(pairs.shape[1], generator=generator)[round(share * pairs.shape[1]) :]
    pairs = pairs[:, kept]
    return torch.cat([pairs, pairs.flip(0)], 1)


def with_edges(edge_index: Tensor, nodes: int, share: float, generator: torch.Generator) -> Tensor:
    """The graph with `share` times as many new edges as it has, between random pairs of nodes that have none."""
    pairs = edge_index[:, edge_index[0] < edge_index[1]]
    known = set((pairs[0] * nodes + pairs[1]).tolist())
    wanted = round(share * pairs.shape[1])
    new: list[tuple[int, int]] = []
    while len(new) < wanted:
        for one, other in torch.randint(nodes, (wanted, 2), generator=generator).sort(dim=1).values.tolist():
            if one != other and one * nodes + other not in known and len(new) < wanted:
                known.add(one * nodes + other)
                new.append((one, other))
    added = torch.tensor(new, dtype=torch.int64).view(-1, 2).T
    pairs = torch.cat([pairs, added], 1)
    return torch.cat([pairs, pairs.flip(0)], 1)


def draw(rows: Sequence[ClaimRow]) -> Any:
    """Accuracy against the size of each change."""
    figure, axes = new_figure(11, 3.6, 1, 3, sharey=True)
    labels = ("noise / r.m.s. of the features", "share of the edges removed", "edges added / edges there")
    for place, variable, label in zip(axes[0], LEVELS, labels, strict=True):
        for method in METHODS:
            draw_line(place, rows, "accuracy", method, variable, color=COLOURS[method], label=NAMES[method])
        place.set(xlabel=label, title=variable)
    axes[0, 0].set_ylabel("test accuracy on Cora, %")
    axes[0, 0].legend(fontsize=9)
    return figure
