"""The statistics of a dataset, to compare with the paper's."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from armagnn.checks import flag, instance
from armagnn.data.arrays import NO_LABEL
from armagnn.data.catalogue import all_entries
from armagnn.data.graphs import GraphsDataset
from armagnn.data.loading import find_entry, load_any, load_signals, locate, prepared_name
from armagnn.data.nodes import SPLITS, NodeDataset
from armagnn.data.sets.news import read_documents
from armagnn.data.signals import SignalsDataset
from armagnn.data.splits import shuffled

DatasetStatistics = dict[str, int | float | str]
PATHS: Final = "average shortest path"


def statistics(data: NodeDataset | GraphsDataset | SignalsDataset, *, paths: bool = True) -> DatasetStatistics:
    """Count what there is; the average shortest path, which takes seconds on large graphs, only with `paths`.

    Example:
        >>> from armagnn.data import load_graphs
        >>> found = statistics(load_graphs("mutag"))
        >>> found["nodes, average"], found["edges, each once, average"], found["average shortest path"]
        (17.93, 19.79, '3.87 ± 2.11 (all pairs)')
    """
    instance("data", data, (NodeDataset, GraphsDataset, SignalsDataset), "a dataset")
    flag("paths", paths)
    if isinstance(data, SignalsDataset):
        found = _of_signals(data)
    else:
        found = _of_nodes(data) if isinstance(data, NodeDataset) else _of_graphs(data)
    if paths:
        found[PATHS] = str(path_lengths(data.edge_index.cpu().numpy(), data.num_nodes))
    return found


def statistics_of(name: str, *, paths: bool = True) -> DatasetStatistics:
    """Count what is in the files of a dataset of the catalogue, of whatever kind."""
    entry = find_entry(name)
    flag("paths", paths)
    if entry.kind == "documents":
        place = locate(entry, name)
        found = _of_documents(place.content(), place.source)
        prepared = prepared_name(name) in all_entries()
        return found | (statistics(load_signals(name), paths=paths) if prepared else {})
    data: Any = load_any(name)
    if entry.kind == "images":
        return _of_images(data, paths=paths)
    return _of_molecules(data, paths=paths) if entry.kind == "molecules" else statistics(data, paths=paths)


def _edges(edge_index: torch.Tensor, num_nodes: int) -> DatasetStatistics:
    source, target = edge_index.cpu().numpy()
    loops = int((source == target).sum())
    once = np.unique(np.minimum(source, target) * num_nodes + np.maximum(source, target)).size
    touched = np.zeros(num_nodes, dtype=bool)
    touched[source[source != target]] = touched[target[source != target]] = True
    matrix = coo_array((np.ones(source.size, dtype=np.int8), (source, target)), shape=(num_nodes, num_nodes))
    components, _ = connected_components(matrix, directed=False)
    return {
        "edges, directed": int(source.size),
        "edges, each once": int(once),
        "self-loops": loops,
        "isolated nodes": int((~touched).sum()),
        "components": int(components),
    }


def _of_nodes(data: NodeDataset) -> DatasetStatistics:
    found: DatasetStatistics = {}
    if data.graph is not None:
        graphs = [len(set(data.graph[data.idx(split)].tolist())) for split in SPLITS]
        found |= {"graphs": data.num_graphs, "split of graphs": "/".join(map(str, graphs))}
    found |= {"nodes": data.num_nodes, "features": data.num_features}
    if data.regression:
        known = data.y[~data.y.isnan()].double()
        found["target, mean ± deviation"] = f"{known.mean():.5g} ± {known.std(correction=0):.5g}"
    else:
        found |= {"classes": data.num_classes, "labels a node": "many" if data.multilabel else "one"}
    found["split"] = "/".join(str(len(data.idx(split))) for split in SPLITS)
    if data.multilabel:
        found["nodes in no split"] = data.num_nodes - sum(len(data.idx(split)) for split in SPLITS)
    else:
        found["nodes without a label"] = int((data.y.isnan() if data.regression else data.y == NO_LABEL).sum())
    return found | _edges(data.edge_index, data.num_nodes)


def _of_graphs(data: GraphsDataset) -> DatasetStatistics:
    edges = _edges(data.edge_index, data.num_nodes)
    found: DatasetStatistics = {"graphs": data.num_graphs}
    if data.regression:
        mean, deviation = data.y.double().mean(0).tolist(), data.y.double().std(0, correction=0).tolist()
        found["targets"] = data.num_outputs
        for t, name in enumerate(data.targets):
            found[f"{name}, mean ± deviation"] = f"{mean[t]:.5g} ± {deviation[t]:.5g}"
    else:
        known = data.y[data.y != NO_LABEL]
        found["classes"] = data.num_classes
        found["graphs a class"] = "/".join(map(str, torch.bincount(known, minlength=data.num_classes).tolist()))
    found |= {
        "nodes, average": round(data.num_nodes / data.num_graphs, 2),
        "edges, each once, average": round(int(edges["edges, each once"]) / data.num_graphs, 2),
        "edges, directed, average": round(int(edges["edges, directed"]) / data.num_graphs, 2),
        "node attributes": "none" if data.node_attr is None else data.node_attr.shape[1],
        "node labels": "no" if data.node_labels is None else f"yes, {len(set(data.node_labels.tolist()))} values",
        "edge labels": "no" if data.edge_labels is None else f"yes, {len(set(data.edge_labels.tolist()))} values",
    }
    if data.edge_weight is not None and len(data.edge_weight):
        found["edge weights"] = f"{data.edge_weight.min():g} to {data.edge_weight.max():g}"
    if data.split is not None:
        found["split"] = "/".join(map(str, torch.bincount(data.split, minlength=3).tolist()))
    return found | {key: edges[key] for key in ("self-loops", "isolated nodes", "components")}


def _of_signals(data: SignalsDataset) -> DatasetStatistics:
    split = "/".join(str(len(data.idx(part))) for part in SPLITS)
    found: DatasetStatistics = {"signals": data.num_signals, "classes": data.num_classes, "nodes": data.num_nodes}
    found["node features"] = "none" if data.table is None else data.table.shape[1]
    return found | {"split": split} | _edges(data.edge_index, data.num_nodes)


def _of_images(data: SignalsDataset, *, paths: bool) -> DatasetStatistics:
    """Count pictures as the paper's table of MNIST does; the file has no split of what is for training."""
    found = statistics(data, paths=paths)
    train = len(data.train_idx) + len(data.val_idx)
    images: DatasetStatistics = {
        "images": data.num_signals,
        "classes": found.pop("classes"),
        "nodes": found.pop("nodes"),
        "split in the file": f"{train}/{len(data.test_idx)}",
    }
    return images | {key: value for key, value in found.items() if key not in ("signals", "node features", "split")}


