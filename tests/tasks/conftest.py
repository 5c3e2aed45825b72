"""Graphs with classes, and the same graphs with numbers to learn."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from armagnn.data import GraphsDataset, load_graphs


@pytest.fixture(scope="module")
def mutag() -> GraphsDataset:
    return load_graphs("mutag").select(range(40))


@pytest.fixture(scope="module")
def numbers(mutag: GraphsDataset) -> GraphsDataset:
    """The same graphs with two numbers to learn, of very different size: the nodes, and a multiple of the edges."""
    nodes = mutag.ptr.diff()
    edges = torch.bincount(mutag.graph[mutag.edge_index[0]], minlength=40)
    y = torch.stack([nodes, 1000 * edges], 1).float()
    return replace(mutag, y=y, num_classes=0, targets=("nodes", "edges"))
