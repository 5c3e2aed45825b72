"""Coarsening: every node kept once, clusters that are pairs of neighbours, operators that are sums over clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.errors import GraphError, ParameterError, ShapeError, SymmetryError
from armagnn.operators import Coarsening, GraphOperator, coarsen, knn_graph
from oracles import Graph
from strategies import undirected

LEVELS = st.integers(0, 4)


def tree_of(graph: Graph, levels: int, **options: Any) -> Coarsening:
    return coarsen(graph.edge_index, levels, num_nodes=graph.num_nodes, edge_weight=graph.edge_weight(), **options)


def dense(graph: Graph) -> np.ndarray:
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(matrix, (graph.target, graph.source), graph.weight)
    return matrix


@given(undirected(max_nodes=20, max_edges=40), LEVELS)
def test_every_node_is_kept_once_and_sizes_double(graph: Graph, levels: int) -> None:
    tree = tree_of(graph, levels)
    assert tree.num_levels == levels
    for level, (order, real, size) in enumerate(zip(tree.order, tree.real, tree.sizes, strict=True)):
        clusters = tree.adjacency[level].shape[0]
        assert sorted(order[real].tolist()) == list(range(clusters))
        assert size == tree.sizes[-1] * 2 ** (levels - level)
    assert tree.num_nodes == graph.num_nodes
    assert bool(tree.real[-1].all()), "the coarsest level needs no fakes"


@given(undirected(max_nodes=20, max_edges=40), st.integers(1, 4))
def test_a_place_is_real_if_one_of_its_children_is(graph: Graph, levels: int) -> None:
    tree = tree_of(graph, levels)
    for fine, coarse in zip(tree.real[:-1], tree.real[1:], strict=True):
        assert torch.equal(fine.view(-1, 2).any(1), coarse)


@given(undirected(max_nodes=20, max_edges=40), st.integers(1, 3))
def test_clusters_are_neighbours_and_none_is_left_that_could_be_joined(graph: Graph, levels: int) -> None:
    tree = tree_of(graph, levels)
    for level in range(levels):
        matrix = tree.adjacency[level].to_dense().numpy().copy()
        np.fill_diagonal(matrix, 0)
        pairs = tree.order[level].view(-1, 2).tolist()
        alone = []
        for a, b in pairs:
            if min(a, b) >= 0:
                assert matrix[a, b] > 0
            elif max(a, b) >= 0:
                alone.append(max(a, b))
        assert not matrix[np.ix_(alone, alone)].any(), "two free neighbours were not joined"


@given(undirected(max_nodes=16, max_edges=40), st.integers(0, 3))
def test_weights_between_clusters_are_sums_and_operators_are_symmetric(graph: Graph, levels: int) -> None:
    tree = tree_of(graph, levels)
    matrix = dense(graph)
    for level in range(levels + 1):
        member = np.zeros((tree.sizes[level], graph.num_nodes))
        member[(tree.place >> level).numpy(), np.arange(graph.num_nodes)] = 1
        expected = member @ matrix @ member.T
        if level:
            np.fill_diagonal(expected, 0)
        op = tree.operator(level, "adjacency", dtype=torch.float64)
        np.testing.assert_allclose(op.to_dense().numpy(), expected, rtol=1e-12, atol=1e-12)
        assert op.symmetric, "to the last bit"
        assert not op.to_dense()[~tree.real[level]].any(), "a fake has edges"


def test_level_0_is_the_graph_itself_with_its_loops() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])
    tree = coarsen(edge_index, 1)
    found = tree.operator(0, "arma", dtype=torch.float64).to_dense()[tree.place][:, tree.place]
    whole = GraphOperator.from_edge_index(edge_index, 3, dtype=torch.float64)
    assert torch.equal(found, whole.to_dense())


def gains(matrix: np.ndarray, tree: Coarsening) -> float:
    """Return how much of the normalised cut the pairs of the first level save."""
    matrix = matrix * (1 - np.eye(len(matrix)))
    degree = matrix.sum(1)
    pairs = [(a, b) for a, b in tree.order[0].view(-1, 2).tolist() if min(a, b) >= 0]
    return sum(matrix[a, b] * (1 / degree[a] + 1 / degree[b]) for a, b in pairs)


@given(undirected(max_nodes=14, max_edges=40))
def test_more_restarts_gain_no_less(graph: Graph) -> None:
    one, many = (gains(dense(graph), tree_of(graph, 1, restarts=count)) for count in (1, 20))
    assert many >= one - 1e-12


def test_the_first_matching_goes_by_the_normalised_cut() -> None:
    # a path a - b - c - d: the outer edges save 1 + 1/2 each, the inner one 1/2 + 1/2
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    tree = coarsen(path, 1, restarts=1)
    assert sorted(sorted(pair) for pair in tree.order[0].view(-1, 2).tolist()) == [[0, 1], [2, 3]]
    # a heavy inner edge does not change that: it fills the degrees of its ends as well
    weight = torch.tensor([1.0, 1.0, 1.2, 1.2, 1.0, 1.0])
    assert torch.equal(coarsen(path, 1, edge_weight=weight, restarts=1).order[0], tree.order[0])


def test_restarts_find_what_one_order_misses() -> None:
    edge_index, weight = knn_graph(np.random.default_rng(0).normal(size=(60, 2)), 3, "gaussian")
    matrix = GraphOperator.from_edge_index(edge_index, 60, weight, "adjacency").to_dense().double().numpy()
    one, many = (coarsen(edge_index, 1, edge_weight=weight, restarts=count) for count in (1, 200))
    assert gains(matrix, many) > gains(matrix, one) + 1e-6


def test_a_seed_repeats_and_another_differs() -> None:
    edge_index, _ = knn_graph(np.random.default_rng(0).normal(size=(300, 2)), 6)
    one, again, other = (coarsen(edge_index, 2, seed=seed).order[0] for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


@given(undirected(max_nodes=12, max_edges=20), LEVELS)
def test_restore_undoes_arrange(graph: Graph, levels: int) -> None:
    tree = tree_of(graph, levels)
    x = torch.randn(2, graph.num_nodes, 3)
    arranged = tree.arrange(x)
    assert arranged.shape == (2, tree.sizes[0], 3)
    assert torch.equal(tree.restore(arranged), x)
    assert not arranged[:, ~tree.real[0]].any()


@given(undirected(max_nodes=12, max_edges=20))
def test_propagation_in_the_order_of_the_tree_is_that_of_the_graph(graph: Graph) -> None:
    tree = tree_of(graph, 2)
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
    x = torch.randn(graph.num_nodes, 2, dtype=torch.float64)
    through = tree.restore(tree.operator(0, dtype=torch.float64) @ tree.arrange(x))
    torch.testing.assert_close(through, op @ x, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nodes", [0, 1, 5])
def test_a_graph_without_edges_has_every_node_alone(nodes: int) -> None:
    tree = coarsen(torch.empty(2, 0, dtype=torch.int64), 2, num_nodes=nodes)
    assert tree.sizes == (4 * nodes, 2 * nodes, nodes)
    assert tree.operator(2).nnz == 0


def test_weights_of_zero_join_nobody() -> None:
    pair = torch.tensor([[0, 1], [1, 0]])
    assert coarsen(pair, 1, edge_weight=torch.zeros(2)).sizes == (4, 2)
    assert coarsen(pair, 1, edge_weight=torch.ones(2)).sizes == (2, 1)


def test_other_forms_of_a_graph_are_read() -> None:
    edge_index, _ = knn_graph(np.random.default_rng(0).normal(size=(30, 2)), 3)
    op = GraphOperator.from_edge_index(edge_index, kind="adjacency")
    assert torch.equal(coarsen(op, 2).order[0], coarsen(edge_index, 2).order[0])


def test_moving_keeps_it() -> None:
    tree = coarsen(torch.tensor([[0, 1], [1, 0]]), 1)
    assert torch.equal(tree.to("cpu").order[0], tree.order[0])
    assert tree.to("meta").order[0].device.type == "meta"


PAIR = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((torch.tensor([[0], [1]]), 1), {}, SymmetryError, "symmetrize"),
        ((PAIR, 1), {"edge_weight": torch.tensor([-1.0, -1.0])}, GraphError, "negative"),
        ((GraphOperator.from_edge_index(PAIR), 1), {}, GraphError, "kind='adjacency'"),
        ((PAIR, -1), {}, ParameterError, "levels"),
        ((PAIR, True), {}, ParameterError, "levels"),
        ((PAIR, 25), {}, ParameterError, "from 0 to 24"),
        ((PAIR, 1), {"restarts": 0}, ParameterError, "restarts"),
        ((PAIR, 1), {"seed": 1.5}, ParameterError, "seed"),
        ((PAIR, 1), {"seed": 2**70}, ParameterError, "seed"),
    ],
    ids=["directed", "negative", "normalised", "levels", "bool", "deep", "restarts", "seed", "large seed"],
)
def test_bad_input_is_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        coarsen(*arguments, **options)


def test_wrong_shapes_and_levels_are_refused() -> None:
    tree = coarsen(PAIR, 1)
    with pytest.raises(ShapeError, match=r"\(..., 2, F\)"):
        tree.arrange(torch.zeros(3, 1))
    with pytest.raises(ShapeError, match=r"\(..., 2, F\)"):
        tree.restore(torch.zeros(3, 1))
    with pytest.raises(ParameterError, match="from 0 to 1"):
        tree.operator(2)
