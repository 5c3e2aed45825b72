"""Undirected edges: each pair of nodes once in either direction."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def undirected(edges: Integers, *of_edges: NDArray[Any] | None) -> tuple[Any, ...]:
    """Return `edges` (2, E) without repetitions, and with the directions that are missing at the end; then `of_edges`.

    These are labels or weights, (E,), or None. A direction that is added has those of the other; of repeated edges the
    first counts. Directed, the operators of all methods but those that only ask who is a neighbour would be of another
    graph, and a repeated edge of weight 2.

    Example:
        >>> undirected(np.array([[0, 0, 1, 2], [1, 1, 2, 1]]), np.array([7, 8, 9, 9]))
        (array([[0, 1, 2, 1],
               [1, 2, 1, 0]]), array([7, 9, 9, 7]))
    """
    base = int(edges.max(initial=0)) + 1
    pairs, first = np.unique(edges[0] * base + edges[1], return_index=True)
    if pairs.size < edges.shape[1]:
        first.sort()
        edges, of_edges = edges[:, first], tuple(None if each is None else each[first] for each in of_edges)
    alone = ~np.isin(edges[1] * base + edges[0], pairs)
    edges = np.ascontiguousarray(np.concatenate([edges, edges[::-1, alone]], axis=1))
    return edges, *(None if each is None else np.concatenate([each, each[alone]]) for each in of_edges)


def both_ways(edge_index: NDArray[np.int64], num_nodes: int) -> NDArray[np.int64]:
    """Return every edge in both directions, once each, self-loops once, sorted by source and target.

    Where edges have labels, or an order to keep, see `undirected`.

    Example:
        >>> both_ways(np.array([[0, 1, 2], [1, 0, 2]]), 3).tolist()
        [[0, 1, 2], [1, 0, 2]]
    """
    source, target = np.hstack([edge_index, edge_index[::-1]])
    code = np.unique(source * num_nodes + target)
    return np.stack([code // num_nodes, code % num_nodes])
