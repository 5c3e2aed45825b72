"""What a set of graphs is, and how it is read from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn import checks
from armagnn.checks import flag
from armagnn.data.archives import Axes, Header, agree
from armagnn.data.arrays import (
    NO_LABEL,
    Arrays,
    as_array,
    as_tensor,
    check_digest,
    check_precision,
    check_varied,
    class_labels,
    digest_of,
    integers,
    on_device,
    read_arrays,
    read_file,
    reals,
    sha256_of,
)
from armagnn.data.edges import edges_of
from armagnn.errors import DataError, ParameterError

FEATURE_KINDS: Final = ("degree", "clustering", "labels", "attributes")
"""What :func:`armagnn.data.node_features` can make of a set of graphs."""


@dataclass(frozen=True, eq=False)
class GraphsDataset:
    """G graphs side by side, with one label or T real targets each: graph classification and graph regression.

    Those of your own are made by :meth:`of`, which checks them; the constructor trusts what it is given.

    Attributes:
        name: the name it was loaded by (or the path of its file).
        edge_index: (2, E) int64, both directions of every edge, ids of nodes counted over all graphs.
        ptr: (G + 1,) int64; graph g has the nodes ``ptr[g] .. ptr[g + 1] - 1``.
        y: (G,) int64 labels 0 .. C-1 (-1 where new graphs have none yet); or (G, T) float32 targets of a regression.
        num_classes: C; 0 for a regression.
        sha256: checksum of the file (and of what :meth:`select` took); two datasets with one checksum are the same.
        node_labels: (N,) int64, the raw label of each node, where there are such.
        node_attr: (N, F) float32, the raw attributes of each node, where there are such.
        edge_labels: (E,) int64, the raw label of each directed edge, where there are such.
        edge_weight: (E,) float32, the weight of each directed edge, the same in both directions; None if all are 1.
        split: (G,) int64, 0 train, 1 validation, 2 test, where the file has a split.
        provenance: what to call the data in results.
        targets: the T names of the targets of a regression.
        class_values: the raw label of each class 0 .. C-1, where they are other numbers in the file.
        feature_kinds: which of :data:`FEATURE_KINDS` the nodes are described by, unless one asks for others.
        notes: what was done with your own file to make this of it, in sentences.

    Example:
        >>> from armagnn.data import load_graphs
        >>> mutag = load_graphs("mutag")
        >>> mutag
        GraphsDataset('mutag', graphs=188, nodes=3371, edges=7442, classes=2)
        >>> mutag.select([3, 0]).ptr
        tensor([ 0, 19, 36])
    """

    name: str
    edge_index: Tensor
    ptr: Tensor
    y: Tensor
    num_classes: int
    sha256: str
    node_labels: Tensor | None = None
    node_attr: Tensor | None = None
    edge_labels: Tensor | None = None
    edge_weight: Tensor | None = None
    split: Tensor | None = None
    provenance: str = ""
    targets: tuple[str, ...] = ()
    class_values: tuple[int, ...] | None = None
    feature_kinds: tuple[str, ...] = FEATURE_KINDS
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        checks.tensor("edge_index", self.edge_index, 2)
        checks.tensor("ptr", self.ptr, 1)
        checks.tensor("y", self.y, 1, 2)
        for name in ("node_labels", "node_attr", "edge_labels", "edge_weight", "split"):
            if getattr(self, name) is not None:
                checks.tensor(name, getattr(self, name))

    @classmethod
    def of(
        cls,
        edge_index: Any,
        ptr: Any,
        y: Any = None,
        *,
        node_labels: Any = None,
        node_attr: Any = None,
        edge_labels: Any = None,
        edge_weight: Any = None,
        split: Any = None,
    ) -> GraphsDataset:
        """Make a dataset of your own, from tensors, arrays or lists; whatever is wrong with them is said here.

        Args:
            edge_index: (2, E), ids of nodes counted over all graphs. Edges are undirected: a direction that is missing
                is added, an edge that is listed again counts once.
            ptr: (G + 1,); graph g has the nodes ``ptr[g] .. ptr[g + 1] - 1``, at least one.
            y: (G,) integers 0 .. C-1, the classes; or (G,) or (G, T) floats, the targets of a regression. None of new
                graphs.
            node_labels: (N,) integers.
            node_attr: (N, F) finite numbers.
            edge_labels: (E,) integers.
            edge_weight: (E,) numbers, not negative, one for both directions of an edge.
            split: (G,) 0 train, 1 validation, 2 test.

        Example:
            >>> GraphsDataset.of([[0, 2, 3], [1, 3, 4]], [0, 2, 5], [0, 1])
            GraphsDataset('graphs', graphs=2, nodes=5, edges=6, classes=2)
        """

        optional = {
            "y": y, "node_labels": node_labels, "node_attr": node_attr, "edge_labels": edge_labels,
            "edge_weight": edge_weight, "split": split,
        }  # fmt: skip
        given = {"edge_index": edge_index, "ptr": ptr} | {n: v for n, v in optional.items() if v is not None}
        arrays = {name: as_array(name, value) for name, value in given.items()}
        agree({name: Header(array.shape, array.dtype) for name, array in arrays.items()}, LABELLED, "graphs")
        made = graphs_of(arrays, name="graphs", source="graphs", sha256="", labelled=y is not None)
        return replace(made, sha256=digest_of(arrays))

    @property
    def regression(self) -> bool:
        """Are there real targets (y is (G, T) float32) rather than classes (y is (G,) int64)?"""
        return self.y.is_floating_point()

    @property
    def num_outputs(self) -> int:
        """What a network has to put out for each graph: T numbers of a regression, or scores of C classes."""
        return int(self.y.shape[1]) if self.regression else self.num_classes

    @property
    def num_graphs(self) -> int:
        """G."""
        return len(self.ptr) - 1

    @property
    def num_nodes(self) -> int:
        """N, of all graphs together."""
        return int(self.ptr[-1])

    @property
    def graph(self) -> Tensor:
        """(N,) int64, the graph 0 .. G-1 of each node."""
        return torch.repeat_interleave(torch.arange(self.num_graphs, device=self.ptr.device), self.ptr.diff())

    def select(self, ids: Tensor | Sequence[int]) -> GraphsDataset:
        """Return the graphs `ids`, in that order (an id may come twice), with nodes renumbered from 0.

        Edges come graph by graph, in the order that they have within their graph here. Classes and their number stay,
        even if none of the graphs is of some class.
        """
        ids = checks.ids("ids", ids, self.num_graphs).to(self.ptr.device)
        if not ids.numel():
            raise ParameterError("ids is empty: a set has one graph or more.")
        nodes, ptr = slices(self.ptr, ids)
        edges, edge_ptr = self._edges_of(ids)
        shift = torch.repeat_interleave(ptr[:-1] - self.ptr[ids], edge_ptr.diff(), output_size=len(edges))
        number = hashlib.sha256(ids.cpu().numpy().tobytes()).hexdigest()
        of = {"node_labels": nodes, "node_attr": nodes, "edge_labels": edges, "edge_weight": edges, "split": ids}
        taken: dict[str, Any] = {name: each[of[name]] for name in of if (each := getattr(self, name)) is not None}
        return replace(
            self,
            edge_index=self.edge_index[:, edges] + shift,
            ptr=ptr,
            y=self.y[ids],
            sha256=hashlib.sha256(f"{self.sha256} select {number}".encode()).hexdigest(),
            **taken,
        )

    def _edges_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges of the graphs `ids`, one graph after the other, and where each graph's begin, (n + 1,)."""
        owner = torch.searchsorted(self.ptr, self.edge_index[0].contiguous(), right=True) - 1
        ptr = torch.zeros_like(self.ptr)
        torch.cumsum(torch.bincount(owner, minlength=self.num_graphs), 0, out=ptr[1:])
        edges, edge_ptr = slices(ptr, ids)
        if not bool((owner[1:] >= owner[:-1]).all()):  # the file mixes the edges of different graphs
            edges = owner.argsort(stable=True)[edges]
        return edges, edge_ptr

    def to(self, device: torch.device | str) -> GraphsDataset:
        """The same dataset with every tensor on `device`."""
        return on_device(self, device)

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        what = f"targets={self.num_outputs}" if self.regression else f"classes={self.num_classes}"
        return (
            f"GraphsDataset({self.name!r}, graphs={self.num_graphs}, nodes={self.num_nodes}, "
            f"edges={self.edge_index.shape[1]}, {what})"
        )


