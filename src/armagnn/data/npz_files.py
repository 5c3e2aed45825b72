"""Reading a dataset of labelled nodes, or a set of graphs, from an ``.npz`` file, and checking the arrays of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import flag
from armagnn.data.arrays import NO_LABEL, Arrays, Axes, as_tensor, class_labels, integers, read_arrays, reals, single
from armagnn.data.catalogue import CATALOGUE
from armagnn.data.edges import edges_of
from armagnn.data.graphs import GraphsDataset
from armagnn.data.nodes import SPLITS, NodeDataset
from armagnn.data.scaling import OF_KIND, Features, check_precision, check_varied, resolved, scaled
from armagnn.errors import DataError
from armagnn.files import check_digest, read_file, sha256_of

NODE_AXES: Final[Axes] = {
    "x": ("N",), "x_indptr": (("N", 1),), "x_indices": ("Z",), "x_data": ("Z",), "x_shape": (2,), "y": ("N",),
    "edge_index": (2, "E"), "edge_weight": ("E",), "train_idx": ("<N",), "val_idx": ("<N",), "test_idx": ("<N",),
}  # fmt: skip
SPARSE: Final = ("x_indptr", "x_indices", "x_data", "x_shape")
OTHERS: Final = ("edge_index", "y", "train_idx", "val_idx", "test_idx")
NODE_ARRAYS: Final = (*SPARSE, *OTHERS)
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
    arrays = read_arrays(content, OTHERS, source, axes=NODE_AXES)
    x = _features(arrays, source)
    num_nodes = int(x.shape[0])
    edges = edges_of(arrays, num_nodes, source)
    y, num_classes = _node_targets(arrays, num_nodes, source)
    splits = _node_splits(arrays, y, source)
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


def _node_targets(arrays: Arrays, num_nodes: int, source: str) -> tuple[NDArray[Any], int]:
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


def _node_splits(arrays: Arrays, y: NDArray[Any], source: str) -> dict[str, NDArray[np.int64]]:
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


# ------------------------------------------------------------------------------------------------------- sets of graphs

GRAPH_ARRAYS: Final = ("edge_index", "ptr", "y")
GRAPH_AXES: Final[Axes] = {
    "edge_index": (2, "E"), "ptr": (("G", 1),), "node_labels": ("N",), "node_attr": ("N",), "edge_labels": ("E",),
    "edge_weight": ("E",),
}  # fmt: skip
MOST_LONE: Final = 2**22
"""Nodes of a file that has nothing to say of them."""
LONE_PER_EDGE: Final = 16
"""The same, for each end of an edge."""
LABELLED: Final[Axes] = {**GRAPH_AXES, "y": ("G",), "split": ("G",)}
"""The same, of graphs to learn from."""


def read_graphs_file(path: str | Path, *, sha256: str | None = None, labelled: bool = True) -> GraphsDataset:
    """Read a :class:`GraphsDataset` from an ``.npz`` file; with `sha256`, only from exactly that file.

    The file holds ``edge_index`` (2, E), ``ptr`` (G + 1,) and ``y`` ((G,) integers for classes, (G,) or (G, T) floats
    for a regression), and may hold ``node_labels`` (N,), ``node_attr`` (N, F), ``edge_labels`` (E,), ``edge_weight``
    (E,) and ``split`` (G,). Other arrays are ignored. Edges are undirected: a direction that is missing is added, an
    edge that is listed again counts once. Without `labelled`, for new graphs, ``y`` and ``split`` are not read: y
    is -1.

    Example:
        >>> dataset = read_graphs_file("ENZYMES.npz")  # doctest: +SKIP
    """
    content = read_file(path)
    check_digest(content, str(path), sha256)
    return parse_graphs_file(content, name=str(path), source=str(path), labelled=labelled)


def parse_graphs_file(
    content: bytes, *, name: str, source: str, provenance: str = "", labelled: bool = True
) -> GraphsDataset:
    """Turn the bytes of a file into a dataset called `name`; `source` is what errors call the file."""
    flag("labelled", labelled)
    names, axes = (GRAPH_ARRAYS, LABELLED) if labelled else (GRAPH_ARRAYS[:-1], GRAPH_AXES)
    arrays = read_arrays(content, names, source, what="graphs", axes=axes)
    return graphs_of(
        arrays, name=name, source=source, sha256=sha256_of(content), provenance=provenance, labelled=labelled
    )


def graphs_of(
    arrays: Arrays, *, name: str, source: str, sha256: str, provenance: str = "", labelled: bool = True
) -> GraphsDataset:
    """Turn arrays as a file has them into a dataset, if nothing is wrong with them."""
    ptr = integers(arrays, "ptr", source)
    if ptr.size < 2 or ptr[0] != 0 or (ptr[1:] <= ptr[:-1]).any():
        raise DataError(f"{source}: ptr must rise from 0, by at least one node a graph.")
    num_graphs = ptr.size - 1
    if labelled:
        y, num_classes = _graph_targets(arrays, num_graphs, source)
        for part in (name for name in ("y", "node_attr") if name in arrays):
            check_precision(arrays[part], f"{source}: {part}")
        if not num_classes:
            check_varied(y.numpy(), f"{source}: y")
    else:
        y, num_classes = torch.full((num_graphs,), NO_LABEL), 0
    num_nodes = _count(int(ptr[-1]), arrays, source)
    labels = integers(arrays, "node_labels", source, shape=(num_nodes,)) if "node_labels" in arrays else None
    edges = edges_of(arrays, num_nodes, source, graph=np.repeat(np.arange(num_graphs), np.diff(ptr)))
    return GraphsDataset(
        name=name,
        edge_index=torch.from_numpy(edges.index),
        ptr=torch.from_numpy(ptr),
        y=y,
        num_classes=num_classes,
        sha256=sha256,
        node_labels=as_tensor(labels),
        node_attr=_attributes(arrays, num_nodes, source),
        edge_labels=as_tensor(edges.labels),
        edge_weight=as_tensor(edges.weight),
        split=_graph_split(arrays, num_graphs, source) if labelled else None,
        provenance=provenance or name,
        targets=tuple(f"target {t}" for t in range(y.shape[1])) if y.is_floating_point() else (),
        notes=edges.notes,
    )


def _graph_targets(arrays: Arrays, num_graphs: int, source: str) -> tuple[Tensor, int]:
    """Return ``y`` and the number of classes, which is 0 for real targets, (G, T)."""
    if arrays["y"].dtype.kind == "f":
        targets = reals(arrays, "y", source, what="targets")
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.ndim != 2 or targets.shape[0] != num_graphs or targets.shape[1] < 1:
            raise DataError(
                f"{source}: y has shape {arrays['y'].shape}; it must be ({num_graphs}, T), or ({num_graphs},)."
            )
        return torch.from_numpy(targets), 0
    y, num_classes = class_labels(arrays, num_graphs, source, of="graphs")
    if (y == NO_LABEL).any():
        raise DataError(f"{source}: y has graphs without a label.")
    return torch.from_numpy(y), num_classes


def _count(num_nodes: int, arrays: Arrays, source: str) -> int:
    """Return N, the end of ptr, if the arrays that have a row per node agree."""
    most = max(MOST_LONE, LONE_PER_EDGE * arrays["edge_index"].size)
    if num_nodes > most and "node_labels" not in arrays and "node_attr" not in arrays:
        raise DataError(
            f"{source}: ptr ends at {num_nodes} nodes, nearly all of them without an edge, a label or an attribute. If "
            "they are meant, give node_labels, one for each."
        )
    return num_nodes


def _attributes(arrays: Arrays, num_nodes: int, source: str) -> Tensor | None:
    if "node_attr" not in arrays:
        return None
    values = reals(arrays, "node_attr", source)
    if values.ndim != 2 or values.shape[0] != num_nodes or values.shape[1] < 1:
        raise DataError(f"{source}: node_attr has shape {values.shape}; it must be ({num_nodes}, F).")
    return torch.from_numpy(values)


def _graph_split(arrays: Arrays, num_graphs: int, source: str) -> Tensor | None:
    if "split" not in arrays:
        return None
    split = integers(arrays, "split", source, shape=(num_graphs,))
    if set(split.tolist()) != {0, 1, 2}:
        raise DataError(f"{source}: split holds {sorted(set(split.tolist()))[:10]}; it must use all of 0, 1, 2.")
    return torch.from_numpy(split)
