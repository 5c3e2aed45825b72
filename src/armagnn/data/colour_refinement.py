"""What no network that passes messages can tell apart, and what that costs at least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import flag, instance, tensor
from armagnn.data.features import NodeFeatures, node_features
from armagnn.data.graphs import GraphsDataset
from armagnn.errors import ParameterError, ShapeError

SEED: Final = 0
Array = np.ndarray[Any, Any]


def refined_classes(
    dataset: GraphsDataset, features: NodeFeatures | None = None, *, edge_labels: bool = False
) -> Tensor:
    r"""The class of each graph, (G,) int64, under colour refinement (1-WL):

    .. math::
        c_v^{(t+1)} = \left( c_v^{(t)}, \{\!\{ c_u^{(t)} : u \sim v \}\!\} \right), \qquad
        C_g = \{\!\{ c_v^{(\infty)} : v \in g \}\!\},

    from the features of the nodes, and their self-loops, as first colours; weights of edges are seen. Graphs of one
    class give the same output in every network of `armagnn.tasks.GraphNet`, whatever its weights and depth: ARMA, GCN,
    Chebyshev, CayleyNet, GAT, GraphSAGE, GIN (Xu et al., *How powerful are graph neural networks?*, 2019). A multiset
    is recognised by the sum of random numbers of 64 bits, one for each colour: two different multisets are taken for
    the same once in 10^19 comparisons.

    Args:
        dataset: the graphs.
        features: of the nodes; by default those of the dataset.
        edge_labels: let a node see the labels of its edges too, as these networks do not.

    Example:
        >>> from armagnn.data import load_graphs
        >>> len(refined_classes(load_graphs("mutag")).unique())
        175
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    features = node_features(dataset) if features is None else features
    instance("features", features, NodeFeatures, "NodeFeatures, as node_features gives them")
    flag("edge_labels", edge_labels)
    if features.x.shape[0] != dataset.num_nodes:
        raise ShapeError(f"features are of {features.x.shape[0]} nodes, but the graphs have {dataset.num_nodes}.")
    if edge_labels and dataset.edge_labels is None:
        raise ParameterError(f"{dataset.name} has no edge labels; leave edge_labels=False.")
    labels = dataset.edge_labels.numpy(force=True) if edge_labels and dataset.edge_labels is not None else 0
    if dataset.edge_weight is not None:
        weights = dataset.edge_weight.numpy(force=True)
        labels, _ = _numbered(np.stack(np.broadcast_arrays(labels, weights), axis=1).astype(np.float64))
    source, target = dataset.edge_index.numpy(force=True)
    edges = np.stack(np.broadcast_arrays(source, target, labels), axis=1).astype(np.int64)
    number, several = _numbered(edges)  # parallel edges are one of another kind
    times = np.bincount(number, minlength=several)[number]
    labels, kinds = _numbered(np.stack([edges[:, 2], times], axis=1))
    loops = np.bincount(source[source == target], minlength=dataset.num_nodes)
    generator = np.random.default_rng(SEED)

    def numbers(count: int) -> Array:
        return generator.integers(0, 2**64, max(count, 1), dtype=np.uint64)

    x = features.x.numpy(force=True) + 0.0  # -0.0 is 0.0
    colour, count = _numbered(np.concatenate([x, loops[:, None].astype(x.dtype)], axis=1))
    while True:
        seen = np.zeros(dataset.num_nodes, np.uint64)
        np.add.at(seen, target, numbers(count * kinds)[colour[source] * kinds + labels])
        before, (colour, count) = count, _numbered(np.stack([colour.astype(np.uint64), seen], axis=1))
        if count == before:
            break
    sums = np.zeros(dataset.num_graphs, np.uint64)
    np.add.at(sums, dataset.graph.numpy(force=True), numbers(count)[colour])
    return torch.from_numpy(np.unique(sums, return_inverse=True)[1])


@dataclass(frozen=True)
class Bound:
    """What any function of the classes has on a set of graphs at best: on all of them, knowing every label.

    Attributes:
        classes: how many there are.
        twins: share of the graphs that have another one in their class.
        best: of a classification "accuracy", as a share; of a regression the mean squared error of each target, in
            units of its variance.
    """

    classes: int
    twins: float
    best: dict[str, float]


def bound(dataset: GraphsDataset, classes: Tensor) -> Bound:
    """What no network can do better than that gives graphs of one class the same output.

    It holds for all graphs of the set together, and on average for test folds whose labels the network has not seen;
    a function that is fitted to the labels of one fold can do better there.

    Example:
        >>> from armagnn.data import load_graphs
        >>> mutag = load_graphs("mutag")
        >>> bound(mutag, refined_classes(mutag))
        Bound(classes=175, twins=0.1276595744680851, best={'accuracy': 1.0})
    """
    instance("dataset", dataset, GraphsDataset, "a set of graphs")
    tensor("classes", classes)
    if classes.shape != (dataset.num_graphs,):
        raise ShapeError(f"classes must be of shape ({dataset.num_graphs},), got {tuple(classes.shape)}.")
    number, size = np.unique(classes.numpy(force=True), return_inverse=True, return_counts=True)[1:]
    twins = float((size[number] > 1).mean())
    y = dataset.y.numpy(force=True)
    if not dataset.regression:
        if (y < 0).any():
            raise ParameterError(f"{dataset.name}: {int((y < 0).sum())} graphs have no label.")
        pairs, times = np.unique(np.stack([number, y], axis=1), axis=0, return_counts=True)
        most = np.zeros(len(size), np.int64)
        np.maximum.at(most, pairs[:, 0], times)
        return Bound(len(size), twins, {"accuracy": float(most.sum() / len(y))})
    y = y.astype(np.float64)
    names = dataset.targets or tuple(f"target {t}" for t in range(y.shape[1]))
    best = {}
    for name, target in zip(names, y.T, strict=True):
        centred = target - target.mean()
        means = np.bincount(number, centred) / size
        spread = float((centred**2).mean())
        best[name] = float(((centred - means[number]) ** 2).mean()) / spread if spread else 0.0
    return Bound(len(size), twins, best)


def _numbered(rows: Array) -> tuple[Array, int]:
    """Number the different rows from 0, and return how many there are."""
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    different, number = np.unique(whole, return_inverse=True)
    return number, len(different)
