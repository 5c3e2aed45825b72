"""The checks that every kind of file shares: what an array must be before it becomes a tensor."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.data.arrays import Arrays
from armagnn.errors import DataError

NO_LABEL = -1
LARGEST_ERROR: Final = 0.01
"""Of a deviation, what float32 may round away."""
CONSTANT: Final = 1e-12
"""Of the size of float64 numbers, a deviation that is itself their rounding."""


def integers(arrays: Arrays, name: str, source: str, ndim: int = 1) -> NDArray[np.int64]:
    """Return an array of integers with `ndim` axes as int64 (small types overflow in arithmetic)."""
    array = arrays[name]
    if array.dtype.kind not in "iu" or array.ndim != ndim:
        raise DataError(
            f"{source}: {name} is {array.dtype} of shape {array.shape}; it must be integers of {ndim} axes."
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{source}: {name} holds {array.max()}, which is beyond every id.")
    return array.astype(np.int64)


def reals(arrays: Arrays, name: str, source: str, what: str = "features") -> NDArray[np.float32]:
    """Return an array of finite reals as float32."""
    array = arrays[name]
    if array.dtype.kind not in "fiu":
        raise DataError(f"{source}: {name} is {array.dtype} of shape {array.shape}; it must be reals.")
    return single(array, f"{source}: {name}", what)


def single(array: NDArray[Any], where: str, what: str = "features") -> NDArray[np.float32]:
    """Return reals as float32, if they are finite as such."""
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise DataError(f"{where} has NaN or infinite {what}. Replace or remove them.")
    return array


def told_apart(array: NDArray[Any], where: str) -> None:
    """Refuse reals to learn from, (N,) or (N, F), with a column whose differences float32 would round away.

    Example:
        >>> told_apart(np.array([1e9, 1e9 + 1, 1e9 + 2]), "y")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: y, column 1: varies by 0.816 around 1e+09, which float32 rounds away: subtract ...
    """
    if array.dtype.kind != "f" or np.can_cast(array.dtype, np.float32) or not array.size or array.ndim not in (1, 2):
        return
    for number, column in enumerate(array.reshape(len(array), -1).T, 1):
        wide = column.astype(np.float64)
        with np.errstate(all="ignore"):  # NaN and what float32 cannot hold are refused elsewhere
            deviation, error = wide.std(), np.abs(wide - wide.astype(np.float32)).max()
        if error > LARGEST_ERROR * deviation and deviation > CONSTANT * np.abs(wide).max():
            raise DataError(
                f"{where}, column {number}: varies by {deviation:.3g} around {wide.mean():.6g}, which float32 rounds "
                "away: subtract its mean and divide by its deviation before."
            )


def varied(targets: NDArray[Any], where: str) -> None:
    """Refuse real targets (G, T) with a column in which all are the same.

    Example:
        >>> varied(np.array([[1.0, 0.5], [2.0, 0.5]]), "y")
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: y, column 2: all graphs have the target 0.5; there is nothing to learn. Leave it out.
    """
    same = (targets == targets[:1]).all(axis=0)
    if len(targets) > 1 and same.any():
        column = int(same.argmax())
        raise DataError(
            f"{where}, column {column + 1}: all graphs have the target {targets[0, column]:g}; there is nothing to "
            "learn. Leave it out."
        )


def within(ids: NDArray[np.int64], low: int, high: int, name: str, source: str) -> None:
    """Refuse integers outside low .. high - 1."""
    if ids.size and (ids.min() < low or ids.max() >= high):
        raise DataError(f"{source}: {name} holds {ids.min()} .. {ids.max()}; it must lie in {low} .. {high - 1}.")


def sized(array: NDArray[Any], shape: tuple[int, ...], name: str, source: str) -> None:
    """Refuse an array of another shape."""
    if array.shape != shape:
        raise DataError(f"{source}: {name} has shape {array.shape}; it must be {shape}.")


def edges(arrays: Arrays, num_nodes: int, source: str) -> NDArray[np.int64]:
    """Return ``edge_index``, shape (2, E), with ids of existing nodes."""
    edge_index = integers(arrays, "edge_index", source, ndim=2)
    if edge_index.shape[0] != 2:
        raise DataError(f"{source}: edge_index has shape {edge_index.shape}; it must be (2, E).")
    within(edge_index, 0, num_nodes, "edge_index", source)
    return edge_index


def inside_graphs(graphs: NDArray[np.int64], source: str) -> None:
    """Refuse edges between two graphs; `graphs` (2, E) has the graphs of the ends of each edge."""
    across = int((graphs[0] != graphs[1]).sum())
    if across:
        raise DataError(f"{source}: edge_index joins nodes of different graphs, {across} times.")


def edge_weights(arrays: Arrays, edge_index: NDArray[np.int64], source: str) -> NDArray[np.float32] | None:
    """Return ``edge_weight`` (E,), if it is there: not negative, and the same wherever a pair of nodes is listed."""
    if "edge_weight" not in arrays:
        return None
    given, weights = arrays["edge_weight"], reals(arrays, "edge_weight", source, what="weights")
    sized(weights, edge_index.shape[1:], "edge_weight", source)
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


def labels(arrays: Arrays, count: int, source: str, of: str = "nodes") -> tuple[NDArray[np.int64], int]:
    """Return ``y``, one label for each of `count` things, and the number of classes C."""
    y = integers(arrays, "y", source)
    if y.shape != (count,):
        raise DataError(f"{source}: y has {y.size} labels for {count} {of}; it must have one for each.")
    within(y, NO_LABEL, count, "y", source)
    used = np.unique(y[y != NO_LABEL])
    if used.size < 2 or used[-1] != used.size - 1:
        raise DataError(
            f"{source}: y uses the labels {used[:10].tolist()}; it must use all of 0 .. C-1 for C >= 2 "
            f"classes ({NO_LABEL}: no label)."
        )
    return y, int(used.size)
