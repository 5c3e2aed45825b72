"""Sets of graphs from the arrays of an ``.npz`` file, or of any other source, checked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import flag
from armagnn.data.arrays import NO_LABEL, Arrays, Axes, as_tensor, class_labels, integers, read_arrays, reals
from armagnn.data.graphs import GraphsDataset
from armagnn.data.node_files import edges_of
from armagnn.data.scaling import check_precision, check_varied
from armagnn.errors import DataError
from armagnn.files import check_digest, read_file, sha256_of

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
