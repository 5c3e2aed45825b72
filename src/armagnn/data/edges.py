"""Undirected edges, each pair of nodes once in either direction: the one rule for all graphs that a user brings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armagnn.data.arrays import Arrays, integers, reals
from armagnn.errors import DataError

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges of an undirected graph, with what each has.

    Attributes:
        index: (2, E) int64, both directions of every edge, each once.
        labels: (E,), where edges have labels.
        weight: (E,), where edges have weights.
        added: directions that were missing.
        repeated: edges that were listed again.
    """

    index: Integers
    labels: NDArray[Any] | None
    weight: NDArray[Any] | None
    added: int
    repeated: int

    @property
    def changed(self) -> bool:
        """Is the graph another one than the operator of the edges as they are listed would have?"""
        return bool(self.added or self.repeated or self.weight is not None)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done with the edges as they were listed, in sentences."""
        said = []
        if self.added:
            said.append(f"edges: {self.added} were listed in one direction; the other direction was added.")
        if self.repeated:
            said.append(f"edges: {self.repeated} were listed again; each counts once.")
        if self.weight is not None and self.weight.size:
            said.append(f"edges: weights are used, {self.weight.min():g} to {self.weight.max():g}.")
        return tuple(said)


def undirected(edges: Integers, labels: NDArray[Any] | None = None, weight: NDArray[Any] | None = None) -> Edges:
    """Return `edges` (2, E) without repetitions, and with the directions that are missing at the end.

    A direction that is added has the label and the weight of the other; of repeated edges the first counts. Directed,
    the operators of all methods but those that only ask who is a neighbour would be of another graph, and a repeated
    edge of weight 2. Edges that are undirected already stay in their order.

    Example:
        >>> found = undirected(np.array([[0, 0, 1, 2], [1, 1, 2, 1]]), np.array([7, 8, 9, 9]))
        >>> found.index, found.labels, found.added, found.repeated
        (array([[0, 1, 2, 1],
               [1, 2, 1, 0]]), array([7, 9, 9, 7]), 1, 1)
    """
    base = int(edges.max(initial=0)) + 1
    pairs, first = np.unique(edges[0] * base + edges[1], return_index=True)
    repeated = edges.shape[1] - pairs.size
    of_edges = [labels, weight]
    if repeated:
        first.sort()
        edges, of_edges = edges[:, first], [None if each is None else each[first] for each in of_edges]
    alone = ~np.isin(edges[1] * base + edges[0], pairs)
    index = np.ascontiguousarray(np.concatenate([edges, edges[::-1, alone]], axis=1))
    labels, weight = (None if each is None else np.concatenate([each, each[alone]]) for each in of_edges)
    return Edges(index, labels, weight, int(alone.sum()), repeated)


def edges_of(arrays: Arrays, num_nodes: int, source: str, graph: Integers | None = None) -> Edges:
    """Return the edges of a file: ``edge_index`` (2, E) and, where they are there, ``edge_labels`` and ``edge_weight``.

    `graph` (N,) has the graph of each node, where there are several: no edge joins two of them.
    """
    index = integers(arrays, "edge_index", source, ndim=2, within=(0, num_nodes))
    if index.shape[0] != 2:
        raise DataError(f"{source}: edge_index has shape {index.shape}; it must be (2, E).")
    across = 0 if graph is None else int((graph[index[0]] != graph[index[1]]).sum())
    if across:
        raise DataError(f"{source}: edge_index joins nodes of different graphs, {across} times.")
    listed = index.shape[1:]
    labels = integers(arrays, "edge_labels", source, shape=listed) if "edge_labels" in arrays else None
    return undirected(index, labels, _weights(arrays, index, source))


def _weights(arrays: Arrays, edge_index: NDArray[np.int64], source: str) -> NDArray[np.float32] | None:
    """Return ``edge_weight`` (E,), if it is there: not negative, and the same wherever a pair of nodes is listed."""
    if "edge_weight" not in arrays:
        return None
    given, weights = arrays["edge_weight"], reals(arrays, "edge_weight", source, what="weights")
    if weights.shape != edge_index.shape[1:]:
        raise DataError(f"{source}: edge_weight has shape {weights.shape}; it must be {edge_index.shape[1:]}.")
    if (given < 0).any():
        raise DataError(f"{source}: edge_weight has {given.min()}; weights must not be negative.")
    if (weights[given > 0] == 0).any():
        raise DataError(f"{source}: edge_weight has {given[given > 0].min()}, which float32 rounds to 0: scale them.")
    low, high = edge_index.min(axis=0), edge_index.max(axis=0)
    _, first, pair = np.unique(low * (high.max(initial=0) + 1) + high, return_index=True, return_inverse=True)
    other = weights != weights[first][pair]
    if other.any():
        ends = edge_index[:, other.argmax()].tolist()
        raise DataError(
            f"{source}: edge_weight differs where nodes {ends[0]} and {ends[1]} are listed again; edges are "
            "undirected, so both directions must have one weight."
        )
    return weights


def both_ways(edge_index: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Return every edge in both directions, once each, self-loops once, sorted by source and target.

    It is for files that armagnn writes; the edges of a user's file keep their order, see `undirected`.

    Example:
        >>> both_ways(np.array([[0, 1, 2], [1, 0, 2]]), 3).tolist()
        [[0, 1, 2], [1, 0, 2]]
    """
    source, target = np.hstack([edge_index, edge_index[::-1]])
    code = np.unique(source * num_nodes + target)
    return np.stack([code // num_nodes, code % num_nodes])
