"""Datasets from the objects of PyTorch Geometric and networkx."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import choice
from armagnn.data.arrays import Arrays, as_array, as_tensor, digest_of, single
from armagnn.data.node_files import scaled, undirected
from armagnn.data.scaling import FEATURES, Scaler
from armagnn.data.tables.edge_tables import EdgeColumns
from armagnn.data.tables.frame import NodeIds
from armagnn.data.tables.node_targets import NodeTarget
from armagnn.data.tables.table_schema import TableSchema
from armagnn.data.tables.table_splits import NodeSplit, SplitWish, draw_split, split_ids
from armagnn.errors import DataError, DTypeError, ParameterError, shown

if TYPE_CHECKING:
    from armagnn.data.graphs import GraphsDataset
    from armagnn.data.nodes import NodeDataset

PARTS = ("train", "val", "test")


def _attribute(data: Any, name: str) -> Any:
    found = getattr(data, name, None)
    return found.to_dense() if isinstance(found, Tensor) and found.layout is not torch.strided else found


def nodes_from_pyg(
    data: Any, *, directed: bool, features: str, val: float, test: float, seed: int, split: int, name: str
) -> NodeDataset:
    """See `NodeDataset.from_pyg`."""
    from armagnn.data.nodes import NodeDataset

    x, edge_index, y = (_attribute(data, part) for part in ("x", "edge_index", "y"))
    if not isinstance(edge_index, Tensor) or not isinstance(y, Tensor):
        raise DTypeError(f"data must be a torch_geometric.data.Data with edge_index and y, got {shown(data)}.")
    count = int(data.num_nodes)
    x = torch.ones(count, 1) if x is None else x
    arrays: Arrays = {"x": as_array("x", x), "edge_index": as_array("edge_index", edge_index), "y": as_array("y", y)}
    if arrays["x"].ndim != 2 or len(arrays["x"]) != count:
        raise DataError(f"data.x has shape {arrays['x'].shape}; it must be ({count}, F).")
    target = _target(arrays["y"], count)
    weight = _edge_weight(data, arrays["edge_index"].shape[1])
    index, weight = _checked_edges(arrays["edge_index"], weight, count, directed)
    parts = _masks(data, target, split)
    if parts is None:
        drawn = draw_split(target, SplitWish(val=val, test=test, seed=seed), "data")
    else:
        drawn = NodeSplit(parts[0], parts[1], parts[2], "split: by the masks of the data.")
    how = choice("scaling of features", features, FEATURES)
    how = "standardise" if how in ("auto", "kind") else how
    scaled_x, said = scaled(arrays["x"], how, drawn.train, "data")  # type: ignore[arg-type]  # it is checked
    indices = split_ids(drawn)
    mean, deviation = 0.0, 1.0
    if target.task == "number":
        scaler = Scaler.fit(target.y[:, None], indices["train_idx"], floor=0.0)
        mean, deviation = float(scaler.mean[0]), float(scaler.deviation[0])
    edges = EdgeColumns("source", "target", "" if weight is None else "weight")
    schema = TableSchema(
        None, int(scaled_x.shape[1]), "node", target.columns, target.task, target.classes, mean, deviation, edges,
        directed,
    )  # fmt: skip
    options = {"features": how, "directed": directed, **{part: ids.tolist() for part, ids in indices.items()}}
    return NodeDataset(
        name=name,
        x=scaled_x,
        edge_index=torch.from_numpy(index),
        y=target.y,
        num_classes=len(target.classes),
        sha256=digest_of(arrays | {"options": np.array(str(sorted(options.items())))}),
        provenance=name,
        edge_weight=as_tensor(weight),
        features=how,
        notes=(*target.notes, drawn.note, said),
        ids=NodeIds.counted(count),
        schema=schema,
        **indices,
    )


def _target(y: Any, count: int) -> NodeTarget:
    """The target of each node: integers are classes, floats a number, several columns of 0 and 1 labels."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape[:1] != (count,) or y.ndim > 2:
        raise DataError(f"data.y has shape {y.shape}; it must have a row for each of {count} nodes.")
    if y.ndim == 2:
        found = torch.from_numpy(y.astype(np.float32))
        known = ~np.isnan(y.astype(np.float64)).any(axis=1)
        if not bool(((found == 0) | (found == 1))[torch.from_numpy(known)].all()):
            raise DataError(
                "data.y has several columns, which must be labels of 0 and 1: one number is learnt at a time."
            )
        names = tuple(map(str, range(y.shape[1])))
        note = f"target: every node may have several of {len(names)} labels."
        return NodeTarget(("y",), "labels", found.nan_to_num(), known, names, (note,))
    if y.dtype.kind == "f":
        known = ~np.isnan(y)
        note = "target: y is a number (regression)."
        return NodeTarget(("y",), "number", torch.from_numpy(y.astype(np.float32)), known, (), (note,))
    classes, code = np.unique(y[y >= 0], return_inverse=True)
    if len(classes) < 2:
        raise DataError(f"data.y has {len(classes)} classes; there must be 2 or more (negative: unknown).")
    codes = np.full(count, -1, dtype=np.int64)
    codes[y >= 0] = code
    note = f"target: y has {len(classes)} classes."
    names = tuple(map(str, classes.tolist()))
    return NodeTarget(("y",), "classes", torch.from_numpy(codes), codes >= 0, names, (note,))