def _of_documents(content: bytes, source: str) -> DatasetStatistics:
    documents = read_documents(content, source)
    return {
        "documents": len(documents),
        "classes": len({row["label"] for row in documents}),
        "split in the file": "/".join(str(count) for count in Counter(row["split"] for row in documents).values()),
    }


def _of_molecules(data: GraphsDataset, *, paths: bool) -> DatasetStatistics:
    """Count atoms and bonds as the paper's table of QM9 does."""
    found = statistics(data, paths=paths)
    both = data.edge_index.shape[1]
    elements = 0 if data.node_labels is None else int(torch.unique(data.node_labels).numel())
    kinds = 0 if data.edge_labels is None else int(torch.unique(data.edge_labels).numel())
    return {
        "molecules": data.num_graphs,
        "nodes, average": found.pop("nodes, average"),
        "bonds, average": round(both / 2 / data.num_graphs, 2),
        "2 × bonds + nodes, average": round((both + data.num_nodes) / data.num_graphs, 2),
        "node attributes": f"1 (the element, {elements} values)",
        "elements": elements,
        "kinds of bonds": kinds,
    } | {key: value for key, value in found.items() if key not in _SAID_OTHERWISE}


_SAID_OTHERWISE: Final = (
    "graphs", "edges, each once, average", "edges, directed, average", "node attributes", "node labels", "edge labels",
)  # fmt: skip


SAMPLES: Final = 1024
"""Sources of the searches where a graph is too large for all."""
SAMPLE_SEED: Final = 0
SOURCES: Final = 101
"""Purpose of the draw of the sources; see :mod:`armagnn.randomness`."""
MOST_WORK: Final = 10**8  # words touched per level of the search: a few seconds on one core
WORDS: Final = 4  # 64 x 4 sources at a time keep a search within the caches


@dataclass(frozen=True)
class PathLengths:
    """Mean and deviation of the distances of node pairs that are connected, and from how many sources they are."""

    mean: float
    deviation: float
    pairs: int
    sources: int
    exact: bool

    def __str__(self) -> str:
        if not self.pairs:
            return "no paths"
        how = "all pairs" if self.exact else f"from {self.sources:,} random sources, seed {SAMPLE_SEED}"
        return f"{self.mean:.2f} ± {self.deviation:.2f} ({how})"


