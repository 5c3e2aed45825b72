"""Sixty nodes of three classes, for runs of which only the process matters."""

from __future__ import annotations

import torch

from armagnn.data import NodeDataset
from oracles import numbers, random_graph


def sixty_nodes() -> NodeDataset:
    """A graph that is drawn, features, classes by turns, and twenty nodes in each split."""
    index = random_graph(60, 90, seed=3).both_ways().edge_index
    node = torch.arange(60)
    return NodeDataset(
        "sixty", numbers(60, 5, seed=4).float(), index, node % 3, node[:20], node[20:40], node[40:], 3, "0" * 64
    )
