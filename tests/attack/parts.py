"""Parts of a graph on the disk, and clusters, with valid arguments."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from armagnn.data import NodeDataset
from armagnn.distributed import (
    Cluster,
    ClusterLoader,
    EdgeStream,
    GraphPart,
    PartitionReport,
    PartRows,
    load_part,
    part_operator,
    partition,
    partition_dataset,
)
from attack.datasets import node_tables
from attack.groups import WORLD, world
from attack.subjects import Call, edges, features, graph


def parts() -> Iterator[Call]:
    index, x, folders = edges().numpy(), features().numpy(), itertools.count()
    weight, y = np.ones(index.shape[1]), np.array([0, 1, 0, 1, 0, 1])
    np.save("edges.npy", index)
    np.save("x.npy", x)
    np.save("y.npy", y)
    stream, whole = EdgeStream.of_arrays(index, weight, "ring"), Path("parts-read")
    report = partition(stream, whole, 2, rows=PartRows.of_arrays(Path("x.npy"), Path("y.npy")))
    nodes, ends, target = node_tables()
    data = NodeDataset.from_tables(nodes, ends, target)
    part = GraphPart.load(whole, range(2))

    def cut(function: Any, out: Any, **given: Any) -> Any:
        return function(out=f"{out}-{next(folders)}" if out == "parts" else out, **given).nonzeros

    yield Call(
        "distributed.EdgeStream.of_arrays", lambda **a: cut(partition, edges=EdgeStream.of_arrays(**a), out="parts",
        parts=2),
        {"index": index, "weight": weight, "name": "ring"},
    )  # fmt: skip
    yield Call(
        "distributed.EdgeStream.of_file",
        lambda **a: cut(partition, edges=EdgeStream.of_file(**a), out="parts", parts=2),
        {"path": Path("edges.npy"), "source": "", "dest": "", "weight": ""},
    )
    yield Call(
        "distributed.EdgeStream", lambda **a: repr(EdgeStream(**a)),
        {"name": "ring", "weighted": True, "mark": {"name": "ring"}, "begin": stream.begin},
    )  # fmt: skip
    yield Call(
        "distributed.partition", lambda **a: cut(partition, **a),
        {"edges": stream, "out": "parts", "parts": 2, "order": "blocks", "directed": False, "num_nodes": 6},
    )  # fmt: skip
    yield Call("distributed.PartitionReport.of", lambda folder: PartitionReport.of(folder).nonzeros, {"folder": whole})
    yield Call("distributed.PartitionReport.bytes_sent", report.bytes_sent, {"widths": [3, 2], "dtype": torch.float32})
    yield Call("distributed.PartitionReport", lambda **a: repr(PartitionReport(**a)), dict(vars(report)))
    yield Call("distributed.GraphPart.load", lambda **a: GraphPart.load(**a).nodes, {"folder": whole, "number": 1})
    yield Call("distributed.GraphPart.tensor", part.tensor, {"name": "x"})
    yield Call("distributed.GraphPart", lambda **a: GraphPart(**a).first, dict(vars(part)))
    rows = PartRows.of_arrays(Path("x.npy"), Path("y.npy"))
    yield Call(
        "distributed.PartRows.of_arrays", lambda **a: PartRows.of_arrays(**a).name,
        {"x": Path("x.npy"), "y": Path("y.npy"), "standardise": True, "val": 0.2, "test": 0.2, "seed": 0},
    )  # fmt: skip
    yield Call("distributed.PartRows.cut", rows.cut, {"nodes": np.array([0, 5])})
    yield Call("distributed.PartRows", lambda **a: PartRows(**a).name, dict(vars(rows)))
    yield Call("distributed.PartRows.of_dataset", lambda data: PartRows.of_dataset(data).name, {"data": data})
    yield Call(
        "distributed.partition_dataset", lambda **a: cut(partition_dataset, **a),
        {"data": data, "out": "parts", "parts": 2, "order": "blocks"},
    )  # fmt: skip

    def group(given: Any) -> Any:
        return world(os.getpid()) if given is WORLD else given

    yield Call(
        "distributed.load_part", lambda folder, g: load_part(folder, group(g)).nodes, {"folder": str(whole), "g": WORLD}
    )
    yield Call(
        "distributed.part_operator", lambda mesh, **a: part_operator(mesh=group(mesh), **a) @ torch.ones(6, 2),
        {"part": part, "mesh": WORLD, "kind": "arma", "gamma": 1.0, "device": "cpu"},
    )  # fmt: skip
    loader = ClusterLoader(graph(), [0, 2, 4, 6], join=2)
    yield Call(
        "distributed.ClusterLoader", lambda **a: [one.op.nnz for one in ClusterLoader(**a)],
        {"op": graph(), "starts": [0, 2, 4, 6], "join": 2, "seed": 0},
    )  # fmt: skip
    yield Call("distributed.ClusterLoader.cluster", loader.cluster, {"parts": [0, 2]})
    yield Call("distributed.ClusterLoader.groups", loader.groups, {"epoch": 1})
    yield Call("distributed.Cluster", lambda **a: repr(Cluster(**a)), {"nodes": torch.arange(6), "op": graph()})