def slices(ptr: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers ``ptr[i] .. ptr[i + 1] - 1`` for each i of `ids`, one after the other, and their own ptr."""
    count = ptr[ids + 1] - ptr[ids]
    own = torch.zeros(len(ids) + 1, dtype=ptr.dtype, device=ptr.device)
    torch.cumsum(count, 0, out=own[1:])
    total = int(own[-1])
    shift = torch.repeat_interleave(ptr[ids] - own[:-1], count, output_size=total)
    return torch.arange(total, device=ptr.device) + shift, own


ARRAYS: Final = ("edge_index", "ptr", "y")
AXES: Final[Axes] = {
    "edge_index": (2, "E"), "ptr": (("G", 1),), "node_labels": ("N",), "node_attr": ("N",), "edge_labels": ("E",),
    "edge_weight": ("E",),
}  # fmt: skip
MOST_LONE: Final = 2**22
"""Nodes of a file that has nothing to say of them."""
LONE_PER_EDGE: Final = 16
"""The same, for each end of an edge."""
LABELLED: Final[Axes] = {**AXES, "y": ("G",), "split": ("G",)}
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
    names, axes = (ARRAYS, LABELLED) if labelled else (ARRAYS[:-1], AXES)
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
        y, num_classes = _targets(arrays, num_graphs, source)
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
        split=_split(arrays, num_graphs, source) if labelled else None,
        provenance=provenance or name,
        targets=tuple(f"target {t}" for t in range(y.shape[1])) if y.is_floating_point() else (),
        notes=edges.notes,
    )


def _targets(arrays: Arrays, num_graphs: int, source: str) -> tuple[Tensor, int]:
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


def _split(arrays: Arrays, num_graphs: int, source: str) -> Tensor | None:
    if "split" not in arrays:
        return None
    split = integers(arrays, "split", source, shape=(num_graphs,))
    if set(split.tolist()) != {0, 1, 2}:
        raise DataError(f"{source}: split holds {sorted(set(split.tolist()))[:10]}; it must use all of 0, 1, 2.")
    return torch.from_numpy(split)
