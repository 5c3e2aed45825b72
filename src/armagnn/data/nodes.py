"""What a dataset of labelled nodes is, and how it is read from a file."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import choice, instance, tensor
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
    on_device,
    read_arrays,
    read_file,
    reals,
    sha256_of,
    single,
)
from armagnn.data.catalogue import CATALOGUE
from armagnn.data.edges import edges_of
from armagnn.data.graphs import slices
from armagnn.data.scaling import OF_KIND, Features, resolved, restandardised, scaled
from armagnn.data.splits import check_seed, random_split
from armagnn.errors import DataError, GraphError, ParameterError
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.building import Kind

SPLITS: Final = ("train", "val", "test")


# eq=False: comparing tensors gives tensors, so datasets are compared by `sha256`, not by ==.
@dataclass(frozen=True, eq=False)
class NodeDataset:
    """One graph, X, labels or real targets y, and the split of its nodes: node classification and node regression.

    Several graphs are one graph of several components; then `graph` tells them apart, and :meth:`part` takes the
    graphs of one split for inductive learning.

    Attributes:
        name: the name it was loaded by (or the path of its file).
        x: node features X, (N, F), float32, sparse or dense, scaled as `features` says.
        edge_index: (2, E) int64, source and target of every directed edge; both directions of each.
        y: (N,) int64 labels 0 .. C-1, or -1 for a node without a label; or, where a node may have many labels,
            (N, C) float32 of 0 and 1, zero for a node whose labels are unknown; or (N,) float32, the real targets of a
            regression, NaN for a node without a target.
        train_idx: ids of the labelled nodes to learn from.
        val_idx: ids of the labelled nodes to choose on.
        test_idx: ids of the labelled nodes to report on.
        num_classes: C; 0 for a regression.
        sha256: checksum of the file (and of what was done to it, by :meth:`part` or :meth:`with_random_split` say);
            two datasets with one checksum are the same.
        graph: (N,) int64, the graph 0 .. G-1 of each node, where there are several.
        provenance: what to call the data in results, e.g. ``PPI (rebuilt: 98.75 % of node labels)``.
        edge_weight: (E,) float32, the weight of each directed edge, the same in both directions; None if all are 1.
        features: how x is scaled: "rows", "standardise" or "none"; see :data:`armagnn.data.scaling.FEATURES`.
        notes: what was done with your own file to make this of it, in sentences.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> cora.num_nodes, cora.num_features, cora.num_classes
        (2708, 1433, 7)
        >>> cora.with_random_split(seed=3)
        NodeDataset('cora, random split 3', nodes=2708, edges=10556, features=1433, classes=7, split=140/500/1000)
    """

    name: str
    x: Tensor | CSR
    edge_index: Tensor
    y: Tensor
    train_idx: Tensor
    val_idx: Tensor
    test_idx: Tensor
    num_classes: int
    sha256: str
    graph: Tensor | None = None
    provenance: str = ""
    edge_weight: Tensor | None = None
    features: str = "none"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.x, CSR):
            tensor("x", self.x, 2)
        tensor("edge_index", self.edge_index, 2)
        tensor("y", self.y, 1, 2)
        for name in SPLITS:
            tensor(f"{name}_idx", self.idx(name), 1)

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.x.shape[0])

    @property
    def num_features(self) -> int:
        """F."""
        return int(self.x.shape[1])

    @property
    def num_graphs(self) -> int:
        """G; 1 where the dataset does not tell graphs apart."""
        return 1 if self.graph is None else int(self.graph.max()) + 1

    @property
    def multilabel(self) -> bool:
        """May a node have many labels (y is (N, C), 0 or 1) rather than one (y is (N,))?"""
        return self.y.dim() == 2

    @property
    def regression(self) -> bool:
        """Are there real targets (y is (N,) float32) rather than classes?"""
        return self.y.dim() == 1 and self.y.is_floating_point()

    @property
    def num_outputs(self) -> int:
        """What a network has to put out for each node: the target of a regression, or scores of C classes."""
        return 1 if self.regression else self.num_classes

    def operator(self, kind: Kind = "arma", **options: Any) -> GraphOperator:
        """The graph as an operator on the device of the dataset, D^-1/2 A D^-1/2 by default.

        The options are those of :meth:`GraphOperator.from_edge_index`; weights are those of the edges.

        Example:
            >>> from armagnn.data import load
            >>> load("cora").operator("gcn", gamma=0.5)
            GraphOperator('gcn', 2708 nodes, nnz=13264, float32, symmetric)
        """
        options = {"edge_weight": self.edge_weight} | options
        return GraphOperator.from_edge_index(self.edge_index, num_nodes=self.num_nodes, kind=kind, **options)

    def idx(self, split: str) -> Tensor:
        """The ids of the labelled nodes of ``"train"``, ``"val"`` or ``"test"``."""
        ids: Tensor = getattr(self, f"{choice('split', split, SPLITS)}_idx")
        return ids

    def part(self, split: str) -> NodeDataset:
        """The graphs that hold nodes of ``"train"``, ``"val"`` or ``"test"``, with all their nodes, renumbered.

        A training step on ``part("train")`` neither sees nor pays for the graphs of validation and test. Nodes keep
        their order; the ids of the other splits that lie in these graphs are kept, too (none do in PPI).
        """
        ids = self.idx(split)
        if self.graph is None:
            raise GraphError(f"{self.name} is one graph: part({split!r}) needs a dataset of several graphs, as PPI is.")
        wanted = torch.zeros(self.num_graphs, dtype=torch.bool, device=ids.device)
        wanted[self.graph[ids]] = True
        inside = wanted[self.graph]
        nodes = inside.nonzero().squeeze(1)
        number = inside.cumsum(0) - 1
        graph_number = wanted.cumsum(0) - 1
        kept = inside[self.edge_index[0]]
        moved: dict[str, Any] = {f"{name}_idx": number[old[inside[old]]] for name in SPLITS for old in [self.idx(name)]}
        return replace(
            self,
            name=f"{self.name}, {split}",
            x=select_rows(self.x, nodes),
            edge_index=number[self.edge_index[:, kept]],
            edge_weight=None if self.edge_weight is None else self.edge_weight[kept],
            y=self.y[nodes],
            graph=graph_number[self.graph[nodes]],
            sha256=self._changed(f"part {split}"),
            **moved,
        )

    def with_random_split(self, seed: int, *, per_class: int = 20, val: int = 500, test: int = 1000) -> NodeDataset:
        """The same graph with another split, drawn by `seed`; the defaults have the sizes of the public split.

        See :func:`armagnn.data.splits.random_split` for how it is drawn: a seed gives the same split everywhere.
        Features that are standardised are standardised anew, on the new training nodes.
        """
        seed = check_seed(seed)
        if self.multilabel:
            raise ParameterError(f"{self.name} has many labels per node: a split by classes needs one label per node.")
        if self.regression:
            raise ParameterError(f"{self.name} has real targets: a split by classes needs classes.")
        train_idx, val_idx, test_idx = random_split(self.y, seed, per_class=per_class, val=val, test=test)
        return replace(
            self,
            name=f"{self.name}, random split {seed}",
            x=restandardised(self.x, train_idx) if self.features == "standardise" else self.x,
            train_idx=train_idx,
            val_idx=val_idx,
            test_idx=test_idx,
            sha256=self._changed(f"random split {seed} {per_class} {val} {test}"),
        )

    def to(self, device: torch.device | str) -> NodeDataset:
        """The same dataset with every tensor on `device`."""
        return on_device(self, device)

    def derived(self, change: str) -> NodeDataset:
        """The same dataset with another checksum, for something that was done to it."""
        return replace(self, sha256=self._changed(instance("change", change, str, "a text")))

    def _changed(self, change: str) -> str:
        return hashlib.sha256(f"{self.sha256} {change}".encode()).hexdigest()

    def __repr__(self) -> str:
        graphs = "" if self.graph is None else f"graphs={self.num_graphs}, "
        return (
            f"NodeDataset({self.name!r}, {graphs}nodes={self.num_nodes}, edges={self.edge_index.shape[1]}, "
            f"features={self.num_features}, {'targets=1' if self.regression else f'classes={self.num_classes}'}, "
            f"split={len(self.train_idx)}/{len(self.val_idx)}/{len(self.test_idx)})"
        )


def select_rows(x: Tensor | CSR, nodes: Tensor) -> Tensor | CSR:
    """Return the rows `nodes` of X, in that order: (n, F).

    Example:
        >>> x = CSR.from_dense(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]))
        >>> select_rows(x, torch.tensor([2, 0])).to_dense()
        tensor([[3., 4.],
                [1., 0.]])
    """
    if isinstance(x, Tensor):
        return x[nodes]
    entries, rowptr = slices(x.rowptr, nodes)
    return CSR(rowptr, x.col[entries], x.value[entries], (len(nodes), x.shape[1]))


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
        **{name: torch.from_numpy(ids) for name, ids in splits.items()},
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
