"""Bench-hard drawn anew: three clouds of points in the plane, whose places decide the class of the graph.

The recipe is that of FilippoMB/Benchmark_dataset_for_graph_classification. Each graph joins two moons, a Gaussian
cloud of an inner and an outer half, and a blob, of n/3 points each, by their three nearest neighbours. A node knows
only which sub-cloud it belongs to (five colours); which cloud lies where is seen only in the edges between clouds.

Every number is a function of (seed, graph, point), by the project's counter-based generator: graph i of class c is
the same in a set of any size.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from armagnn.checks import flag, integer
from armagnn.data.arrays import Arrays
from armagnn.data.splits import check_seed
from armagnn.randomness import bits

BENCH: Final = 110
"""Purpose of the draws here; see :mod:`armagnn.randomness`."""
PLACES: Final = ((4.0, 0.0), (2.0, -2.0), (0.0, 0.0))
ARRANGEMENTS: Final = ((0, 2, 1), (1, 0, 2), (2, 1, 0))
"""For each class: the places of moons, quantiles and blob."""
NEIGHBOURS: Final = 3
MOON_NOISE: Final = 0.1
QUANTILE_VARIANCE: Final = 0.2
BLOB_DEVIATION: Final = 0.4
TEST_SHARE: Final = 0.1
VAL_SHARE: Final = 0.1
"""Of what is not for the test."""
MOST_PER_CLASS: Final = 100_000
"""Minutes of work."""

Points = NDArray[np.float64]


NORMAL: Final = (600, 100, 200)
SMALL: Final = (100, 40, 80)
"""How many graphs a class has, and from which range the number n of nodes is drawn (the last one excluded)."""


def make_bench_hard(seed: int, *, small: bool = False, per_class: int | None = None) -> Arrays:
    """Draw a Bench-hard set: 600 graphs a class of 100 to 200 nodes, or 100 of 40 to 80 (`small`).

    The arrays are those of the files: ``edge_index, ptr, node_labels`` (0 and 1: the moons, 2 and 3: inner and outer
    quantile, 4: blob), ``y``, ``split`` (0 train, 1 validation, 2 test). Graphs may be disconnected.

    Example:
        >>> arrays = make_bench_hard(0, small=True, per_class=4)
        >>> np.diff(arrays["ptr"])[:4], arrays["y"].tolist()
        (array([60, 78, 72, 75], dtype=int32), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    """
    seed = check_seed(seed)
    usual, low, high = SMALL if flag("small", small) else NORMAL
    count = usual if per_class is None else per_class
    count = integer("per_class", count, 1, MOST_PER_CLASS)
    edges, labels, nodes, split = [], [], [0], []
    for graph_class, arrangement in enumerate(ARRANGEMENTS):
        for number in range(count):
            words = _words(seed, graph_class * MOST_PER_CLASS + number, high)
            points, colours = _clouds(words, low, high, arrangement)
            edges.append(_nearest(points) + nodes[-1])
            labels.append(colours)
            nodes.append(nodes[-1] + len(points))
            split.append(_part(words[1], words[2]))
    return {
        "edge_index": np.concatenate(edges, axis=1).astype(np.int32),
        "ptr": np.array(nodes, dtype=np.int32),
        "node_labels": np.concatenate(labels).astype(np.int8),
        "y": np.repeat(np.arange(len(ARRANGEMENTS)), count).astype(np.int8),
        "split": np.array(split, dtype=np.int8),
    }


def _words(seed: int, step: int, nodes: int) -> Points:
    """Return the numbers in (0, 1) that a graph is made of: 4 for the graph, then 4 for each point of each cloud."""
    words = bits(torch.tensor([seed]), BENCH, step, torch.arange(4 + 4 * nodes))
    uniform: Points = (words.numpy() + 0.5) / 2**32
    return uniform


def _part(test: float, val: float) -> int:
    return 2 if test < TEST_SHARE else 1 if val < VAL_SHARE else 0


def _clouds(words: Points, low: int, high: int, arrangement: tuple[int, ...]) -> tuple[Points, NDArray[np.int64]]:
    """Return the points of the three clouds, divided by the maximum of each axis, and their colours."""
    third = (low + int(words[0] * (high - low))) // 3
    draws = words[4 : 4 + 12 * third].reshape(3, third, 4)
    clouds = (_moons(draws[0]), _quantiles(draws[1]), _blob(draws[2]))
    points = np.concatenate([cloud + PLACES[place] for (cloud, _), place in zip(clouds, arrangement, strict=True)])
    colours = np.concatenate([colour + first for (_, colour), first in zip(clouds, (0, 2, 4), strict=True)])
    return points / points.max(axis=0), colours


def _normal(draws: Points) -> Points:
    """Turn pairs of uniform numbers into pairs of standard normal ones (Box and Muller), (n, 2)."""
    radius, angle = np.sqrt(-2 * np.log(draws[:, 0])), 2 * np.pi * draws[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _moons(draws: Points) -> tuple[Points, NDArray[np.int64]]:
    """Two half circles that reach into each other, evenly spaced, in random order, with noise: ``make_moons``."""
    count = len(draws)
    upper, lower = np.linspace(0, np.pi, count // 2), np.linspace(0, np.pi, count - count // 2)
    x = np.concatenate([np.cos(upper), 1 - np.cos(lower)])
    y = np.concatenate([np.sin(upper), 0.5 - np.sin(lower)])
    order = draws[:, 2].argsort(kind="stable")
    colours = np.repeat([0, 1], [upper.size, lower.size])[order]
    return np.stack([x, y], axis=1)[order] + MOON_NOISE * _normal(draws), colours


def _quantiles(draws: Points) -> tuple[Points, NDArray[np.int64]]:
    """One round cloud; its inner half is of colour 0 and its outer half of colour 1: ``make_gaussian_quantiles``."""
    points = np.sqrt(QUANTILE_VARIANCE) * _normal(draws)
    colours = np.ones(len(points), dtype=np.int64)
    colours[(points**2).sum(axis=1).argsort(kind="stable")[: len(points) // 2]] = 0
    return points, colours


def _blob(draws: Points) -> tuple[Points, NDArray[np.int64]]:
    """One round cloud of one colour: ``make_blobs``."""
    return BLOB_DEVIATION * _normal(draws), np.zeros(len(draws), dtype=np.int64)


def _nearest(points: Points) -> NDArray[np.int64]:
    """Join every point with its three nearest, in both directions, (2, E), by source and target."""
    count = len(points)
    _, near = cKDTree(points).query(points, k=NEIGHBOURS + 1)
    others = near != np.arange(count)[:, None]
    others[others.all(axis=1), -1] = False  # points in one place: the point itself was not among its nearest
    ends = np.repeat(np.arange(count), NEIGHBOURS), near[others]
    matrix = sp.coo_array((np.ones(ends[0].size, dtype=np.int8), ends), shape=(count, count)).tocsr()
    both = (matrix + matrix.T).tocoo()
    order = np.lexsort((both.col, both.row))
    return np.stack([both.row[order], both.col[order]]).astype(np.int64)
