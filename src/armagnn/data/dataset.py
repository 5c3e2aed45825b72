"""What a node-classification dataset is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from armagnn.operators import CSR, GraphOperator


# eq=False: comparing tensors gives tensors, so datasets are compared by `sha256`, not by ==.
@dataclass(frozen=True, eq=False)
class NodeDataset:
    """One graph, X, labels y and the split of its nodes: what transductive node classification needs.

    Attributes:
        name: the name it was loaded by (or the path of its file).
        x: node features X, sparse (N, F), float32; the absolute values of each row sum to 1 (or the row is
            zero).
        edge_index: (2, E) int64, source and target of every directed edge.
        y: (N,) int64 labels 0 .. C-1, or -1 for a node without a label.
        train_idx: ids of the labelled nodes to learn from.
        val_idx: ids of the labelled nodes to choose on.
        test_idx: ids of the labelled nodes to report on.
        num_classes: C.
        sha256: checksum of the file; two datasets with one checksum are the same.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> cora.num_nodes, cora.num_features, cora.num_classes
        (2708, 1433, 7)
    """

    name: str
    x: CSR
    edge_index: Tensor
    y: Tensor
    train_idx: Tensor
    val_idx: Tensor
    test_idx: Tensor
    num_classes: int
    sha256: str

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.x.shape[0])

    @property
    def num_features(self) -> int:
        """F."""
        return int(self.x.shape[1])

    def operator(self) -> GraphOperator:
        """D^-1/2 A D^-1/2 of the graph, on the device of the dataset."""
        return GraphOperator.from_edge_index(self.edge_index, num_nodes=self.num_nodes, kind="arma")

    def to(self, device: torch.device | str) -> NodeDataset:
        """The same dataset with every tensor on `device`."""
        return replace(
            self,
            x=self.x.to(device),
            edge_index=self.edge_index.to(device),
            y=self.y.to(device),
            train_idx=self.train_idx.to(device),
            val_idx=self.val_idx.to(device),
            test_idx=self.test_idx.to(device),
        )

    def __repr__(self) -> str:
        return (
            f"NodeDataset({self.name!r}, nodes={self.num_nodes}, edges={self.edge_index.shape[1]}, "
            f"features={self.num_features}, classes={self.num_classes}, "
            f"split={len(self.train_idx)}/{len(self.val_idx)}/{len(self.test_idx)})"
        )
