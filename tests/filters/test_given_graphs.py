"""Arrays and graphs of other libraries straight into a filter."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError
from armagnn.filters import ARMAFilter, Filter, GCNFilter, PolynomialFilter
from armagnn.operators import knn_graph, ring

F = ARMAFilter([0.7], [0.3])
GRAPH = networkx.karate_club_graph()
DENSE = networkx.to_numpy_array(GRAPH)
POINTS = np.random.default_rng(0).random((34, 2))


def filtered(f: Filter, op: GraphOperator, x: Any) -> Any:
    dense = op.to_dense().double().numpy()
    mu, U = np.linalg.eigh(dense)
    return (U * np.asarray(f.response(mu))) @ U.T @ np.asarray(x, dtype=np.float64)


@pytest.mark.parametrize(
    "graph",
    [GRAPH, scipy.sparse.csr_array(DENSE), scipy.sparse.coo_matrix(DENSE), torch.from_numpy(DENSE).to_sparse()],
    ids=["networkx", "csr", "coo", "torch"],
)
@pytest.mark.parametrize("shape", [(34,), (34, 2), (3, 34, 2)])
def test_arrays_on_graphs_of_any_library(graph: Any, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape)
    y = F.filter(graph, x)
    assert isinstance(y, np.ndarray)
    assert (y.dtype, y.shape) == (np.float64, shape)
    op = GraphOperator.from_dense(DENSE, dtype=torch.float64)
    np.testing.assert_allclose(y, filtered(F, op, x), atol=1e-9)
    tensor = F.filter(graph, torch.from_numpy(x))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor, y)


def test_types_of_numbers() -> None:
    op = ring(5)[0]
    assert F.filter(op, np.arange(5)).dtype == np.float32  # the operator's
    assert F.filter(scipy.sparse.csr_array(op.to_scipy()), np.arange(5)).dtype == np.float64
    assert F.filter(GRAPH, np.ones(34, dtype=np.float32)).dtype == np.float32
    assert isinstance(F.bind(op) @ np.ones(5), np.ndarray)
    learned = ARMAFilter(torch.tensor([0.5], dtype=torch.float64, requires_grad=True), [0.5])
    assert isinstance(learned.filter(GRAPH, np.ones(34)), np.ndarray)
    for odd in (np.array(["a"] * 34), np.ones(34, dtype=complex), np.ones(34, dtype=bool), np.array([None] * 34)):
        with pytest.raises(ArmagnnError, match="real numbers"):
            F.filter(GRAPH, odd)


def test_a_list_of_neighbours_is_a_graph() -> None:
    edge_index, weight = knn_graph(POINTS, 4, "gaussian")
    op = GraphOperator.from_graph(knn_graph(POINTS, 4, "gaussian"), dtype=torch.float64)
    assert torch.equal(op.to_dense(), GraphOperator.from_edge_index(edge_index, 34, weight.double()).to_dense())
    x = np.random.default_rng(2).standard_normal((34, 2))
    np.testing.assert_allclose(F.filter(knn_graph(POINTS, 4, "gaussian"), x), filtered(F, op, x), atol=1e-9)
    with pytest.raises(ArmagnnError):
        GraphOperator.from_graph((edge_index, weight, weight))
    with pytest.raises(ArmagnnError):
        GraphOperator.from_graph(("a", "b"))


def test_an_edge_index_has_as_many_nodes_as_the_signal() -> None:
    edges = torch.tensor([[0, 1], [1, 0]])
    assert F.filter(edges, torch.ones(4, 1)).shape == (4, 1)
    with pytest.raises(ArmagnnError, match="nodes"):
        F.filter(GRAPH, np.ones(33))


def test_a_filter_builds_the_kind_that_it_needs() -> None:
    f, x = GCNFilter(gamma=3.0, T=2), np.random.default_rng(3).standard_normal((34, 2))
    op = GraphOperator.from_dense(DENSE, "gcn", torch.float64, gamma=3.0)
    np.testing.assert_allclose(f.filter(GRAPH, x), filtered(PolynomialFilter([0, 0, 1.0]), op, x), atol=1e-9)
    with pytest.raises(ArmagnnError, match="build it first"):
        (f + GCNFilter(gamma=1.0)).filter(GRAPH, x)


@pytest.mark.parametrize("graph", [3, None, "karate", [1, 2], np.ones((3, 3))])
def test_what_is_no_graph(graph: Any) -> None:
    with pytest.raises(ArmagnnError):
        F.filter(graph, np.ones(3))
    with pytest.raises(ArmagnnError):
        F.filter(graph, torch.ones(()))
