"""Node features of sets of graphs: degree, clustering coefficient, one-hot labels, attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import choice, ids, instance, integer, tensor
from armagnn.data.graphs import FEATURE_KINDS, GraphsDataset
from armagnn.errors import DataError, ParameterError, ShapeError, shown

MOST_ENTRIES: Final = 2**28
"""Of a one-hot matrix: 1 GiB."""
MOST_LABELS: Final = 2**20


@dataclass(frozen=True, eq=False)
class NodeFeatures:
    """X (N, F) float32 with a name for each column; `vocabulary` has the node labels behind the one-hot columns.

    Example:
        >>> NodeFeatures(torch.zeros(3, 2), ("degree", "label 7"), (7,))
        NodeFeatures((3, 2): degree, label 7)
    """

    x: Tensor
    names: tuple[str, ...]
    vocabulary: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        tensor("x", self.x, 2)
        instance("names", self.names, tuple, "a tuple of names")
        if len(self.names) != self.x.shape[1] or not all(isinstance(name, str) for name in self.names):
            raise ShapeError(f"names must be {self.x.shape[1]} texts, one for each column, got {shown(self.names)}.")

    @property
    def numeric(self) -> Tensor:
        """(F,) mask of the columns that are not one-hot: z-scores of a rare label are as large as the floor allows."""
        return torch.tensor([not name.startswith("label ") for name in self.names], device=self.x.device)

    def __repr__(self) -> str:
        return f"NodeFeatures({tuple(self.x.shape)}: {', '.join(self.names)})"


def node_features(
    dataset: GraphsDataset, *, kinds: Sequence[str] | None = None, vocabulary: Sequence[int] | None = None
) -> NodeFeatures:
    """Describe every node by its degree, its clustering coefficient, its label (one-hot) and its attributes.

    What the set does not have (labels, attributes) is left out; nothing is scaled yet (see :class:`Scaler`). The
    degree counts neighbours: self-loops, parallel edges and directions are ignored, as they are by :func:`clustering`.
    `kinds` chooses among ``"degree", "clustering", "labels", "attributes"``; by default it is the set's own choice
    (QM9's nodes are described by their element only). `vocabulary` lists the node labels, by default those of the set:
    give that of the training set when new graphs are to be described alike.

    Example:
        >>> from armagnn.data import load_graphs
        >>> found = node_features(load_graphs("mutag"))
        >>> found
        NodeFeatures((3371, 9): degree, clustering, label 0, label 1, label 2, label 3, label 4, label 5, label 6)
        >>> found.x[0]
        tensor([2., 0., 1., 0., 0., 0., 0., 0., 0.])
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    if kinds is not None:
        instance("kinds", kinds, (list, tuple), "a list of kinds of node features")
        kinds = tuple(choice("kind of node features", kind, FEATURE_KINDS) for kind in kinds)
    chosen = dataset.feature_kinds if kinds is None else tuple(kinds)
    if vocabulary is not None:
        instance("vocabulary", vocabulary, (list, tuple, set, frozenset, range), "a list of node labels, integers")
        vocabulary = list(islice(vocabulary, MOST_LABELS + 1))
        if len(vocabulary) > MOST_LABELS:
            raise ParameterError(f"vocabulary has more than {MOST_LABELS} labels; each would be a column.")
        vocabulary = [integer("a label of the vocabulary", label, -(2**63), 2**63 - 1) for label in vocabulary]
    labels, attributes = dataset.node_labels, dataset.node_attr
    known: tuple[int, ...] = ()
    columns: list[Tensor] = []
    names: list[str] = []
    if "degree" in chosen or "clustering" in chosen:
        matrix = _adjacency(dataset)
        measures: dict[str, Callable[[sp.csr_array], NDArray[np.float64]]] = {"degree": _degree, "clustering": _ratio}
        for name in (name for name in measures if name in chosen):
            columns.append(torch.from_numpy(measures[name](matrix)).float().to(dataset.ptr.device).unsqueeze(1))
            names.append(name)
    if "labels" in chosen and labels is not None:
        known = tuple(torch.unique(labels).tolist() if vocabulary is None else sorted(set(vocabulary)))
        columns.append(one_hot(labels, known))
        names += [f"label {value}" for value in known]
    if "attributes" in chosen and attributes is not None:
        columns.append(attributes)
        names += [f"attribute {column}" for column in range(attributes.shape[1])]
    if not columns:
        raise ParameterError(f"{dataset.name} has none of the node features {', '.join(chosen) or '(none asked for)'}.")
    return NodeFeatures(torch.cat(columns, dim=1), tuple(names), known)


def one_hot(labels: Tensor, vocabulary: Sequence[int]) -> Tensor:
    """Return one column for each label of the ascending `vocabulary`, (N, V) float32, with a 1 where a node has it.

    Example:
        >>> one_hot(torch.tensor([7, 2]), (2, 5, 7))
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
    values = torch.tensor(list(vocabulary), dtype=torch.int64, device=labels.device)
    place = torch.searchsorted(values, labels)
    if values.numel() == 0 or not bool((values[place.clamp(max=len(values) - 1)] == labels).all()):
        strange = sorted(set(labels.tolist()) - set(values.tolist()))
        raise DataError(f"node_labels holds {strange[:5]}, which the vocabulary of {len(values)} labels does not have.")
    if place.numel() * len(values) > MOST_ENTRIES:
        raise DataError(
            f"node_labels has {len(values)} labels for {place.numel()} nodes; one-hot, they would be too many numbers. "
            "If they are ids rather than kinds of nodes, leave them out."
        )
    return torch.zeros(place.numel(), len(values), device=labels.device).scatter_(1, place.unsqueeze(1), 1.0)


def clustering(dataset: GraphsDataset) -> Tensor:
    """Return how many of the pairs of neighbours of each node are neighbours themselves, (N,) in 0 .. 1, float32.

    With A the binary adjacency (self-loops, parallel edges and directions ignored), node i of degree d_i is in
    t_i = ½ Σ_j (A² ∘ A)_ij triangles, and its coefficient is 2 t_i / (d_i (d_i - 1)), or 0 where d_i < 2.

    Example:
        >>> from armagnn.data import load_graphs
        >>> int((clustering(load_graphs("mutag")) > 0).sum())  # there are no triangles in these molecules
        0
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    return torch.from_numpy(_ratio(_adjacency(dataset))).float().to(dataset.ptr.device)


def _adjacency(dataset: GraphsDataset) -> sp.csr_array:
    """Return the binary symmetric adjacency of all graphs, int32, without self-loops."""
    source, target = dataset.edge_index.cpu().numpy()
    proper = source != target
    ends = np.concatenate([source[proper], target[proper]]), np.concatenate([target[proper], source[proper]])
    size = (dataset.num_nodes, dataset.num_nodes)
    matrix = sp.coo_array((np.ones(ends[0].size, dtype=np.int32), ends), shape=size).tocsr()  # sums parallel edges
    matrix.data[:] = 1
    return matrix


def _degree(matrix: sp.csr_array) -> NDArray[np.float64]:
    degree: NDArray[np.float64] = np.diff(matrix.indptr).astype(np.float64)
    return degree


def _ratio(matrix: sp.csr_array) -> NDArray[np.float64]:
    degree = _degree(matrix)
    ratio: NDArray[np.float64] = 2 * _triangles(matrix) / np.maximum(degree * (degree - 1), 1)
    return ratio


def _triangles(matrix: sp.csr_array) -> NDArray[np.float64]:
    """Return the triangles of each node.

    An edge leads to its end of the higher degree: so few leave a hub, and A², which has the square of its degree of
    entries, is not needed. Of a triangle u → v → w, u → w, the first product below counts it for u, the second for v
    and w.
    """
    rank = np.empty(matrix.shape[0], dtype=np.int64)
    rank[np.argsort(np.diff(matrix.indptr), kind="stable")] = np.arange(matrix.shape[0])
    edges = matrix.tocoo()
    kept = rank[edges.coords[0]] < rank[edges.coords[1]]
    up = sp.csr_array((edges.data[kept], tuple(end[kept] for end in edges.coords)), shape=matrix.shape)
    first, others = (up @ up).multiply(up), (up.T @ up).multiply(up)
    return np.asarray(first.sum(axis=1) + others.sum(axis=1) + others.sum(axis=0), dtype=np.float64)


def nodes_of(dataset: GraphsDataset, graphs: Tensor) -> Tensor:
    """Return a mask (N,) of the nodes of `graphs` (ids): the rows that :meth:`Scaler.fit` may see.

    Example:
        >>> from armagnn.data import load_graphs
        >>> nodes_of(load_graphs("mutag"), torch.tensor([0, 1])).sum()
        tensor(30)
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    wanted = torch.zeros(dataset.num_graphs, dtype=torch.bool, device=dataset.ptr.device)
    wanted[ids("graphs", graphs, dataset.num_graphs).to(dataset.ptr.device)] = True
    return wanted[dataset.graph]
