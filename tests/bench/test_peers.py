"""What is compared in the benchmark of GAT, GraphSAGE and GIN computes the same."""

from __future__ import annotations

import torch

from armagnn import GraphOperator
from armagnn.bench.peers import compare_peers, layers
from armagnn.bench.problems import random_graph


def test_both_sides_compute_the_same() -> None:
    torch.manual_seed(0)
    op = GraphOperator.from_edge_index(random_graph(30, 100), 30, kind="adjacency")
    edges = torch.stack([op.col.long(), op._rows()])
    x = torch.randn(30, 16)
    names = []
    for name, ours, theirs in layers(16):
        torch.testing.assert_close(ours(x, op), theirs(x, edges), rtol=1e-4, atol=1e-5)
        names.append(name)
    assert len(set(names)) == 3


def test_rows() -> None:
    rows = list(compare_peers(rounds=1, nodes=20, nonzeros=60, width=8))
    assert len(rows) == 3
    assert all(row.ours > 0 and row.ratio == row.peer / row.ours for row in rows)