def _edge_weight(data: Any, count: int) -> Any:
    """The weights of the edges: `edge_weight`, or an `edge_attr` of one column."""
    weight = _attribute(data, "edge_weight")
    if weight is None:
        attributes = _attribute(data, "edge_attr")
        one = isinstance(attributes, Tensor) and attributes.numel() == count
        weight = attributes.reshape(-1) if one else None
    if weight is None:
        return None
    found = single(as_array("edge_weight", weight).reshape(-1), "data: edge_weight", "weights")
    if found.shape != (count,) or (found < 0).any():
        raise DataError(f"data.edge_weight must be {count} numbers that are not negative.")
    return found


def _checked_edges(index: Any, weight: Any, count: int, directed: bool) -> tuple[Any, Any]:
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        raise DataError(f"data.edge_index must be integers (2, E), got {index.dtype} of shape {index.shape}.")
    index = index.astype(np.int64)
    if index.size and not 0 <= index.min() <= index.max() < count:
        raise DataError(f"data.edge_index holds {index.min()} .. {index.max()}; there are {count} nodes.")
    if directed:
        _, first = np.unique(index[0] * count + index[1], return_index=True)
        return index[:, first], None if weight is None else weight[first]
    found = undirected(index, None, weight)
    return found.index, found.weight


def _masks(data: Any, target: NodeTarget, split: int) -> list[Any] | None:
    """The nodes of `train_mask`, `val_mask` and `test_mask`, where there are such."""
    masks = [_attribute(data, f"{part}_mask") for part in PARTS]
    if any(mask is None for mask in masks):
        return None
    found = []
    for part, mask in zip(PARTS, masks, strict=True):
        column = mask[:, split] if mask.dim() == 2 else mask
        ids = np.flatnonzero(column.numpy(force=True).astype(bool) & target.known)
        if not len(ids):
            raise DataError(f"data.{part}_mask has no node that has a target.")
        found.append(ids)
    return found


def graphs_from_pyg(items: Iterable[Any], name: str) -> GraphsDataset:
    """See `GraphsDataset.from_pyg`."""
    from armagnn.data.graphs import GraphsDataset

    items = [] if isinstance(items, Tensor) else list(items)
    if not items or not all(hasattr(each, "edge_index") and hasattr(each, "num_nodes") for each in items):
        raise DTypeError("items must be a list of torch_geometric.data.Data, one for each graph.")
    sizes = [int(each.num_nodes) for each in items]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    arrays: dict[str, Any] = {
        "edge_index": torch.cat(
            [each.edge_index.cpu() + start for each, start in zip(items, ptr.tolist(), strict=False)], 1
        ),
        "ptr": ptr,
    }
    targets = [_attribute(each, "y") for each in items]
    if all(y is not None for y in targets):
        y = torch.stack([torch.as_tensor(y).reshape(-1) for y in targets])
        classes = not y.is_floating_point() and y.shape[1] == 1
        arrays["y"] = y[:, 0] if classes else y.float()
    features = [_attribute(each, "x") for each in items]
    if all(x is not None for x in features):
        arrays["node_attr"] = torch.cat([x.reshape(len(x), -1).float().cpu() for x in features])
    weights = [_edge_weight(each, each.edge_index.shape[1]) for each in items]
    if all(weight is not None for weight in weights):
        arrays["edge_weight"] = np.concatenate(weights)
    labels = arrays.get("y")
    values: tuple[int, ...] | None = None
    if isinstance(labels, Tensor) and not labels.is_floating_point():
        unique, code = torch.unique(labels, return_inverse=True)
        arrays["y"], values = code, tuple(unique.tolist())
    made = GraphsDataset.of(**arrays)
    usual = values is None or values == tuple(range(len(values)))
    return replace(made, name=name, provenance=name, class_values=None if usual else values)


def tables_of_networkx(graphs: Sequence[Any], node_attributes: Sequence[str] | None) -> tuple[Any, Any]:
    """The nodes and the edges of networkx graphs as tables; nodes have the number of their graph."""
    import networkx

    for graph in graphs:
        if not isinstance(graph, networkx.Graph):
            raise DTypeError(f"expected a networkx graph, got {shown(graph)}.")
    named = {key for graph in graphs for _, values in graph.nodes(data=True) for key in values}
    names = sorted(map(str, named)) if node_attributes is None else list(node_attributes)
    missing = [name for name in names if name not in named]
    if missing:
        raise ParameterError(
            f"no node has the attribute {missing[0]!r}; there are {', '.join(sorted(map(str, named)))}."
        )
    nodes: dict[str, list[Any]] = {"graph": [], "node": [], **{name: [] for name in names}}
    edges: dict[str, list[Any]] = {"graph": [], "source": [], "target": []}
    weights: list[Any] = []
    for number, graph in enumerate(graphs):
        for node, values in graph.nodes(data=True):
            nodes["graph"].append(number)
            nodes["node"].append(str(node))
            for name in names:
                nodes[name].append(values.get(name))
        for one, other, weight in graph.edges(data="weight"):
            for column, value in (("graph", number), ("source", str(one)), ("target", str(other))):
                edges[column].append(value)
            weights.append(weight)
    if weights and all(weight is not None for weight in weights):
        edges["weight"] = weights
    return nodes, edges
