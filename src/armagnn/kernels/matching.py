"""The inner loops of Graclus coarsening: which nodes are paired, and the graph of the pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def heaviest(rowptr: Array, col: Array, value: Array, inverse: Array, out: Array) -> None:
    """Write the gain of the best edge of each node."""
    for i in range(out.size):
        best = 0.0
        for e in range(rowptr[i], rowptr[i + 1]):
            best = max(best, value[e] * (inverse[i] + inverse[col[e]]))
        out[i] = best


def match(order: Array, rowptr: Array, col: Array, value: Array, inverse: Array, partner: Array) -> float:
    """Write the partner of each node, itself if it stays alone; return what the pairs gain."""
    gained = 0.0
    for i in order:
        if partner[i] >= 0:
            continue
        best, chosen = 0.0, i
        for e in range(rowptr[i], rowptr[i + 1]):
            j = col[e]
            if partner[j] < 0:
                gain = value[e] * (inverse[i] + inverse[j])
                if gain > best:
                    best, chosen = gain, j
        partner[i], partner[chosen] = chosen, i
        gained += best
    return gained


def contract(
    rowptr: Array, col: Array, value: Array, parent: Array, children: Array, out_rowptr: Array, out_col: Array,
    out_value: Array,
) -> int:  # fmt: skip
    """Write the rows of the clusters, columns ascending; return how many entries there are.

    Up to four weights lie between two clusters. Those between their first and between their second nodes are added up
    apart from the other two: seen from the other cluster the sums are the same to the last bit, so the matrix is
    symmetric.
    """
    clusters = children.shape[0]
    alike, crossing = np.zeros(clusters), np.zeros(clusters)
    size = 0
    for c in range(clusters):
        start = size
        for which in range(2):
            i = children[c, which]
            if i < 0:
                continue
            for e in range(rowptr[i], rowptr[i + 1]):
                d = parent[col[e]]
                if d == c:
                    continue
                if alike[d] == 0.0 and crossing[d] == 0.0:
                    out_col[size] = d
                    size += 1
                if (children[d, 1] == col[e]) == (which == 1):
                    alike[d] += value[e]
                else:
                    crossing[d] += value[e]
        out_col[start:size].sort()
        for e in range(start, size):
            d = out_col[e]
            out_value[e] = alike[d] + crossing[d]
            alike[d], crossing[d] = 0.0, 0.0
        out_rowptr[c + 1] = size
    return size
