"""Graphs of the benchmark of bandwidth are what their names say, and its rows compare bytes a second."""

from __future__ import annotations

import pytest
import torch

from armagnn import GraphOperator
from armagnn.bench.copy_bandwidth import compare_bandwidth, rmat, with_hub
from armagnn.bench.cpu_rows import random_graph


def test_rmat_has_hubs_and_both_directions() -> None:
    edges = rmat(1024, 20_000)
    assert edges.shape == (2, 20_000)
    assert torch.equal(edges[:, :10_000], edges[:, 10_000:].flip(0))
    share = (edges[:, :10_000] < 512).double().mean(1)
    assert share.tolist() == pytest.approx([0.76, 0.76], abs=0.02)
    assert edges[0].bincount().max() > 10 * 20


def test_a_hub_has_all_others() -> None:
    op = GraphOperator.from_edge_index(with_hub(random_graph(50, 100), 50), 51)
    assert int(op.rowptr[51] - op.rowptr[50]) == 50


def test_rows() -> None:
    rows = list(compare_bandwidth(rounds=1, sizes=((60, 200),)))
    assert [row.unit for row in rows] == ["GB/s", "ms", "GB/s", "GB/s"]
    assert all(row.ours > 0 and row.peer > 0 for row in rows)
    assert all(row.ratio == row.ours / row.peer for row in rows if row.unit == "GB/s")
