from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn import CSR, GraphOperator
from armagnn.errors import ConvergenceError
from armagnn.operators import extremes
from armagnn.operators.extremes import DENSE, end_pairs, extremal_eigenvalues, random_start
from oracles import Graph, random_graph
from strategies import undirected


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


# ---------------------------------------------------------------------------------------------------------------- pairs


def both_ways(source: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.from_numpy(np.stack([np.r_[source, target], np.r_[target, source]]))


def path(nodes: int) -> GraphOperator:
    count = np.arange(nodes - 1)
    return GraphOperator.from_edge_index(both_ways(count, count + 1), nodes, dtype=torch.float64)


def ring(nodes: int) -> GraphOperator:
    count = np.arange(nodes)
    return GraphOperator.from_edge_index(both_ways(count, (count + 1) % nodes), nodes, dtype=torch.float64)


def grid(high: int, wide: int) -> GraphOperator:
    count = np.arange(high * wide).reshape(high, wide)
    down, right = (count[:-1].ravel(), count[1:].ravel()), (count[:, :-1].ravel(), count[:, 1:].ravel())
    edges = both_ways(np.r_[down[0], right[0]], np.r_[down[1], right[1]])
    return GraphOperator.from_edge_index(edges, high * wide, dtype=torch.float64)


def lonely(nodes: int) -> GraphOperator:
    return GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), nodes, dtype=torch.float64)


def scattered(nodes: int, edges: int) -> GraphOperator:
    graph = random_graph(nodes, edges, seed=nodes, lone=0).both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, nodes, graph.edge_weight(), dtype=torch.float64)


union = GraphOperator.block_diagonal
DRAWN_OUT = {"path": path(1500), "ring": ring(1200), "grid": grid(25, 40), "square grid": grid(30, 30)}
GRAPHS = DRAWN_OUT | {
    "random": scattered(900, 3000),
    "sparse and random, in parts": scattered(1500, 1100),
    "equal paths": union([path(600)] * 3),
    "grids, a path and lone nodes": union([grid(24, 24), path(700), grid(24, 24), lonely(5), path(2)]),
    "many small parts": union([path(k % 6 + 1) for k in range(400)]),
    "lone nodes": lonely(30),
    "beyond the edge of the dense": path(DENSE + 1),
}


def assert_ends(op: GraphOperator, k: int) -> None:
    """The k eigenvalues of each end are those of the dense truth, as often as there, and the vectors belong to them."""
    matrix = op.to(torch.float64).to_scipy()
    truth = np.linalg.eigvalsh(op.to_dense().numpy())
    for end, wanted in (("SA", truth[:k]), ("LA", truth[len(truth) - k :])):
        values, vectors = end_pairs(matrix, k, end, tol=1e-10)  # type: ignore[arg-type]
        np.testing.assert_allclose(values, wanted, atol=1e-9)
        np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-7)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-8)


@pytest.mark.parametrize("k", [1, 4, 7])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_ends_of_any_sort_of_graph(name: str, k: int) -> None:
    assert_ends(GRAPHS[name], k)


@pytest.mark.parametrize("kind", ["laplacian", "adjacency", "gcn"])
@pytest.mark.parametrize("name", ["path", "square grid"])
def test_the_ends_of_any_kind(name: str, kind: str) -> None:
    op = GRAPHS[name]
    rows, cols = op._rows(), op.col.long()
    assert_ends(
        GraphOperator.from_edge_index(torch.stack([rows, cols]), op.num_nodes, kind=kind, dtype=torch.float64), 4
    )  # type: ignore[arg-type]


def test_the_ends_of_small_graphs() -> None:
    @settings(max_examples=30)
    @given(undirected(), st.integers(1, 4))
    def check(graph: Graph, k: int) -> None:
        op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
        if op.nnz:
            assert_ends(op, min(k, graph.num_nodes))

    check()


@pytest.mark.parametrize("name", DRAWN_OUT)
def test_drawn_out_graphs_are_factorised(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of 3,000 nodes took 11 seconds by products with the operator."""

    def fail(*arguments: Any) -> None:
        raise AssertionError("Lanczos with products")

    monkeypatch.setattr(extremes, "_by_products", fail)
    end_pairs(DRAWN_OUT[name].to(torch.float64).to_scipy(), 4, "LA", 1e-10)
    end_pairs(DRAWN_OUT[name].to(torch.float64).to_scipy(), 4, "SA", 1e-10)


def test_where_a_factorisation_fails_products_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extremes._Factorised, "__init__", lambda self, *a: setattr(self, "definite", False))
    assert_ends(grid(24, 24), 2)
    monkeypatch.setattr(extremes, "PROFILE", 0)
    assert_ends(grid(24, 24), 2)


def test_where_nothing_helps_an_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extremes, "_by_products", lambda *a: None)
    monkeypatch.setattr(extremes, "_by_inverse", lambda *a: None)
    with pytest.raises(ConvergenceError, match="did not converge"):
        end_pairs(path(600).to(torch.float64).to_scipy(), 2, "LA", 1e-10)


def test_a_shift_above_all_eigenvalues_is_told_from_one_below() -> None:
    matrix = grid(24, 24).to(torch.float64).to_scipy()
    assert extremes._Factorised(matrix, 1.0 + 1e-8).definite
    for sigma in (1.0 - 1e-4, 0.9, 0.0, -0.5):
        assert not extremes._Factorised(matrix, sigma).definite


@pytest.mark.parametrize("n", [600, 1024, 5001])
def test_the_start_has_no_structure(n: int) -> None:
    """It repeats, and has about as much of any simple vector as a random one: neither all of it nor nothing."""
    start = random_start(n)
    assert np.array_equal(start, random_start(n))
    count = np.arange(n)
    simple = {
        "constant": np.ones(n),
        "alternating": (-1.0) ** count,
        "a slope": count - count.mean(),
        "a wave": np.sin(2 * np.pi * (count + 0.5) / n),
        "one half": np.where(count < n // 2, 1.0, 0.0),
        "a node": (count == 0) * 1.0,
        "the last node": (count == n - 1) * 1.0,
    }
    for name, vector in simple.items():
        cosine = abs(start @ vector) / np.linalg.norm(start) / np.linalg.norm(vector)
        assert 1e-3 / n**0.5 < cosine < 5 / n**0.5, name
    swaps = {
        "reversed": start[::-1],
        "shifted": np.roll(start, 1),
        "halves swapped": np.roll(start, n // 2),
        "pairs swapped": start[: n // 2 * 2].reshape(-1, 2)[:, ::-1].ravel(),
    }
    for name, image in swaps.items():  # an automorphism of a graph would keep the steps in a part of the space
        assert abs(start[: len(image)] @ image) / (start @ start) < 8 / n**0.5, name
    assert len(np.unique(np.abs(start))) == n
