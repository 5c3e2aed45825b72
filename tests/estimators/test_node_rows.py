from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, GraphError, ParameterError, ShapeError, UnknownNameError
from armagnn.estimators.node_rows import FrameIndex, NodeRows
from oracles import random_graph

GRAPH = random_graph(8, 12, seed=1).both_ways()
X = np.random.default_rng(0).normal(size=(8, 3))


def dense(graph: Any) -> Any:
    return graph.to_dense().numpy() if isinstance(graph, GraphOperator) else graph.toarray()


def test_all_forms_of_a_graph_are_one_graph() -> None:
    edges = GRAPH.edge_index
    a = sp.csr_array((np.ones(edges.shape[1]), edges.numpy()[::-1]), shape=(8, 8))
    named = networkx.relabel_nodes(networkx.from_scipy_sparse_array(a), {i: f"n{i}" for i in range(8)})
    forms = [edges, edges.numpy(), a, a.toarray(), named, GraphOperator.from_edge_index(edges, 8, kind="adjacency")]
    for form in forms:
        np.testing.assert_array_equal(dense(NodeRows.fit(form, 3, X, None).all().graph), a.toarray())


def test_an_operator_stays_what_it_is() -> None:
    op = GraphOperator.from_edge_index(GRAPH.edge_index, 8, dtype=torch.float64)
    rows = NodeRows.fit(op, 3, X, None)
    assert torch.equal(rows.all().graph.to_dense(), op.to_dense())
    some = np.array([5, 2, 7])
    part = NodeRows.fit(op, 3, X[some], some).all()
    assert part.graph.kind == "arma"
    ids = np.sort(some)
    np.testing.assert_array_equal(part.graph.to_dense(), op.to_dense()[ids][:, ids])
    np.testing.assert_array_equal(part.X[part.wanted], X[some])


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_call_sees_the_nodes_of_fit_and_its_own(data: st.DataObject) -> None:
    fitted = data.draw(st.lists(st.integers(0, 7), min_size=1, unique=True))
    asked = data.draw(st.lists(st.integers(0, 7), min_size=1, unique=True))
    a = np.zeros((8, 8))
    np.add.at(a, tuple(GRAPH.edge_index.numpy()[::-1]), 1.0)
    rows = NodeRows.fit(a, 3, X[fitted], fitted)
    other = X + 1.0  # the features of a call replace those of fit
    part = rows.ask(other[asked], asked)
    ids = np.union1d(fitted, asked)
    np.testing.assert_array_equal(dense(part.graph), a[ids][:, ids])
    np.testing.assert_array_equal(part.X, np.where(np.isin(ids, asked)[:, None], other[ids], X[ids]))
    np.testing.assert_array_equal(ids[part.wanted], asked)


def test_nearest_rows_give_and_new_rows_receive() -> None:
    rows = NodeRows.fit("knn", 2, X, None)
    new = np.random.default_rng(1).normal(size=(3, 3))
    call = np.concatenate([new, X[[4]]])
    part = rows.ask(call, None)
    graph = dense(part.graph)
    np.testing.assert_array_equal(graph[:8, :8], dense(rows.all().graph))
    assert not graph[:, 8:].any()  # nobody receives from a new row
    for place, point in enumerate(new):
        nearest = np.argsort(((X - point) ** 2).sum(1))[:2]
        assert set(np.flatnonzero(graph[8 + place])) == set(nearest)
    np.testing.assert_array_equal(part.wanted, [8, 9, 10, 4])  # the last one is a row of fit
    alone = rows.ask(sp.csr_array(call[1:2]), None)
    np.testing.assert_array_equal(dense(alone.graph)[8], graph[9][:9])


def test_sparse_rows_are_the_same_rows() -> None:
    sparse = sp.csr_array(np.where(X > 0, X, 0.0))
    plain = NodeRows.fit("knn", 2, sparse.toarray(), None)
    rows = NodeRows.fit("knn", 2, sparse, None)
    np.testing.assert_array_equal(dense(rows.matrix), dense(plain.matrix))
    np.testing.assert_array_equal(rows.ask(sparse[[3, 0]], None).wanted, [3, 0])
    assert sp.issparse(rows.ask(sparse[[3]] * 2, None).X)


def test_nodes_by_name_and_by_the_index_of_a_frame() -> None:
    path = networkx.path_graph(["a", "b", "c"])
    assert NodeRows.fit(path, 1, X[:2], ["c", "a"]).nodes.tolist() == [2, 0]
    assert NodeRows.fit(path, 1, X[:3], FrameIndex(np.array(["c", "a", "b"], dtype=object))).nodes.tolist() == [2, 0, 1]
    # an index that names no nodes is no error, where rows can be counted
    assert NodeRows.fit(path, 1, X[:3], FrameIndex(np.array([10, 11, 12]))).nodes.tolist() == [0, 1, 2]


def test_an_edge_index_need_not_name_the_last_nodes() -> None:
    edges = np.array([[0, 1], [1, 0]])
    assert NodeRows.fit(edges, 3, X, None).all().graph.shape == (8, 8)
    rows = NodeRows.fit(edges, 3, X[:2], [0, 1])
    part = rows.ask(X[[7]], [7])
    assert part.graph.shape == (3, 3)
    assert part.wanted.tolist() == [2]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("near", 3, X, None), UnknownNameError, "knn"),
        (("knn", 0, X, None), ParameterError, "n_neighbors"),
        (("knn", 3, X[:1], None), ArmagnnError, "1 sample"),
        (("knn", 3, X, [0, 1]), ParameterError, "nodes"),
        ((np.eye(5), 3, X, None), ShapeError, "8 rows, but the graph 5 nodes"),
        ((np.eye(5), 3, X[:2], [0, 5]), GraphError, "0 to 4, got 5"),
        ((np.eye(5), 3, X[:2], [1, 1]), GraphError, "two rows"),
        ((np.eye(5), 3, X[:2], [1]), ShapeError, "2 rows"),
        ((np.eye(5), 3, X[:2], ["a", "b"]), GraphError, "got 'a'"),
        ((networkx.path_graph(["a", "b"]), 3, X[:1], ["c"]), GraphError, "got 'c'"),
        ((object(), 3, X, None), ArmagnnError, "cannot read a graph"),
    ],
)
def test_what_cannot_be_is_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        NodeRows.fit(*arguments)
