"""Reading a dataset of labelled nodes from an ``.npz`` file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from armagnn.data.archives import Axes
from armagnn.data.arrays import (
    NO_LABEL,
    Arrays,
    as_tensor,
    check_digest,
    check_precision,
    check_varied,
    class_labels,
    integers,
    read_arrays,
    read_file,
    reals,
    sha256_of,
    single,
)
from armagnn.data.catalogue import CATALOGUE
from armagnn.data.edges import edges_of
from armagnn.data.nodes import SPLITS, NodeDataset
from armagnn.data.scaling import OF_KIND, Features, resolved, scaled
from armagnn.errors import DataError

AXES: Final[Axes] = {
    "x": ("N",), "x_indptr": (("N", 1),), "x_indices": ("Z",), "x_data": ("Z",), "x_shape": (2,), "y": ("N",),
    "edge_index": (2, "E"), "edge_weight": ("E",), "train_idx": ("<N",), "val_idx": ("<N",), "test_idx": ("<N",),
}  # fmt: skip
SPARSE: Final = ("x_indptr", "x_indices", "x_data", "x_shape")
OTHERS: Final = ("edge_index", "y", "train_idx", "val_idx", "test_idx")
ARRAYS: Final = (*SPARSE, *OTHERS)
REGRESSION: Final = "y: real numbers, so this is a regression (classes are integers); NaN: a node without a target."
MAX_FEATURES: Final = 2**24  # a damaged x_shape must not ask for all the memory there is


def read_node_file(path: str | Path, *, sha256: str | None = None, features: Features = "auto") -> NodeDataset:
    """Read a :class:`NodeDataset` from an ``.npz`` file; with `sha256`, only from exactly that file.

    The file holds X as CSR (``x_indptr, x_indices, x_data, x_shape``) or dense (``x``, (N, F)), ``edge_index`` (2, E),
    ``y`` (N,), integers with -1 for "no label" or the floats of a regression with NaN for "no target", and ``train_idx,
    val_idx, test_idx``; and may hold ``edge_weight`` (E,). Edges are undirected: a direction that is missing is added,
    an edge that is listed again counts once. `features` says how X is scaled, by default standardised on training
    nodes: see :data:`armagnn.data.scaling.FEATURES`. `notes` of the dataset say what was done. Everything is checked
    here, once, so that nothing later has to be: :class:`~armagnn.errors.DataError` says what is wrong.

    Example:
        >>> dataset = read_node_file("citeseer.npz")  # doctest: +SKIP
    """
    content = read_file(path)
    check_digest(content, str(path), sha256)
    return parse_node_file(content, name=str(path), source=str(path), features=features)


def parse_node_file(
    content: bytes, *, name: str, source: str, provenance: str = "", features: Features = "auto"
) -> NodeDataset:
    """Turn the bytes of a file into a dataset called `name`; `source` is what errors call the file."""
    digest = sha256_of(content)
    known = any(digest == entry.sha256 for entry in CATALOGUE.values())
    how = resolved(features, "nodes", known)
    arrays = read_arrays(content, OTHERS, source, axes=AXES)
    x = _features(arrays, source)
    num_nodes = int(x.shape[0])
    edges = edges_of(arrays, num_nodes, source)
    y, num_classes = _targets(arrays, num_nodes, source)
    splits = _splits(arrays, y, source)
    scaled_x, said = scaled(x, how, splits["train_idx"], source)
    indices: dict[str, Any] = {name: torch.from_numpy(ids) for name, ids in splits.items()}
    data = NodeDataset(
        name=name,
        x=scaled_x,
        edge_index=torch.from_numpy(edges.index),
        y=torch.from_numpy(y),
        num_classes=num_classes,
        sha256=digest,
        edge_weight=as_tensor(edges.weight),
        provenance=provenance or name,
        features=how,
        notes=edges.notes if known else (said, *edges.notes, *([] if num_classes else [REGRESSION])),
        **indices,
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
        reals(arrays, "x", source)
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
    shape = integers(arrays, "x_shape", source)
    if shape.shape != (2,) or shape.min() < 1 or shape[1] > MAX_FEATURES:
        raise DataError(
            f"{source}: x_shape is {shape.tolist()}; it must be (nodes, features), both at least 1, "
            f"with at most {MAX_FEATURES} features."
        )
    num_nodes, num_features = (int(size) for size in shape)
    indptr = integers(arrays, "x_indptr", source)
    # int16 on disk: column arithmetic would overflow there
    indices = integers(arrays, "x_indices", source, within=(0, num_features))
    reals(arrays, "x_data", source)
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
    x = sp.csr_array((data, indices, indptr), shape=(num_nodes, num_features))
    x.sum_duplicates()
    return x


def _targets(arrays: Arrays, num_nodes: int, source: str) -> tuple[NDArray[Any], int]:
    """Return ``y`` and the number of classes, which is 0 for real targets."""
    y = arrays["y"]
    if y.dtype.kind != "f":
        return class_labels(arrays, num_nodes, source)
    if y.shape != (num_nodes,):
        raise DataError(f"{source}: y has shape {y.shape}; it must be ({num_nodes},), one target a node, NaN for none.")
    known = y[~np.isnan(y)]
    check_precision(known, f"{source}: y")
    check_varied(single(known, f"{source}: y", "targets")[:, None], f"{source}: y", of="nodes")
    return y.astype(np.float32), 0


def _splits(arrays: Arrays, y: NDArray[Any], source: str) -> dict[str, NDArray[np.int64]]:
    names = [f"{part}_idx" for part in SPLITS]
    splits = {name: integers(arrays, name, source, within=(0, y.size)) for name in names}
    owner = np.full(y.size, -1)
    for position, (name, ids) in enumerate(splits.items()):
        if ids.size == 0:
            raise DataError(f"{source}: {name} is empty; training, choosing and testing each need nodes.")
        if np.unique(ids).size != ids.size:
            raise DataError(f"{source}: {name} names a node twice.")
        taken = owner[ids]
        if (taken >= 0).any():
            other = SPLITS[int(taken.max())]
            raise DataError(
                f"{source}: {name} and {other}_idx share {int((taken >= 0).sum())} node(s); splits are disjoint."
            )
        if (np.isnan(y[ids]) if y.dtype.kind == "f" else y[ids] == NO_LABEL).any():
            raise DataError(f"{source}: {name} holds nodes without a label.")
        owner[ids] = position
    return splits
