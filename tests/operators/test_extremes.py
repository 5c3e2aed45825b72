from __future__ import annotations

import numpy as np
import pytest
import torch

from armagnn import CSR, GraphOperator
from armagnn.operators.extremes import extremal_eigenvalues
from oracles import random_graph


@pytest.mark.parametrize("nodes", [1, 2, 40, 511, 513, 700])
@pytest.mark.parametrize("kind", ["arma", "laplacian", "adjacency"])
def test_against_all_eigenvalues(nodes: int, kind: str) -> None:
    """On both sides of the size from which Lanczos takes over."""
    graph = random_graph(nodes, 3 * nodes, seed=nodes, lone=0).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, nodes, graph.edge_weight(), kind)
    truth = np.linalg.eigvalsh(op.to_dense().numpy())
    low, high = extremal_eigenvalues(op)
    assert low == pytest.approx(truth[0], abs=1e-8)
    assert high == pytest.approx(truth[-1], abs=1e-8)
    assert extremal_eigenvalues(op) == (low, high)  # the same every time


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_of_another_type(dtype: torch.dtype) -> None:
    assert extremal_eigenvalues(CSR.from_dense(torch.tensor([[0.0, 2.0], [2.0, 3.0]]), dtype)) == pytest.approx((-1, 4))


def test_no_nodes() -> None:
    assert extremal_eigenvalues(CSR.from_dense(torch.zeros(0, 0))) == (0.0, 0.0)
