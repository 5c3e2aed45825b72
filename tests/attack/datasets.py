"""Data with valid arguments, and small files of every kind."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import armagnn.data as data
from armagnn.data import Fold, GraphsDataset, NodeDataset, Scaler, SignalsDataset
from armagnn.data.arrays import pack_arrays
from armagnn.data.sets.ppi import parse_multilabel_file
from attack.subjects import Call
from data.test_tu import write
from data.tiny import multilabel_arrays
from own_graphs import rings_and_paths
from tiny_signals import tiny


def _node_arrays() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    x = (generator.random((30, 5)) < 0.5).astype(np.float32)
    ring = np.arange(30)
    pairs = np.stack([ring, (ring + 1) % 30])
    return {
        "x_indptr": np.arange(31, dtype=np.int32) * 5, "x_indices": np.tile(np.arange(5, dtype=np.int16), 30),
        "x_data": x.reshape(-1) + 1, "x_shape": np.array([30, 5], dtype=np.int32),
        "edge_index": np.concatenate([pairs, pairs[::-1]], 1).astype(np.int32), "y": (ring % 3).astype(np.int8),
        "train_idx": np.arange(9, dtype=np.int32), "val_idx": np.arange(9, 18, dtype=np.int32),
        "test_idx": np.arange(18, 30, dtype=np.int32),
    }  # fmt: skip


def node_file(path: Path) -> Path:
    """A node file that is well-formed; written once."""
    if not path.exists():
        np.savez_compressed(path, **_node_arrays())
    return path


def graphs_file(path: Path, found: GraphsDataset) -> Path:
    if not path.exists():
        np.savez_compressed(
            path, edge_index=found.edge_index.numpy(), ptr=found.ptr.numpy(), y=found.y.clamp(min=0).numpy() % 2,
            node_labels=found.node_labels.numpy() if found.node_labels is not None else [],
        )  # fmt: skip
    return path


def rings() -> GraphsDataset:
    found = rings_and_paths()
    return replace(found, y=torch.arange(len(found)) % 2)


def node_tables() -> tuple[dict[str, Any], dict[str, Any], str]:
    """A table of nodes, one of edges, and the column to learn."""
    nodes = {"id": list("abcdefgh"), "age": list(range(8)), "label": ["x", "y"] * 4}
    return nodes, {"source": list("abcdefg"), "target": list("bcdefgh")}, "label"


def _of_other_libraries() -> Iterator[Call]:
    import networkx
    from torch_geometric.data import Data

    club, edge = networkx.karate_club_graph(), torch.tensor([[0, 1, 2], [1, 2, 0]])
    one = Data(x=torch.rand(9, 3), edge_index=edge, y=torch.arange(9) % 3)
    yield Call(
        "data.NodeDataset.from_networkx", lambda **a: repr(NodeDataset.from_networkx(**a)),
        {"graph": club, "target": "club", "attributes": ["club"], "seed": 0},
    )  # fmt: skip
    yield Call(
        "data.NodeDataset.from_pyg", lambda **a: repr(NodeDataset.from_pyg(**a)),
        {"data": one, "directed": False, "features": "none", "val": 0.2, "test": 0.2, "seed": 0, "split": 0,
         "name": "pyg"},
    )  # fmt: skip
    shapes = [networkx.path_graph(3), networkx.cycle_graph(3)]
    yield Call(
        "data.GraphsDataset.from_networkx", lambda **a: repr(GraphsDataset.from_networkx(**a)),
        {"items": shapes, "y": ["path", "ring"], "attributes": None, "name": "networkx"},
    )  # fmt: skip
    two = [Data(x=torch.ones(3, 3), edge_index=edge, y=torch.tensor([c])) for c in (0, 1)]
    yield Call(
        "data.GraphsDataset.from_pyg", lambda **a: repr(GraphsDataset.from_pyg(**a)), {"items": two, "name": "pyg"}
    )
    yield Call(
        "data.GraphsDataset.from_tables", lambda **a: repr(GraphsDataset.from_tables(**a)),
        {"graphs": {"graph": ["a", "b"], "label": ["ring", "path"]},
         "nodes": {"graph": list("aaabb"), "id": list(range(5)), "colour": [1.0, 2.0, 3.0, 1.0, 2.0]},
         "edges": {"source": [0, 1, 2, 3], "target": [1, 2, 0, 4]}, "target": "label", "name": "own"},
    )  # fmt: skip


def data_room() -> Iterator[Call]:
    here = Path.cwd()
    nodes, graphs, tu = node_file(here / "own.npz"), graphs_file(here / "graphs.npz", rings()), here / "tu"
    if not tu.exists():
        tu.mkdir()
        write(rings(), tu)
    node, sets, signals = data.read_node_file(nodes), rings(), tiny()
    few = sets.select(list(range(6)))
    described = data.node_features(sets)
    fold = data.folds(sets)[0]
    digest = hashlib.sha256(nodes.read_bytes()).hexdigest()
    yield Call("data.read_node_file", lambda **a: data.read_node_file(**a), {"path": nodes, "sha256": None})
    more = {"sha256": digest, "features": "rows"}
    yield Call("data.read_node_file", lambda **a: data.read_node_file(**a), {"path": str(nodes), **more})
    yield Call("data.read_own", lambda path: data.read_own(path), {"path": nodes})
    yield Call("data.read_own", lambda path: data.read_own(path), {"path": str(tu)})
    yield Call(
        "data.read_graphs_file",
        lambda **a: data.read_graphs_file(**a),
        {"path": graphs, "sha256": None, "labelled": True},
    )
    yield Call("data.read_tu_folder", lambda **a: data.read_tu_folder(**a), {"path": tu, "target": "auto"})
    yield Call("data.load", lambda **a: data.load(**a), {"name": str(nodes), "features": "none"})
    yield Call("data.load", lambda **a: data.load(**a), {"name": "cora", "split": "random", "seed": 1})
    yield Call("data.load_graphs", lambda name: data.load_graphs(name), {"name": str(graphs)})
    yield Call("data.load_signals", lambda name: _typed(data.load_signals, name), {"name": "mnist"})
    yield Call("data.add", lambda **a: _added(**a), {"path": nodes, "name": "papers"})
    yield Call("data.remove", lambda name: _removed(nodes, name), {"name": "papers"})
    yield Call(
        "data.fetch", lambda name, get: data.fetch(name, get=get), {"name": "cora", "get": lambda url: b"nothing"}
    )
    yield Call(
        "data.fetch",
        lambda name, get: _typed(functools.partial(data.fetch, get=get), name),
        {"name": "mutag", "get": lambda url: b"nothing"},
    )
    yield Call("data.verify", lambda names: data.verify(names), {"names": ["cora"]})
    yield Call("data.statistics", lambda **a: data.statistics(**a), {"data": node, "paths": True})
    yield Call("data.statistics", lambda **a: data.statistics(**a), {"data": sets, "paths": False})
    yield Call("data.statistics_of", lambda **a: data.statistics_of(**a), {"name": "cora", "paths": False})
    yield Call(
        "data.make_bench_hard", lambda **a: data.make_bench_hard(**a), {"seed": 0, "small": True, "per_class": 1}
    )
    yield Call("data.make_news", lambda **a: _typed(lambda _: data.make_news(**a), None), {"seed": 0, "force": False})
    yield Call(
        "data.node_features",
        lambda dataset, **a: data.node_features(dataset, **a),
        {"dataset": sets, "kinds": ["degree", "labels"], "vocabulary": [0, 2, 7]},
    )
    yield Call(
        "data.NodeFeatures",
        lambda **a: data.NodeFeatures(**a).numeric,
        {"x": described.x, "names": described.names, "vocabulary": (0, 2, 7)},
    )
    yield Call("data.clustering", lambda dataset: data.clustering(dataset), {"dataset": sets})
    yield Call("data.nodes_of", lambda **a: data.nodes_of(**a), {"dataset": sets, "graphs": torch.tensor([0, 3])})
    yield Call("data.folds", lambda dataset, seed: data.folds(dataset, seed=seed), {"dataset": sets, "seed": 3})
    yield Call(
        "data.own_split",
        lambda dataset: data.own_split(dataset),
        {"dataset": replace(sets, split=torch.arange(30) % 3)},
    )
    yield Call(
        "data.refined_classes",
        lambda dataset, features, edge_labels: data.refined_classes(dataset, features, edge_labels=edge_labels),
        {"dataset": sets, "features": described, "edge_labels": False},
    )
    yield Call("data.bound", lambda **a: data.bound(**a), {"dataset": sets, "classes": data.refined_classes(sets)})
    yield Call("data.with_bond_orders", lambda molecules: _typed(data.with_bond_orders, molecules), {"molecules": sets})
    yield Call("data.Fold", lambda **a: repr(Fold(**a)), {"train": fold.train, "val": fold.val, "test": fold.test})
    yield Call("data.Bound", lambda **a: repr(data.Bound(**a)), {"classes": 2, "twins": 0.5, "best": {"a": 1.0}})
    yield Call(
        "data.Entry",
        lambda **a: data.Entry(**a).files,
        {"file": "a.npz", "sha256": digest, "source": "x", "kind": "nodes", "also": {}},
    )
    x, rows = torch.rand(9, 3), torch.tensor([0, 1, 4])
    yield Call(
        "data.Scaler.fit",
        lambda x, nodes, floor, columns: data.Scaler.fit(x, nodes, floor=floor, columns=columns)(x),
        {"x": x, "nodes": rows, "floor": 0.01, "columns": torch.tensor([True, False, True])},
    )
    scaler = Scaler.fit(x, rows)
    yield Call(
        "data.Scaler",
        lambda rows, **a: Scaler(**a)(rows),
        {"mean": torch.zeros(3), "deviation": torch.ones(3), "rows": x},
    )
    yield Call("data.Scaler.call", lambda x: scaler(x), {"x": x})
    yield Call("data.Scaler.inverse", lambda x: scaler.inverse(x), {"x": x})
    yield Call("data.Scaler.to", lambda device: scaler.to(device), {"device": "cpu"})
    yield Call(
        "data.GraphsDataset.of", lambda **a: repr(GraphsDataset.of(**a)),
        {"edge_index": few.edge_index, "ptr": few.ptr, "y": torch.arange(6) % 2, "node_labels": few.node_labels,
         "node_attr": few.node_attr,
         "edge_labels": torch.zeros(few.edge_index.shape[1]).long(),
         "edge_weight": torch.ones(few.edge_index.shape[1]), "split": torch.tensor([0, 0, 1, 1, 2, 2])},
    )  # fmt: skip
    yield Call(
        "data.GraphsDataset",
        lambda **a: GraphsDataset(**a).num_graphs,
        {"name": "x", "edge_index": few.edge_index, "ptr": few.ptr, "y": few.y, "num_classes": 2, "sha256": ""},
    )
    yield Call("data.GraphsDataset.select", lambda ids: sets.select(ids), {"ids": torch.tensor([3, 0])})
    yield Call("data.GraphsDataset.select", lambda ids: sets.select(ids), {"ids": [3, 0]})
    yield Call("data.GraphsDataset.to", lambda device: sets.to(device), {"device": "cpu"})
    yield Call(
        "data.GraphsDataset.getitem", lambda item: sets[item] if hasattr(sets, "__getitem__") else None, {"item": 0}
    )
    yield Call(
        "data.NodeDataset", lambda **a: NodeDataset(**a).num_nodes,
        {name: getattr(node, name) for name in ("name", "x", "edge_index", "y", "train_idx", "val_idx", "test_idx",
         "num_classes", "sha256")},
    )  # fmt: skip
    tables = dict(zip(("nodes", "edges", "target"), node_tables(), strict=True))
    yield Call("data.NodeDataset.from_tables", lambda **a: repr(NodeDataset.from_tables(**a)), tables | {"name": "own"})
    yield from _of_other_libraries()
    yield Call("data.NodeDataset.derived", lambda change: node.derived(change), {"change": "something"})
    yield Call("data.NodeDataset.idx", lambda split: node.idx(split), {"split": "train"})
    many = parse_multilabel_file(pack_arrays(multilabel_arrays()), name="many", source="many")
    yield Call("data.NodeDataset.part", lambda split: many.part(split), {"split": "train"})
    yield Call("data.NodeDataset.to", lambda device: node.to(device), {"device": "cpu"})
    yield Call(
        "data.NodeDataset.operator",
        lambda **a: node.operator(**a),
        {"kind": "arma", "gamma": 1.0, "dtype": torch.float32},
    )
    yield Call(
        "data.NodeDataset.with_random_split",
        lambda **a: node.with_random_split(**a),
        {"seed": 0, "per_class": 2, "val": 5, "test": 5},
    )
    yield Call(
        "data.SignalsDataset.of", lambda **a: repr(SignalsDataset.of(**a)),
        {"edge_index": signals.edge_index, "x": signals.x, "y": signals.y, "train": range(16), "val": range(16, 23),
         "test": torch.arange(23, 30),
         "edge_weight": torch.ones(signals.edge_index.shape[1])},
    )  # fmt: skip
    yield Call(
        "data.SignalsDataset", lambda **a: SignalsDataset(**a).num_nodes,
        {name: getattr(signals, name) for name in ("name", "edge_index", "x", "y", "num_classes", "train_idx",
         "val_idx", "test_idx", "sha256")},
    )  # fmt: skip
    yield Call("data.SignalsDataset.idx", lambda split: signals.idx(split), {"split": "train"})
    yield Call("data.SignalsDataset.to", lambda device: signals.to(device), {"device": "cpu"})


def _typed(function: Callable[..., Any], argument: Any) -> Any:
    """A call that is refused here even with valid arguments (no network, no originals)."""
    return function(argument)


def _added(path: Any, name: Any) -> Any:
    folder = Path(os.environ["ARMAGNN_DATA"])
    try:
        return data.add(path, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()


def _removed(path: Path, name: Any) -> Any:
    folder = Path(os.environ["ARMAGNN_DATA"])
    try:
        data.add(path, "papers")
        return data.remove(name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
