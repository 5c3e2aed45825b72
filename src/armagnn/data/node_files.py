"""A dataset of labelled nodes from the arrays of an ``.npz`` file: features and their scaling, edges, targets, splits.

Edges become undirected, each pair of nodes once in either direction: the one rule for all graphs that a user brings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import choice
from armagnn.data.arrays import NO_LABEL, Arrays, Axes, as_tensor, class_labels, integers, read_arrays, reals, single
from armagnn.data.catalogue import CATALOGUE
from armagnn.data.nodes import SPLITS, NodeDataset
from armagnn.data.scaling import (
    FEATURES,
    NONE,
    OF_KIND,
    ROWS,
    Features,
    check_precision,
    check_varied,
    standardised,
)  # fmt: skip
from armagnn.errors import DataError
from armagnn.files import check_digest, read_file, sha256_of
from armagnn.operators import CSR, entries
from armagnn.torch_private import normal_mode

Integers = NDArray[np.int64]

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


# ------------------------------------------------------------------------------------------------------------- features


def resolved(features: Any, kind: str, known: bool) -> Features:
    """Return ``rows``, ``standardise`` or ``none`` for a file of a `kind`; `known` says that the catalogue has it."""
    features = choice("scaling of features", features, FEATURES)
    if features == "kind" or (features == "auto" and known):
        return OF_KIND[kind]
    return "standardise" if features == "auto" else features


def scaled(
    x: sp.csr_array | NDArray[Any], how: Features, train: NDArray[np.int64], source: str
) -> tuple[CSR | Tensor, str]:
    """Return features (N, F), sparse or dense, scaled and as float32; and what was done, in a sentence.

    The entries of sparse ones stand in order, each place once, so that they need not be read as a foreign matrix is.

    Example:
        >>> scaled(np.array([[1.0, 3.0], [0.0, 2.0]]), "rows", np.array([0]), "mine.npz")[0]
        tensor([[0.2500, 0.7500],
                [0.0000, 1.0000]])
    """
    if how == "standardise":
        x, said = standardised(x, train)
        beyond = "standardised features: a node has a value far beyond those of the training nodes"
    else:
        if isinstance(x, np.ndarray):
            check_precision(x, f"{source}: x")
        x, said = (row_normalised(x), ROWS) if how == "rows" else (x, NONE)
        beyond = "features"
    if isinstance(x, np.ndarray):
        return torch.from_numpy(single(x, f"{source}: x", beyond)), said
    values = single(x.data, f"{source}: x_data", beyond)
    entries.justified_shape(x.shape, x.nnz, allow_empty=False)
    index = np.int32 if max(*x.shape, x.nnz) < 2**31 else np.int64
    with normal_mode():
        rowptr, col = (torch.from_numpy(each.astype(index)) for each in (x.indptr, x.indices))
        return CSR(rowptr, col, torch.from_numpy(values), x.shape, check_invariants=False), said


def row_normalised(x: sp.csr_array | NDArray[Any]) -> Any:
    """Divide each row by the sum of its absolute values, in float64; rows of zeros stay zero."""
    if isinstance(x, np.ndarray):
        total = np.abs(x.astype(np.float64)).sum(axis=1, keepdims=True)
        return x / np.where(total == 0.0, 1.0, total)
    value = x.data.astype(np.float64)
    row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
    total = np.bincount(row, weights=np.abs(value), minlength=x.shape[0])
    total[total == 0.0] = 1.0
    return sp.csr_array((value / total[row], x.indices, x.indptr), shape=x.shape)


# ---------------------------------------------------------------------------------------------------------------- edges


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
