"""Claims: rational filters are robust to noise and to a changed graph, and they transfer to other graphs.

Robustness (Sections 2, 3 and 4): networks are trained on Cora as it is and tested on a Cora that was changed: Gaussian
noise on every feature of every node, its deviation a multiple of the root mean square of the features; a share of the
edges removed; edges between random pairs of nodes added, as a share of those that there are.

Transfer (Section 4.2): the task is drawn, so that size and topology can be chosen: communities to be recognised, five
of them, every node with 16 noisy features of which the graph's neighbourhoods average the noise. Networks (the paper's,
16 units) are trained on one graph of the kind "home", 600 nodes with 6 neighbours on average, one edge in five to
another community, and tested on all nodes of new graphs: of the same kind; of other sizes; sparser, denser, more mixed;
with hubs; and points of the plane with their nearest neighbours, where communities are sectors. What transfer costs is
the difference to a network of the same method that was trained on another graph of the kind it is tested on ("native").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from armagnn.data import NodeDataset
from armagnn.operators import CSR
from armagnn.spectral.plot import new_figure
from armagnn.tasks import NodeNet, conv_options
from armagnn.training.outcome import Setting
from armagnn_paper.claims import (
    COLOURS,
    METHODS,
    Claim,
    ClaimRow,
    Measurement,
    accuracy,
    cora,
    draw_methods,
    line_of,
    restored,
    train_all,
    train_on_cora,
)
from armagnn_paper.summaries import LABELS

# ----------------------------------------------------------------------------------------------------------- robustness

LEVELS: Final = {
    "feature noise": (0.0, 0.25, 0.5, 1.0, 2.0, 4.0),
    "edges removed": (0.0, 0.1, 0.25, 0.5, 0.75, 0.9),
    "edges added": (0.0, 0.1, 0.25, 0.5, 1.0, 2.0),
}


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


def draw_robustness(rows: Sequence[ClaimRow]) -> Any:
    """Accuracy against the size of each change."""
    figure, axes = new_figure(11, 3.6, 1, 3, sharey=True)
    labels = ("noise / r.m.s. of the features", "share of the edges removed", "edges added / edges there")
    for place, variable, label in zip(axes[0], LEVELS, labels, strict=True):
        draw_methods(place, rows, "accuracy", variable)
        place.set(xlabel=label, title=variable)
    axes[0, 0].set_ylabel("test accuracy on Cora, %")
    axes[0, 0].legend(fontsize=9)
    return figure


ROBUSTNESS: Final = Claim(
    "robustness",
    "Is ARMA more robust than GCN and Chebyshev to noise and to a changed graph?",
    [Measurement({"method": method}, partial(measure_method, method)) for method in METHODS],
    draw_robustness,
)


# ------------------------------------------------------------------------------------------------------------- transfer

CLASSES: Final = 5
TRAIN: Final = 100
FEATURES: Final = 16
NOISE: Final = 2.5
"""Deviation of the features around the mean of their community; the means are standard normal."""


@dataclass(frozen=True)
class Kind:
    """How a graph is drawn: nodes, mean degree, share of edges to other communities, and its topology."""

    nodes: int = 600
    degree: float = 6.0
    mixing: float = 0.2
    topology: str = "blocks"  # "blocks", "hubs" (degrees of a power law) or "plane" (nearest neighbours)


KINDS: Final = {
    "home": Kind(),
    "150 nodes": Kind(nodes=150),
    "4800 nodes": Kind(nodes=4800),
    "degree 3": Kind(degree=3.0),
    "degree 20": Kind(degree=20.0),
    "mixing 0.4": Kind(mixing=0.4),
    "hubs": Kind(topology="hubs"),
    "plane": Kind(topology="plane"),
}


def draw_graph(kind: Kind, seed: int) -> NodeDataset:
    """A graph of a kind, with 100 nodes to learn from and a quarter of the nodes to validate on.

    Example:
        >>> draw_graph(KINDS["150 nodes"], 0).num_nodes
        150
    """
    generator = np.random.default_rng([seed, kind.nodes, int(10 * kind.degree), int(100 * kind.mixing)])
    n = kind.nodes
    if kind.topology == "plane":
        pairs, y = _plane(generator, kind)
    else:
        y = np.arange(n) % CLASSES
        weight = generator.pareto(1.5, n) + 1.0 if kind.topology == "hubs" else np.ones(n)
        pairs = _blocks(generator, kind, y, weight)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    means = np.random.default_rng(0).normal(size=(CLASSES, FEATURES))  # the same communities on every graph
    x = means[y] + NOISE * generator.normal(size=(n, FEATURES))
    labels = torch.from_numpy(y).long()
    order = torch.from_numpy(generator.permutation(n))
    split = order[:TRAIN], order[TRAIN : TRAIN + n // 4], order[TRAIN + n // 4 :]
    edges = torch.from_numpy(np.concatenate([pairs, pairs[:, ::-1]]).T.copy()).long()
    features = torch.from_numpy(x).float()
    return NodeDataset(f"communities, {kind}", features, edges, labels, *split, CLASSES, sha256=f"drawn {kind} {seed}")


def _blocks(generator: np.random.Generator, kind: Kind, y: Any, weight: Any) -> Any:
    """Edges whose ends are drawn by weight, the second one from another community with probability `mixing`."""
    count = round(kind.nodes * kind.degree / 2)
    first = generator.choice(kind.nodes, count, p=weight / weight.sum())
    leaves = generator.random(count) < kind.mixing
    shift = np.where(leaves, generator.integers(1, CLASSES, count), 0)
    wanted = (y[first] + shift) % CLASSES
    second = np.empty(count, dtype=np.int64)
    for community in range(CLASSES):
        members, places = np.flatnonzero(y == community), np.flatnonzero(wanted == community)
        second[places] = generator.choice(members, len(places), p=weight[members] / weight[members].sum())
    return np.stack([first, second], axis=1)


def _plane(generator: np.random.Generator, kind: Kind) -> tuple[Any, Any]:
    """Points of the unit disc, joined with their nearest; a community is a sector, and some edges lead anywhere."""
    n = kind.nodes
    radius, angle = np.sqrt(generator.random(n)), generator.random(n)
    points = radius[:, None] * np.stack([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)], axis=1)
    near = cKDTree(points).query(points, k=1 + round(0.8 * kind.degree))[1][:, 1:]
    pairs = np.stack([np.repeat(np.arange(n), near.shape[1]), near.ravel()], axis=1)
    return pairs, np.minimum((angle * CLASSES).astype(np.int64), CLASSES - 1)


def measure_kind(method: str, kind: str, runs: int, epochs: int = 1000) -> list[ClaimRow]:
    """Train on a graph of a kind; test on new graphs: of all kinds if it is "home", else of the same kind (native)."""
    dataset = draw_graph(KINDS[kind], 0)
    k, t = (2, 2) if method == "arma" else (3 if method == "chebyshev" else 1, 1)

    def build() -> NodeNet:
        return NodeNet(method, FEATURES, CLASSES, options=conv_options(method, k, t))

    rates = (0.25, 0.25, 0.25 if method == "arma" else 0.0)
    settings = [Setting(seed, 0.01, 5e-4, rates) for seed in range(runs)]
    outcomes = train_all(build, dataset, settings, epochs=epochs)
    rows = []
    for run, outcome in enumerate(outcomes):
        net = restored(build, outcome)
        for other in KINDS if kind == "home" else (kind,):
            new = draw_graph(KINDS[other], 1000 + run)
            value = accuracy(net, new.x, net.conv1.operator(new.edge_index, new.num_nodes), new.y)
            rows.append(ClaimRow(method, f"trained on {kind}", other, run, "accuracy", value))
    return rows


def draw_transfer(rows: Sequence[ClaimRow]) -> Any:
    """Accuracy on every kind of graph, transferred (bars) and native (marks)."""
    figure, axes = new_figure(11, 3.8)
    place, kinds = axes[0, 0], list(KINDS)
    width = 0.8 / len(METHODS)
    for number, method in enumerate(METHODS):
        levels, mean, deviation = line_of(rows, "accuracy", method, "trained on home")
        x = [kinds.index(level) + (number - 1) * width for level in levels]
        place.bar(x, mean, width, yerr=deviation, color=COLOURS[method], alpha=0.75, label=LABELS[method], capsize=2)
        native = [line_of(rows, "accuracy", method, f"trained on {kind}")[1] for kind in kinds[1:]]
        marks = [found[0] for found in native if found]
        label = "native: trained on that kind" if number == 0 else None
        place.scatter(x[1 : 1 + len(marks)], marks, marker="_", s=160, color="black", zorder=3, label=label)
    place.set_xticks(range(len(kinds)), kinds)
    place.set(ylabel="accuracy on new graphs, %", title="trained on one graph of the kind “home”, tested on others")
    place.set_ylim(0, 105)
    place.legend(fontsize=9, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    return figure


TRANSFER: Final = Claim(
    "transfer",
    "Does a trained network transfer to graphs of other sizes and topologies?",
    [
        Measurement({"method": method, "variable": f"trained on {kind}"}, partial(measure_kind, method, kind))
        for method in METHODS
        for kind in KINDS
    ],
    draw_transfer,
)