def path_lengths(
    edge_index: NDArray[np.int64], num_nodes: int, *, samples: int = SAMPLES, most_work: int = MOST_WORK
) -> PathLengths:
    """Return the lengths of the shortest paths between all connected pairs of different nodes, directions ignored.

    It is exact where all searches take seconds (Pubmed and PPI do); else the searches start from `samples` nodes
    drawn with a fixed seed.

    Example:
        >>> print(path_lengths(np.array([[0, 1], [1, 2]]), 4))  # a path of three nodes and a node alone
        1.33 ± 0.47 (all pairs)
    """
    pieces = _components(edge_index, num_nodes)
    work = sum(piece.matrix.nnz * -(-piece.width // 64) for piece in pieces)
    exact = work <= most_work or samples >= num_nodes
    chosen = np.ones(num_nodes, dtype=bool)
    if not exact:
        chosen[:] = False
        chosen[shuffled(SAMPLE_SEED, SOURCES, num_nodes)[:samples].numpy()] = True
    counts: list[int] = []  # pairs at distance 1, 2, ...
    for piece in pieces:
        starts = np.flatnonzero(chosen[piece.nodes])
        if piece.bit is not None:
            _search(piece.matrix, starts, piece.bit[starts], counts)
            continue
        for first in range(0, starts.size, 64 * WORDS):
            some = starts[first : first + 64 * WORDS]
            _search(piece.matrix, some, np.arange(some.size), counts)
    pairs = sum(counts)
    mean = sum(d * count for d, count in enumerate(counts, 1)) / max(pairs, 1)
    variance = sum((d - mean) ** 2 * count for d, count in enumerate(counts, 1)) / max(pairs, 1)
    return PathLengths(mean, math.sqrt(variance), pairs, int(chosen.sum()), exact)


@dataclass(frozen=True)
class _Piece:
    """One large component, or all small ones, each of whose nodes has a different `bit` within its component."""

    matrix: sp.csr_array
    nodes: NDArray[np.int64]
    width: int
    bit: NDArray[np.int64] | None = None


def _components(edge_index: NDArray[np.int64], num_nodes: int) -> list[_Piece]:
    """Return the components of two nodes or more, without self-loops; those of up to 64 nodes together as one piece."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    ones = np.ones(2 * source.size, dtype=np.int8)
    both = np.concatenate([source, target]), np.concatenate([target, source])
    adjacency = sp.coo_array((ones, both), shape=(num_nodes, num_nodes)).tocsr()
    _, label = connected_components(adjacency, directed=False)
    size = np.bincount(label, minlength=1)
    # by size, so that the small components lie side by side; then by component
    order = np.lexsort((label, np.where(size > 64, 2, np.where(size > 1, 1, 0))[label]))
    adjacency = adjacency[order][:, order]
    place = np.arange(num_nodes)
    lone, small = int((size == 1).sum()), int(size[(size > 1) & (size <= 64)].sum())
    pieces = []
    if small:
        fresh = np.r_[True, np.diff(label[order[lone : lone + small]]) != 0]
        bit = place[:small] - np.maximum.accumulate(np.where(fresh, place[:small], 0))
        pieces.append(_Piece(_block(adjacency, lone, lone + small), order[lone : lone + small], 64, bit))
    ends = lone + small + np.cumsum(size[size > 64])
    for start, end in zip(ends - size[size > 64], ends, strict=True):
        pieces.append(_Piece(_block(adjacency, start, end), order[start:end], end - start))
    return pieces


def _block(matrix: sp.csr_array, start: int, end: int) -> sp.csr_array:
    low, high = matrix.indptr[start], matrix.indptr[end]
    parts = matrix.data[low:high], matrix.indices[low:high] - start, matrix.indptr[start : end + 1] - low
    return sp.csr_array(parts, shape=(end - start, end - start))


def _search(piece: sp.csr_array, starts: NDArray[np.int64], bit: NDArray[np.int64], counts: list[int]) -> None:
    """Add the number of pairs (start, node) at each distance to `counts`.

    Start i is followed by bit ``bit[i]``; two starts may share one only if no path joins them.
    """
    front = np.zeros((piece.shape[0], int(bit.max(initial=0)) // 64 + 1), dtype=np.uint64)
    front[starts, bit // 64] = np.uint64(1) << (bit % 64).astype(np.uint64)
    unseen = ~front
    distance = 0
    while True:
        # every node has a neighbour here, so that no segment of reduceat is empty
        front = np.bitwise_or.reduceat(front[piece.indices], piece.indptr[:-1], axis=0) & unseen
        found = int(np.bitwise_count(front).sum(dtype=np.int64))
        if not found:
            return
        if distance == len(counts):
            counts.append(0)
        counts[distance] += found
        unseen &= ~front
        distance += 1
