"""Nearest-neighbour graphs: from coordinates or embeddings to edges."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn import checks
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError, shown

WEIGHTS: Final = ("binary", "gaussian")
SPARE: Final = 8
"""Candidates beyond k that are looked at, so that ties and rounding are settled without a second search."""
ROUNDING: Final = 1e-9
"""By how much a fast search may be wrong about a squared distance, as a share of the largest squared norm."""
LARGEST: Final = 1e150
"""Of coordinates: their squares, and sums of these, are numbers."""

Points = NDArray[np.float64]
Ids = NDArray[np.int64]


def knn_graph(
    points: Any, k: int, weights: Literal["binary", "gaussian"] = "binary", *, sigma: float | None = None
) -> tuple[Tensor, Tensor]:
    r"""Join every point with its k nearest others, by Euclidean distance,

    .. math::
        a_{ij} = 1 \quad\text{or}\quad a_{ij} = \exp(-\|p_i - p_j\|^2 / \sigma^2)
        \qquad\text{if } j \in \mathcal{N}_k(i) \text{ or } i \in \mathcal{N}_k(j),

    the graphs of MNIST and 20news in the paper, symmetrised: an edge that one end asks for is there for both, so a node
    has at least k neighbours. Of points at one distance those with the lower number come first; distances are computed
    by differences in float64, so the graph does not depend on the number of threads. A point is never its own
    neighbour; points in one place are neighbours at distance 0. 10,000 points in 200 dimensions take seconds; up to 15
    dimensions use a tree.

    Args:
        points: (N, D), a tensor or an array: coordinates of pixels, embeddings of words.
        k: the neighbours that each point asks for, from 1 to N - 1.
        weights: ``"binary"`` or ``"gaussian"``.
        sigma: σ of the Gaussian; by default the mean distance of a point to its k-th neighbour, as Defferrard et al.

    Returns:
        ``edge_index`` (2, E) int64, both directions of every edge, by target and source, and ``edge_weight`` (E) in
        torch's default type.

    Example:
        >>> edge_index, edge_weight = knn_graph([[0.0], [1.0], [3.0]], k=1)
        >>> edge_index
        tensor([[1, 0, 2, 1],
                [0, 1, 1, 2]])
    """
    points = _checked(points)
    count = len(points)
    k = checks.integer("k", k)
    if not 1 <= k < count:
        raise ParameterError(f"k must be an integer from 1 on and less than the {count} points, got {k!r}.")
    checks.choice("weights", weights, WEIGHTS)
    if sigma is not None and (weights != "gaussian" or not _positive(sigma)):
        raise ParameterError(
            f"sigma must be a positive number, and weights='gaussian', got {shown(sigma)} and {weights!r}."
        )
    near, squared = _few_in_one_place(points, k)
    source = np.repeat(np.arange(count), k)
    target, squared = near.ravel(), squared.ravel()
    place = np.concatenate([source * count + target, target * count + source])
    place, first = np.unique(place, return_index=True)
    edge_index = torch.from_numpy(np.stack([place % count, place // count]))
    if weights == "binary":
        return edge_index, torch.ones(len(place))
    width = np.sqrt(squared.reshape(count, k)[:, -1]).mean() if sigma is None else float(sigma)
    if width == 0:
        raise ParameterError("all points have their neighbours at distance 0: pass sigma, or weights='binary'.")
    value = torch.from_numpy(np.exp(-np.concatenate([squared, squared])[first] / width**2))
    dtype = torch.get_default_dtype()
    return edge_index, value.to(dtype).clamp(min=torch.finfo(dtype).tiny)  # an edge, however far its ends are


def _positive(sigma: Any) -> bool:
    """Is it a number whose square is one too?"""
    try:
        return float(sigma) > 0 and 0 < float(sigma) ** 2 < float("inf")
    except (TypeError, ValueError, OverflowError):
        return False


def _checked(points: Any) -> Points:
    if isinstance(points, Tensor):
        points = checks.dense("points", points, "(...)")
        if points.is_complex():
            raise DTypeError(f"points must be real, got {points.dtype}.")
        points = points.detach().cpu().double()
    try:
        array = np.asarray(points)
        if np.iscomplexobj(array):
            raise TypeError
        array = array.astype(np.float64)
    except Exception as error:  # whatever a foreign __array__ raises
        raise DTypeError(
            f"points must be a tensor or an array of real numbers, got {type(points).__name__}."
        ) from error
    if array.ndim != 2 or array.shape[1] < 1:
        raise ShapeError(f"points must have shape (N, D), one row per point, got {array.shape}.")
    if not np.isfinite(array).all():
        raise GraphError("points hold NaN or infinite values: clean them first.")
    if array.size and np.abs(array).max() > LARGEST:
        raise GraphError(f"points hold numbers beyond {LARGEST:g}, whose squares overflow: divide all by one number.")
    return array


def _few_in_one_place(points: Points, k: int) -> tuple[Ids, Points]:
    """Return what `_nearest` does, without a search among all points of a place that many share.

    Of a place, only the k + 1 points with the lowest numbers can be a neighbour; the others there have the first k.
    """
    rows = np.ascontiguousarray(points + 0.0)  # -0 and 0 are one place
    _, place, sizes = np.unique(
        rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel(), return_inverse=True, return_counts=True
    )
    if sizes.max() <= k + 1:
        return _nearest(points, k)
    order = np.argsort(place, kind="stable")
    starts = (np.cumsum(sizes) - sizes)[place]  # of each point, where its place begins in this order
    rank = np.empty_like(order)
    rank[order] = np.arange(len(points))
    first = rank - starts <= k
    some = first.nonzero()[0]
    ids, distances = np.empty((len(points), k), dtype=np.int64), np.zeros((len(points), k))
    found, distances[some] = _nearest(points[some], k)
    ids[some] = some[found]
    ids[~first] = order[starts[~first, None] + np.arange(k)]
    return ids, distances


def _nearest(points: Points, k: int) -> tuple[Ids, Points]:
    """Return the k nearest others of every point, by distance and then by number, and their squared distances.

    A fast search, which may be wrong about ties, gives more candidates than are needed; exact distances order them. A
    row is settled when its last candidate is certainly farther than its k-th; the others are searched again for more.
    """
    from sklearn.neighbors import NearestNeighbors

    count = len(points)
    centred = points - points.mean(axis=0)
    slack = ROUNDING * float((centred**2).sum(axis=1).max())
    search = NearestNeighbors().fit(centred)
    ids, distances = np.empty((count, k), dtype=np.int64), np.empty((count, k))
    rows, size = np.arange(count), k + 1 + SPARE
    while rows.size:
        size = min(size, count)
        found = search.kneighbors(centred[rows], n_neighbors=size, return_distance=False)
        squared = _squared_distances(points, rows, found)
        squared[found == rows[:, None]] = np.inf  # not its own neighbour; and where it is missing, one is left over
        order = np.lexsort((found, squared), axis=-1)
        found, squared = np.take_along_axis(found, order, 1), np.take_along_axis(squared, order, 1)
        last = squared[:, -2] if size > k + 1 else np.full(len(rows), -np.inf)
        settled = (last > squared[:, k - 1] + slack) | (size == count)
        ids[rows[settled]], distances[rows[settled]] = found[settled, :k], squared[settled, :k]
        rows, size = rows[~settled], 2 * size
    return ids, distances


def _squared_distances(points: Points, rows: Ids, others: Ids) -> Points:
    """Return the squared distances of each row's point to its others, by differences, a few rows at a time."""
    out = np.empty(others.shape)
    step = max(1, 2**22 // (others.shape[1] * points.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        difference = points[others[part]] - points[rows[part], None]
        np.einsum("ijd,ijd->ij", difference, difference, out=out[part])
    return out
