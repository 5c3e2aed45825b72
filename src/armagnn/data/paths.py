"""Lengths of shortest paths, by breadth-first searches from 64 nodes per machine word."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from armagnn.data.split import shuffled

SAMPLES: Final = 1024
"""Sources of the searches where a graph is too large for all."""
SAMPLE_SEED: Final = 0
SOURCES: Final = 101
"""Purpose of the draw of the sources; see :mod:`armagnn.kernels.random`."""
MOST_WORK: Final = 10**8  # words touched per level of the search: a few seconds on one core
WORDS: Final = 4  # 64 x 4 sources at a time keep a search within the caches


@dataclass(frozen=True)
class PathLengths:
    """Mean and deviation of the distances of node pairs that are connected, and from how many sources they are."""

    mean: float
    deviation: float
    pairs: int
    sources: int
    exact: bool

    def __str__(self) -> str:
        if not self.pairs:
            return "no paths"
        how = "all pairs" if self.exact else f"from {self.sources:,} random sources, seed {SAMPLE_SEED}"
        return f"{self.mean:.2f} ± {self.deviation:.2f} ({how})"


def path_lengths(
    edge_index: NDArray[np.int64], num_nodes: int, *, samples: int = SAMPLES, most_work: int = MOST_WORK
) -> PathLengths:
    """Return the lengths of the shortest paths between all connected pairs of different nodes, directions ignored.

    It is exact where all searches take seconds (Pubmed and PPI do); else the searches start from `samples` nodes
    drawn with a fixed seed.

    Example:
        >>> print(path_lengths(np.array([[0, 1], [1, 2]]), 4))  # a path of three nodes and a node alone
        1.33 ± 0.47 (all pairs)
    """
    pieces = _components(edge_index, num_nodes)
    work = sum(piece.matrix.nnz * -(-piece.width // 64) for piece in pieces)
    exact = work <= most_work or samples >= num_nodes
    chosen = np.ones(num_nodes, dtype=bool)
    if not exact:
        chosen[:] = False
        chosen[shuffled(SAMPLE_SEED, SOURCES, num_nodes)[:samples].numpy()] = True
    counts: list[int] = []  # pairs at distance 1, 2, ...
    for piece in pieces:
        starts = np.flatnonzero(chosen[piece.nodes])
        if piece.bit is not None:
            _search(piece.matrix, starts, piece.bit[starts], counts)
            continue
        for first in range(0, starts.size, 64 * WORDS):
            some = starts[first : first + 64 * WORDS]
            _search(piece.matrix, some, np.arange(some.size), counts)
    pairs = sum(counts)
    mean = sum(d * count for d, count in enumerate(counts, 1)) / max(pairs, 1)
    variance = sum((d - mean) ** 2 * count for d, count in enumerate(counts, 1)) / max(pairs, 1)
    return PathLengths(mean, math.sqrt(variance), pairs, int(chosen.sum()), exact)


@dataclass(frozen=True)
class _Piece:
    """One large component, or all small ones, each of whose nodes has a `bit` of its own within its component."""

    matrix: sp.csr_array
    nodes: NDArray[np.int64]
    width: int
    bit: NDArray[np.int64] | None = None


def _components(edge_index: NDArray[np.int64], num_nodes: int) -> list[_Piece]:
    """Return the components of two nodes or more, without self-loops; those of up to 64 nodes together as one piece."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    ones = np.ones(2 * source.size, dtype=np.int8)
    both = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = sp.coo_array((ones, both), shape=(num_nodes, num_nodes)).tocsr()
    _, label = connected_components(adjacency, directed=False)
    size = np.bincount(label, minlength=1)
    # by size, so that the small components lie side by side; then by component
    order = np.lexsort((label, np.where(size > 64, 2, np.where(size > 1, 1, 0))[label]))
    adjacency = adjacency[order][:, order]
    place = np.arange(num_nodes)
    lone, small = int((size == 1).sum()), int(size[(size > 1) & (size <= 64)].sum())
    pieces = []
    if small:
        fresh = np.r_[True, np.diff(label[order[lone : lone + small]]) != 0]
        bit = place[:small] - np.maximum.accumulate(np.where(fresh, place[:small], 0))
        pieces.append(_Piece(_block(adjacency, lone, lone + small), order[lone : lone + small], 64, bit))
    ends = lone + small + np.cumsum(size[size > 64])
    for start, end in zip(ends - size[size > 64], ends, strict=True):
        pieces.append(_Piece(_block(adjacency, start, end), order[start:end], end - start))
    return pieces


def _block(matrix: sp.csr_array, start: int, end: int) -> sp.csr_array:
    low, high = matrix.indptr[start], matrix.indptr[end]
    parts = matrix.data[low:high], matrix.indices[low:high] - start, matrix.indptr[start : end + 1] - low
    return sp.csr_array(parts, shape=(end - start, end - start))


def _search(piece: sp.csr_array, starts: NDArray[np.int64], bit: NDArray[np.int64], counts: list[int]) -> None:
    """Add the number of pairs (start, node) at each distance to `counts`.

    Start i is followed by bit ``bit[i]``; two starts may share one only if no path joins them.
    """
    front = np.zeros((piece.shape[0], int(bit.max(initial=0)) // 64 + 1), dtype=np.uint64)
    front[starts, bit // 64] = np.uint64(1) << (bit % 64).astype(np.uint64)
    unseen = ~front
    distance = 0
    while True:
        # every node has a neighbour here, so that no segment of reduceat is empty
        front = np.bitwise_or.reduceat(front[piece.indices], piece.indptr[:-1], axis=0) & unseen
        found = int(np.bitwise_count(front).sum(dtype=np.int64))
        if not found:
            return
        if distance == len(counts):
            counts.append(0)
        counts[distance] += found
        unseen &= ~front
        distance += 1
