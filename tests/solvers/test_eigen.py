from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given

from armagnn import GraphOperator
from armagnn.errors import GraphError, ParameterError, SymmetryError, UnknownNameError
from armagnn.solvers.eigen import eigh, extremal
from oracles import Graph, assert_near, random_graph
from strategies import undirected


def operator(graph: Graph, kind: Any = "arma") -> GraphOperator:
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), kind)


def assert_eigenpairs(op: GraphOperator, mu: torch.Tensor, vectors: torch.Tensor, tolerance: float = 1e-11) -> None:
    assert mu.dtype == vectors.dtype == torch.float64
    assert (mu.diff() >= 0).all()
    assert_near(op.to(torch.float64) @ vectors, vectors * mu, tolerance)
    assert_near(vectors.T @ vectors, torch.eye(len(mu)), tolerance)


@given(undirected(max_nodes=9))
def test_all_eigenpairs_of_any_graph(graph: Graph) -> None:
    for kind in ("arma", "laplacian", "adjacency"):
        op = operator(graph, kind)
        mu, vectors = eigh(op)
        assert vectors.shape == (graph.num_nodes, graph.num_nodes)
        assert_eigenpairs(op, mu, vectors)
        assert_near(mu, np.linalg.eigvalsh(op.to_dense().numpy()))


def test_no_vector_mixes_components() -> None:
    ops = [operator(random_graph(n, 3 * n, seed=n).both_ways()) for n in (6, 9, 6)]
    mu, vectors = eigh(GraphOperator.block_diagonal(ops))
    assert_eigenpairs(GraphOperator.block_diagonal(ops), mu, vectors)
    live = torch.stack([part.abs().sum(0) > 0 for part in torch.split(vectors, [6, 9, 6])])
    assert (live.sum(0) == 1).all()


def test_float32_values_are_decomposed_in_float64() -> None:
    op = operator(random_graph(20, 60).both_ways()).to(torch.float32)
    assert_eigenpairs(op, *eigh(op))


def test_no_gradient_is_carried() -> None:
    graph = random_graph(6, 9).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight().requires_grad_())
    assert not any(part.requires_grad for part in eigh(op))


def test_bad_operators_are_refused() -> None:
    with pytest.raises(SymmetryError, match="symmetric"):
        eigh(operator(random_graph(6, 9)))
    with pytest.raises(SymmetryError, match="symmetric"):
        extremal(operator(random_graph(6, 9)), 2)
    with pytest.raises(GraphError, match=r"extremal\(op, k\) or spectral_density\(op\)"):
        eigh(operator(random_graph(20, 60).both_ways()), max_nodes=19)
    empty = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0)
    with pytest.raises(GraphError, match="no nodes"):
        eigh(empty)


# ---------------------------------------------------------------------------------------------------------- extremal


@pytest.mark.parametrize("nodes", [30, 600])
@pytest.mark.parametrize("which", ["both", "largest", "smallest"])
@pytest.mark.parametrize("k", [1, 5])
def test_the_ends_of_the_spectrum(nodes: int, which: Any, k: int) -> None:
    op = operator(random_graph(nodes, 4 * nodes, seed=1).both_ways())
    mu, vectors = extremal(op, k, which)
    assert vectors.shape == (nodes, k)
    assert_eigenpairs(op, mu, vectors, 1e-8)
    every = np.linalg.eigvalsh(op.to_dense().numpy())
    top = {"both": k - k // 2, "largest": k, "smallest": 0}[which]
    assert_near(mu, np.concatenate([every[: k - top], every[nodes - top :]]), 1e-9)


def test_a_repeated_eigenvalue_is_found_as_often_as_it_is_there() -> None:
    part = operator(random_graph(150, 600, seed=2, lone=0).both_ways())
    op = GraphOperator.block_diagonal([part] * 4)
    mu, vectors = extremal(op, 5, "largest")
    assert_eigenpairs(op, mu, vectors, 1e-8)
    assert_near(mu[1:], torch.ones(4), 1e-9)
    assert float(mu[0]) < 0.99


def test_the_same_graph_gives_the_same_answer() -> None:
    op = operator(random_graph(600, 2400).both_ways())
    for one, two in zip(extremal(op, 4), extremal(op, 4), strict=True):
        assert torch.equal(one, two)


def test_a_graph_without_edges() -> None:
    mu, vectors = extremal(GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 700), 3)
    assert torch.equal(mu, torch.zeros(3).double())
    assert_near(vectors.T @ vectors, torch.eye(3))


@pytest.mark.parametrize("k", [0, 31, -1, 2.0, True, None])
def test_bad_numbers_are_refused(k: Any) -> None:
    with pytest.raises(ParameterError, match="k must"):
        extremal(operator(random_graph(30, 60).both_ways()), k)


def test_unknown_ends_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="smallest"):
        extremal(operator(random_graph(30, 60).both_ways()), 2, "lowest")  # type: ignore[arg-type]


EDGE = torch.tensor([[0, 1], [1, 0]])


def test_a_large_graph_without_edges_has_extremal_pairs() -> None:
    mu, vectors = extremal(GraphOperator.from_edge_index(EDGE[:, :0], num_nodes=100_000), k=2)
    assert mu.tolist() == [0.0, 0.0]
    assert torch.equal(vectors.T @ vectors, torch.eye(2, dtype=torch.float64))
