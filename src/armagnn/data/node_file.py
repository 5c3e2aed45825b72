"""The file of a node-classification dataset, and what is checked when it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from armagnn.data import checks
from armagnn.data.archives import Axes
from armagnn.data.arrays import Arrays, check_digest, read_arrays, read_file
from armagnn.data.checks import NO_LABEL
from armagnn.data.dataset import NodeDataset
from armagnn.data.entries import CATALOGUE
from armagnn.data.scaling import OF_KIND, Features, resolved, scaled
from armagnn.data.undirected import edges_of
from armagnn.errors import DataError

AXES: Final[Axes] = {
    "x": ("N",), "x_indptr": (("N", 1),), "x_indices": ("Z",), "x_data": ("Z",), "x_shape": (2,), "y": ("N",),
    "edge_index": (2, "E"), "edge_weight": ("E",), "train_idx": ("<N",), "val_idx": ("<N",), "test_idx": ("<N",),
}  # fmt: skip
SPARSE: Final = ("x_indptr", "x_indices", "x_data", "x_shape")
OTHERS: Final = ("edge_index", "y", "train_idx", "val_idx", "test_idx")
ARRAYS: Final = (*SPARSE, *OTHERS)
SPLITS: Final = ("train_idx", "val_idx", "test_idx")
MAX_FEATURES: Final = 2**24  # a damaged x_shape must not ask for all the memory there is


def read_node_file(path: str | Path, *, sha256: str | None = None, features: Features = "auto") -> NodeDataset:
    """Read a :class:`NodeDataset` from an ``.npz`` file; with `sha256`, only from exactly that file.

    The file holds X as CSR (``x_indptr, x_indices, x_data, x_shape``) or dense (``x``, (N, F)), ``edge_index`` (2, E),
    ``y`` (N,) with -1 for "no label", and ``train_idx, val_idx, test_idx``; and may hold ``edge_weight`` (E,). Edges
    are undirected: a direction that is missing is added, an edge that is listed again counts once. `features` says how
    X is scaled, by default standardised on training nodes: see :data:`armagnn.data.scaling.FEATURES`. `notes` of the
    dataset say what was done. Everything is checked here, once, so that nothing later has to be:
    :class:`~armagnn.errors.DataError` says what is wrong.

    Example:
        >>> dataset = read_node_file("citeseer.npz")  # doctest: +SKIP
    """
    return parse_node_file(read_file(path), name=str(path), source=str(path), sha256=sha256, features=features)


def parse_node_file(
    content: bytes,
    *,
    name: str,
    source: str,
    sha256: str | None = None,
    provenance: str = "",
    features: Features = "auto",
) -> NodeDataset:
    """Turn the bytes of a file into a dataset called `name`; `source` is what errors call the file."""
    digest = check_digest(content, source, sha256)
    known = any(digest == entry.sha256 for entry in CATALOGUE.values())
    how = resolved(features, "nodes", known)
    arrays = read_arrays(content, OTHERS, source, axes=AXES)
    x = _features(arrays, source)
    num_nodes = int(x.shape[0])
    edges = edges_of(arrays, num_nodes, source)
    y, num_classes = checks.labels(arrays, num_nodes, source)
    splits = _splits(arrays, y, source)
    scaled_x, said = scaled(x, how, splits["train_idx"], source)
    data = NodeDataset(
        name=name,
        x=scaled_x,
        edge_index=torch.from_numpy(edges.index),
        y=torch.from_numpy(y),
        train_idx=torch.from_numpy(splits["train_idx"]),
        val_idx=torch.from_numpy(splits["val_idx"]),
        test_idx=torch.from_numpy(splits["test_idx"]),
        num_classes=num_classes,
        sha256=digest,
        edge_weight=None if edges.weight is None else torch.from_numpy(edges.weight),
        provenance=provenance or name,
        features=how,
        notes=edges.notes if known else (said, *edges.notes),
    )
    # the checksum of a file alone means what armagnn 0.1 made of it: rows, and edges as they are listed
    data = data.derived("edges undirected") if edges.changed else data
    return data if how == OF_KIND["nodes"] else data.derived(f"features {how}")


def _features(arrays: Arrays, source: str) -> sp.csr_array | NDArray[Any]:
    """Return X, sparse or dense, in whichever of the two ways the file has it, and as precise as it has it."""
    sparse, dense = [name for name in SPARSE if name in arrays], "x" in arrays
    if dense and sparse:
        raise DataError(f"{source}: has both x and {sparse[0]}; features are either dense (x) or sparse. Remove one.")
    if dense:
        checks.reals(arrays, "x", source)
        x = arrays["x"]
        if x.ndim != 2 or not 1 <= x.shape[1] <= MAX_FEATURES or not len(x):
            raise DataError(
                f"{source}: x has shape {x.shape}; it must be (nodes, features), both at least 1, with at most "
                f"{MAX_FEATURES} features."
            )
        return x
    missing = [name for name in SPARSE if name not in arrays]
    if missing:
        raise DataError(
            f"{source}: not a node-classification file, it lacks the arrays {', '.join(missing)}. Sparse features are "
            f"{', '.join(SPARSE)}; dense ones are x."
        )
    return _sparse(arrays, source)


def _sparse(arrays: Arrays, source: str) -> sp.csr_array:
    shape = checks.integers(arrays, "x_shape", source)
    if shape.shape != (2,) or shape.min() < 1 or shape[1] > MAX_FEATURES:
        raise DataError(
            f"{source}: x_shape is {shape.tolist()}; it must be (nodes, features), both at least 1, "
            f"with at most {MAX_FEATURES} features."
        )
    num_nodes, num_features = (int(size) for size in shape)
    indptr = checks.integers(arrays, "x_indptr", source)
    indices = checks.integers(arrays, "x_indices", source)  # int16 on disk: column arithmetic would overflow there
    checks.reals(arrays, "x_data", source)
    data = arrays["x_data"]
    if data.shape != indices.shape:
        raise DataError(
            f"{source}: x_data is {data.dtype} of shape {data.shape}; it must be {indices.size} reals, "
            "one for each of x_indices."
        )
    ends = (int(indptr[0]), int(indptr[-1])) if indptr.size else None
    if indptr.shape != (num_nodes + 1,) or ends != (0, indices.size) or (np.diff(indptr) < 0).any():
        raise DataError(
            f"{source}: x_indptr does not describe {num_nodes} rows: it needs {num_nodes + 1} numbers that "
            f"rise from 0 to {indices.size}."
        )
    checks.within(indices, 0, num_features, "x_indices", source)
    x = sp.csr_array((data, indices, indptr), shape=(num_nodes, num_features))
    x.sum_duplicates()
    return x


def _splits(arrays: Arrays, y: NDArray[np.int64], source: str) -> dict[str, NDArray[np.int64]]:
    splits = {name: checks.integers(arrays, name, source) for name in SPLITS}
    owner = np.full(y.size, -1)
    for position, (name, ids) in enumerate(splits.items()):
        if ids.size == 0:
            raise DataError(f"{source}: {name} is empty; training, choosing and testing each need nodes.")
        checks.within(ids, 0, y.size, name, source)
        if np.unique(ids).size != ids.size:
            raise DataError(f"{source}: {name} names a node twice.")
        taken = owner[ids]
        if (taken >= 0).any():
            other = SPLITS[int(taken.max())]
            raise DataError(
                f"{source}: {name} and {other} share {int((taken >= 0).sum())} node(s); splits are disjoint."
            )
        if (y[ids] == NO_LABEL).any():
            raise DataError(f"{source}: {name} holds nodes without a label.")
        owner[ids] = position
    return splits
