"""What a dataset is like, in numbers, to be put beside the paper's."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from armagnn.checks import flag, instance
from armagnn.data.archives import gunzip
from armagnn.data.arrays import read_arrays
from armagnn.data.catalogue import all_entries, find_entry, load_molecules, load_signals, parse, prepared_name
from armagnn.data.checks import NO_LABEL
from armagnn.data.dataset import SPLITS, NodeDataset
from armagnn.data.graphs import GraphsDataset
from armagnn.data.mnist import AXES, NAMES, grid_graph
from armagnn.data.paths import path_lengths
from armagnn.data.signals import SignalsDataset
from armagnn.data.store import locate
from armagnn.errors import DataError

Statistics = dict[str, int | float | str]
PATHS: Final = "average shortest path"


def statistics(data: NodeDataset | GraphsDataset | SignalsDataset, *, paths: bool = True) -> Statistics:
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


def statistics_of(name: str, *, paths: bool = True) -> Statistics:
    """Count what is in the files of a dataset of the catalogue, of whatever kind."""
    entry = find_entry(name)
    flag("paths", paths)
    place = locate(entry, name)
    content = place.content()
    if entry.kind == "images":
        return _of_images(content, place.source, paths=paths)
    if entry.kind == "signals":
        return statistics(load_signals(name), paths=paths)
    if entry.kind == "documents":
        found = _of_documents(content, place.source)
        prepared = prepared_name(name) in all_entries()
        return found | (statistics(load_signals(name), paths=paths) if prepared else {})
    if entry.kind == "molecules":
        return _of_molecules(load_molecules(entry, name), paths=paths)
    return statistics(parse(entry, content, name=name, source=place.source), paths=paths)


def _edges(edge_index: torch.Tensor, num_nodes: int) -> Statistics:
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


def _of_nodes(data: NodeDataset) -> Statistics:
    found: Statistics = {}
    if data.graph is not None:
        graphs = [len(set(data.graph[data.idx(split)].tolist())) for split in SPLITS]
        found |= {"graphs": data.num_graphs, "split of graphs": "/".join(map(str, graphs))}
    found |= {"nodes": data.num_nodes, "features": data.num_features, "classes": data.num_classes}
    found["labels a node"] = "many" if data.multilabel else "one"
    found["split"] = "/".join(str(len(data.idx(split))) for split in SPLITS)
    if data.multilabel:
        found["nodes in no split"] = data.num_nodes - sum(len(data.idx(split)) for split in SPLITS)
    else:
        found["nodes without a label"] = int((data.y == NO_LABEL).sum())
    return found | _edges(data.edge_index, data.num_nodes)


def _of_graphs(data: GraphsDataset) -> Statistics:
    edges = _edges(data.edge_index, data.num_nodes)
    found: Statistics = {"graphs": data.num_graphs}
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


def _of_signals(data: SignalsDataset) -> Statistics:
    split = "/".join(str(len(data.idx(part))) for part in SPLITS)
    found: Statistics = {"signals": data.num_signals, "classes": data.num_classes, "nodes": data.num_nodes}
    found["node features"] = "none" if data.table is None else data.table.shape[1]
    return found | {"split": split} | _edges(data.edge_index, data.num_nodes)


def _of_images(content: bytes, source: str, *, paths: bool) -> Statistics:
    arrays = read_arrays(content, NAMES, source, what="images", axes=AXES)
    train, test = arrays["x_train"], arrays["x_test"]
    side = train.shape[1]
    graph = grid_graph(side)
    found: Statistics = {
        "images": len(train) + len(test),
        "classes": int(np.unique(arrays["y_train"]).size),
        "nodes": int(np.prod(train.shape[1:])),
        "split in the file": f"{len(train)}/{len(test)}",
    }
    found |= _edges(graph, side * side)
    return found | ({PATHS: str(path_lengths(graph.numpy(), side * side))} if paths else {})


def _of_documents(content: bytes, source: str) -> Statistics:
    splits: dict[str, int] = {}
    groups = set()
    try:
        for line in gunzip(content, source).splitlines():
            row = json.loads(line)
            splits[row["split"]] = splits.get(row["split"], 0) + 1
            groups.add(row["label"])
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{source}: not gzipped JSON lines with split and label ({error}). Fetch it again.") from error
    return {
        "documents": sum(splits.values()),
        "classes": len(groups),
        "split in the file": "/".join(str(count) for count in splits.values()),
    }


def _of_molecules(data: GraphsDataset, *, paths: bool) -> Statistics:
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
