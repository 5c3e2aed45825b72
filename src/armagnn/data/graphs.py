"""What a set of graphs is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class GraphsDataset:
    """G graphs side by side, with one label each: what graph classification needs.

    Attributes:
        name: the name it was loaded by (or the path of its file).
        edge_index: (2, E) int64, both directions of every edge, ids of nodes counted over all graphs.
        ptr: (G + 1,) int64; graph g has the nodes ``ptr[g] .. ptr[g + 1] - 1``.
        y: (G,) int64 labels 0 .. C-1.
        num_classes: C.
        sha256: checksum of the file; two datasets with one checksum are the same.
        node_labels: (N,) int64, the raw label of each node, where there are such.
        node_attr: (N, F) float32, the raw attributes of each node, where there are such.
        edge_labels: (E,) int64, the raw label of each directed edge, where there are such.
        split: (G,) int64, 0 train, 1 validation, 2 test, where the file has a split.
        provenance: what to call the data in results.

    Example:
        >>> from armagnn.data import load_graphs
        >>> load_graphs("mutag")
        GraphsDataset('mutag', graphs=188, nodes=3371, edges=7442, classes=2)
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
    split: Tensor | None = None
    provenance: str = ""

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

    def to(self, device: torch.device | str) -> GraphsDataset:
        """The same dataset with every tensor on `device`."""
        names = ("edge_index", "ptr", "y", "node_labels", "node_attr", "edge_labels", "split")
        tensors: dict[str, Any] = {name: getattr(self, name) for name in names}
        moved: dict[str, Any] = {name: None if t is None else t.to(device) for name, t in tensors.items()}
        return replace(self, **moved)

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        return (
            f"GraphsDataset({self.name!r}, graphs={self.num_graphs}, nodes={self.num_nodes}, "
            f"edges={self.edge_index.shape[1]}, classes={self.num_classes})"
        )
