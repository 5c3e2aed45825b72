"""A user's own graphs: rings and paths in TU's format, with classes or real targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from armagnn.data import GraphsDataset
from armagnn.training import GraphsConfig
from data.test_tu import write

QUICK: dict[str, Any] = {"hidden": 8, "depth": 1, "epochs": 12, "batch": 8, "lr": 0.05, "seeds": 2}


def rings_and_paths(count: int = 30) -> GraphsDataset:
    """Graphs of 3 to 7 nodes in turn; the odd ones are rings. Nodes have a label of 0, 2, 7, and two attributes."""
    sizes = [3 + graph % 5 for graph in range(count)]
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    pairs = [
        (int(ptr[graph]) + node, int(ptr[graph]) + (node + 1) % size)
        for graph, size in enumerate(sizes)
        for node in range(size - 1 + graph % 2)
    ]
    edges = torch.tensor([*pairs, *(pair[::-1] for pair in pairs)]).T.contiguous()
    nodes = torch.arange(int(ptr[-1]))
    draw = torch.Generator().manual_seed(0)
    return GraphsDataset(
        "rings",
        edges,
        ptr,
        torch.tensor([5 if graph % 2 else -1 for graph in range(count)]),
        2,
        "0" * 64,
        node_labels=torch.tensor([0, 2, 7])[nodes % 3],
        node_attr=torch.randn(len(nodes), 2, generator=draw),
    )


def with_numbers(data: GraphsDataset) -> GraphsDataset:
    """The same graphs with two targets of very different size: the nodes, and a thousand times the edges."""
    edges = torch.bincount(data.graph[data.edge_index[0]], minlength=len(data))
    return replace(data, y=torch.stack([data.ptr.diff(), 500 * edges], 1).float(), num_classes=0)


def folder_of(data: GraphsDataset, path: Path) -> Path:
    """Write the graphs to a new folder."""
    path.mkdir()
    return write(data, path)


def unlabelled(data: GraphsDataset, path: Path) -> Path:
    """Write the graphs to a new folder, without labels or targets."""
    folder = folder_of(data, path)
    for part in ("labels", "attributes"):
        (folder / f"DS_graph_{part}.txt").unlink(missing_ok=True)
    return folder


def quick(data: Path | str, **changes: Any) -> GraphsConfig:
    return GraphsConfig(data=str(data), **QUICK | changes)
