"""Node counts that the edges justify, and weights that are checked in their own precision."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch

from armagnn import CSR, GraphOperator
from armagnn.errors import GraphError, ShapeError
from armagnn.operators import coarsen
from armagnn.operators.entries import FEW, SPARSEST, justified

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
TINY = 1e-50
"""A weight that float32 has no number for."""


# ---------------------------------------------------------------------------------------------------------- node counts


@pytest.mark.parametrize("nodes", [FEW + 1, 2**35, 2**39])
def test_a_node_count_that_the_edges_cannot_justify(nodes: int) -> None:
    far = torch.tensor([[0, nodes - 1], [nodes - 1, 0]])
    for build in (
        lambda: GraphOperator.from_edge_index(EDGES, nodes),
        lambda: GraphOperator.from_edge_index(far),  # a key that was never renumbered
        lambda: GraphOperator.from_graph(EDGES, nodes),
        lambda: GraphOperator.from_scipy(scipy.sparse.coo_array(([1.0], ([0], [1])), shape=(nodes, nodes))),
        lambda: coarsen(EDGES, 1, num_nodes=nodes),
    ):
        with pytest.raises(GraphError, match=r"num_nodes is .* edges.*allow_isolated=True"):
            build()


@pytest.mark.parametrize("shape", [(3, 2**35), (2**35, 3)])
def test_a_shape_that_the_entries_cannot_justify(shape: tuple[int, int]) -> None:
    one = torch.tensor([1])
    for build in (
        lambda: CSR.from_coo(one, one, torch.ones(1), shape),
        lambda: CSR.from_scipy(scipy.sparse.coo_array(([1.0], ([0], [1])), shape=shape)),
        lambda: CSR.from_torch_sparse(torch.sparse_coo_tensor(torch.tensor([[1], [1]]), torch.ones(1), shape)),
    ):
        with pytest.raises(ShapeError, match="allow_empty=True"):
            build()


def test_many_isolated_nodes_for_those_who_insist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.operators.entries.FEW", 100)
    assert GraphOperator.from_edge_index(EDGES, 400).num_nodes == 400  # a hundred for each edge
    with pytest.raises(GraphError, match="allow_isolated=True"):
        GraphOperator.from_edge_index(EDGES, 401)
    assert GraphOperator.from_edge_index(EDGES, 401, allow_isolated=True).num_nodes == 401
    assert GraphOperator.from_graph(EDGES, 401, allow_isolated=True).num_nodes == 401
    matrix = scipy.sparse.coo_array(([1.0], ([0], [1])), shape=(401, 401))
    assert GraphOperator.from_scipy(matrix, allow_isolated=True).num_nodes == 401
    assert CSR.from_scipy(matrix, allow_empty=True).shape == (401, 401)
    with pytest.raises(GraphError, match="allow_isolated=True"):
        GraphOperator.from_scipy(matrix)


def test_what_is_justified() -> None:
    assert justified(FEW, 0, False) == FEW
    assert justified(SPARSEST * FEW, FEW, False) == SPARSEST * FEW
    assert justified(2**39, 0, True) == 2**39


# ----------------------------------------------------------------------------------------------------- own precision


def builders(weights: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The path 0 - 1 - 2 with two weights, in every form that may hold float64."""
    a, b = (float(w) for w in weights)
    dense = np.array([[0, a, 0], [a, 0, b], [0, b, 0]])
    graph = nx.Graph()
    graph.add_nodes_from(range(3))
    graph.add_weighted_edges_from([(0, 1, a), (1, 2, b)])
    doubles = torch.tensor([a, a, b, b], dtype=torch.float64)
    return {
        "scipy": lambda **o: GraphOperator.from_scipy(scipy.sparse.csr_array(dense), **o),
        "numpy": lambda **o: GraphOperator.from_dense(dense, **o),
        "networkx": lambda **o: GraphOperator.from_networkx(graph, **o),
        "torch": lambda **o: GraphOperator.from_edge_index(EDGES, 3, doubles, **{"dtype": torch.float32} | o),
        "torch.sparse": lambda **o: GraphOperator.from_torch_sparse(
            torch.from_numpy(dense).to_sparse(), **{"dtype": torch.float32} | o
        ),
    }


FORMS = list(builders(np.ones(2)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [TINY, 1e-200, 1e60, 1e200])
def test_degrees_of_weights_that_float32_cannot_hold(form: str, scale: float) -> None:
    """The operator does not depend on the unit of the weights."""
    op = builders(np.array([1.0, 3.0]) * scale)[form]()
    expected = builders(np.array([1.0, 3.0]))[form](dtype=torch.float64)
    assert op.dtype == torch.float32
    assert op.symmetric
    torch.testing.assert_close(op.to_dense().double(), expected.to_dense(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("form", FORMS)
def test_a_negative_weight_is_seen_however_small(form: str) -> None:
    with pytest.raises(GraphError, match="must not be negative"):
        builders(np.array([1.0, -TINY]))[form]()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weight", [TINY, 1e60])
def test_an_adjacency_whose_weights_would_vanish_or_become_infinite(form: str, weight: float) -> None:
    build = builders(np.array([1.0, weight]))[form]
    with pytest.raises(
        GraphError, match=f"holds {weight:g}, which torch.float32 cannot hold.*float64".replace("+", r"\+")
    ):
        build(kind="adjacency")
    assert weight in build(kind="adjacency", dtype=torch.float64).to_dense()


def test_a_matrix_whose_numbers_would_vanish() -> None:
    with pytest.raises(GraphError, match="the matrix holds 1e-50"):
        CSR.from_scipy(scipy.sparse.csr_array([[TINY]]))
    with pytest.raises(GraphError, match="the matrix holds 1e-50"):
        CSR.from_dense(np.array([[TINY]]))
    assert CSR.from_dense(np.array([[TINY]]), torch.float64).value.tolist() == [TINY]


def test_infinite_weights_are_called_that() -> None:
    with pytest.raises(GraphError, match="NaN or infinite"):
        GraphOperator.from_scipy(scipy.sparse.csr_array([[0.0, np.inf], [np.inf, 0.0]]))


def test_weights_that_float32_holds_keep_their_bits() -> None:
    """Conversion comes first where it loses no number: operators of earlier versions come out the same."""
    weights = torch.rand(4, dtype=torch.float64)
    weights[1], weights[3] = weights[0], weights[2]
    ours = GraphOperator.from_edge_index(EDGES, 3, weights, dtype=torch.float32)
    assert torch.equal(ours.value, GraphOperator.from_edge_index(EDGES, 3, weights.float()).value)


@pytest.mark.parametrize("form", ["scipy", "numpy", "networkx", "edges"])
def test_coarsening_keeps_float64(form: str) -> None:
    a, b = 1 / 3, TINY
    dense = np.array([[0, a, 0], [a, 0, b], [0, b, 0]])
    graph = {
        "scipy": scipy.sparse.csr_array(dense),
        "numpy": scipy.sparse.coo_matrix(dense),
        "networkx": nx.from_numpy_array(dense),
        "edges": EDGES,
    }[form]
    weight = torch.tensor([a, a, b, b], dtype=torch.float64) if form == "edges" else None
    _, found = coarsen(graph, 1, edge_weight=weight).edges(0)
    assert sorted(found.tolist()) == [b, b, a, a]
    _, found = coarsen(graph, 1, edge_weight=weight).edges(1)
    assert found.tolist() == [b, b]
