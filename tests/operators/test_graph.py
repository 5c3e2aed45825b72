"""Every builder against the same dense adjacency; batches; what a graph operator adds to a matrix."""

from __future__ import annotations

import importlib.util
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from armagnn import GraphOperator
from armagnn.errors import SymmetryError
from armagnn.operators.building import KINDS
from operators.builders import (
    BUILDERS,
    F64,
    FORMS,
    Builder,
)
from oracles import Graph, assert_near, numbers, operator, random_graph
from strategies import graphs

OPTIONS: list[dict[str, Any]] = [
    {"kind": "arma"},
    {"kind": "arma", "lambda_min": 0.1, "lambda_max": 1.7},
    {"kind": "gcn", "gamma": 0.5},
    {"kind": "laplacian"},
    {"kind": "adjacency"},
]


builders = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


@builders
@settings(max_examples=10)
@given(graphs(max_nodes=6, max_edges=12))
def test_every_builder_and_kind(build: Builder, graph: Graph) -> None:
    a = graph.dense()
    for options in OPTIONS:
        op = build(graph, **options)
        assert type(op) is GraphOperator
        assert op.num_nodes == graph.num_nodes
        assert op.dtype == F64
        assert op.kind == options["kind"]
        assert_near(op.to_dense(), operator(a, **options))


@pytest.mark.parametrize("cls", [nx.Graph, nx.MultiGraph])
@given(graphs(max_nodes=6, max_edges=10, weights=st.floats(0.1, 9)))
def test_networkx_undirected(cls: Any, graph: Graph) -> None:
    """An edge lets both ends receive; a self-loop is one entry; parallel edges of a multigraph are added up."""
    g = cls()
    g.add_nodes_from(range(graph.num_nodes))
    truth = np.zeros((graph.num_nodes,) * 2)
    for s, t, w in zip(graph.source.tolist(), graph.target.tolist(), graph.weight.tolist(), strict=True):
        if cls is nx.Graph:
            truth[s, t] = truth[t, s] = 0
        truth[s, t] += w
        if s != t:
            truth[t, s] += w
        g.add_edge(s, t, weight=w)
    for build in (GraphOperator.from_networkx, GraphOperator.from_graph):
        op = build(g, kind="adjacency", dtype=F64)
        assert_near(op.to_dense(), truth)
        assert op.symmetric


def test_networkx_weights_and_node_order() -> None:
    g = nx.DiGraph()
    g.add_nodes_from("cab")  # the order of the nodes is that of the graph, not of their names
    g.add_edge("a", "b", weight=2.0, length=5.0)
    g.add_edge("b", "c")  # without a weight: 1
    expected = {"weight": [2.0, 1.0], "length": [5.0, 1.0], None: [1.0, 1.0]}
    for weight, (ab, bc) in expected.items():
        truth = np.zeros((3, 3))
        truth[2, 1], truth[0, 2] = ab, bc  # c = 0, a = 1, b = 2; the target receives
        assert_near(GraphOperator.from_networkx(g, "adjacency", weight).to_dense(), truth)
    assert GraphOperator.from_networkx(nx.Graph()).num_nodes == 0
    assert GraphOperator.from_networkx(nx.empty_graph(3), "laplacian").to_dense().tolist() == np.eye(3).tolist()


def test_the_target_receives() -> None:
    """One edge 0 -> 2, in every form: node 2 gets what node 0 sends, and nothing the other way round."""
    graph = Graph(3, np.array([0]), np.array([2]), np.array([5.0]))
    x = torch.tensor([[1.0], [10.0], [100.0]], dtype=F64)
    for name, build in BUILDERS.items():
        assert (build(graph, kind="adjacency") @ x).squeeze().tolist() == [0, 0, 5], name


@pytest.mark.skipif(importlib.util.find_spec("torch_sparse") is None, reason="torch_sparse is not installed")
def test_sparse_tensor() -> None:
    from torch_sparse import SparseTensor

    graph = random_graph(6, 12)
    adj = SparseTensor(
        row=torch.from_numpy(graph.target), col=torch.from_numpy(graph.source), value=graph.edge_weight(),
        sparse_sizes=(6, 6),
    )  # fmt: skip
    assert_near(GraphOperator.from_graph(adj, dtype=F64).to_dense(), operator(graph.dense(), "arma"))


def test_number_of_nodes() -> None:
    index = torch.tensor([[0, 3], [1, 1]])
    assert GraphOperator.from_edge_index(index).num_nodes == 4  # up to the largest id
    assert GraphOperator.from_edge_index(index, 9).num_nodes == 9
    assert GraphOperator.from_edge_index(index, np.int64(9)).num_nodes == 9  # type: ignore[arg-type]
    assert GraphOperator.from_edge_index(EdgeIndex(index, sparse_size=(7, 7))).num_nodes == 7
    assert GraphOperator.from_edge_index(EdgeIndex(index, sparse_size=(7, 7)), 8).num_nodes == 8
    assert GraphOperator.from_edge_index(EdgeIndex(index)).num_nodes == 4
    assert GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64)).num_nodes == 0
    assert GraphOperator.from_data(Data(edge_index=index, x=torch.ones(6, 1))).num_nodes == 6


def test_narrow_ids_do_not_wrap() -> None:
    """200 * 250 + 3 is no number of uint8."""
    index = torch.tensor([[3, 249, 200], [249, 3, 200]])
    wide = GraphOperator.from_edge_index(index, 250, symmetrize="max")
    narrow = GraphOperator.from_edge_index(index.to(torch.uint8), 250, symmetrize="max")
    assert torch.equal(wide.to_dense(), narrow.to_dense())
    assert wide.to_dense()[249, 3] == wide.to_dense()[3, 249] == wide.to_dense()[200, 200] == 1


def test_an_operator_is_a_graph() -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0], [1]]))
    assert GraphOperator.from_graph(op) is op


def test_type_of_the_values() -> None:
    """That of floating-point weights, else torch's default; ``dtype`` overrules both."""
    index = torch.tensor([[0, 1], [1, 0]])
    for dtype in (torch.float32, F64, torch.bfloat16):
        assert GraphOperator.from_edge_index(index, edge_weight=torch.ones(2, dtype=dtype)).dtype == dtype
        assert GraphOperator.from_edge_index(index, edge_weight=torch.ones(2), dtype=dtype).dtype == dtype
        assert GraphOperator.from_edge_index(index, dtype=dtype).dtype == dtype
        assert GraphOperator.from_dense(torch.eye(2, dtype=dtype)).dtype == dtype
        for name, form in FORMS.items():
            assert GraphOperator.from_graph(form(random_graph(4, 5)), dtype=dtype).dtype == dtype, name
    for weight in (torch.tensor([1, 2]), torch.tensor([True, False])):
        op = GraphOperator.from_edge_index(index, edge_weight=weight, kind="adjacency")
        assert op.dtype == torch.float32
        assert op.value.tolist() == [float(weight[1]), float(weight[0])]
    assert GraphOperator.from_scipy(scipy.sparse.eye_array(2)).dtype == torch.float32
    torch.set_default_dtype(F64)
    assert GraphOperator.from_scipy(scipy.sparse.eye_array(2)).dtype == F64
    assert GraphOperator.from_edge_index(index).dtype == F64


def test_indices_are_32_bits_wide() -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=F64)
    assert op.rowptr.dtype == op.col.dtype == torch.int32


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_an_operator_of_either_width(index: torch.dtype) -> None:
    """The constructor takes both; a graph beyond 2^31 entries needs the wide one."""
    narrow = GraphOperator.from_edge_index(random_graph(7, 20).edge_index, 7, dtype=F64)
    op = GraphOperator(narrow.rowptr.to(index), narrow.col.to(index), narrow.value, (7, 7), kind="arma")
    x = numbers(7, 3).requires_grad_()
    value = op.value.clone().requires_grad_()
    learned = op.with_value(value)
    assert_near(op @ x, narrow.to_dense() @ x)
    assert gradcheck(lambda v, x: op.with_value(v) @ x, (value, x))
    assert_near(learned.T.to_dense(), narrow.to_dense().T)


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16])
@pytest.mark.parametrize("how", ["max", "mean"])
@given(graphs(weights=st.one_of(st.just(0.0), st.floats(0.01, 10))), st.sampled_from(KINDS))
def test_symmetrize(how: str, dtype: torch.dtype, graph: Graph, kind: str) -> None:
    """The larger or the mean of A and its transpose, whatever its parallel edges, and exactly symmetric."""
    rounded = Graph(graph.num_nodes, graph.source, graph.target, graph.edge_weight(dtype).double().numpy())
    a = rounded.dense()
    truth = np.maximum(a, a.T) if how == "max" else (a + a.T) / 2
    op = GraphOperator.from_edge_index(
        graph.edge_index, graph.num_nodes, graph.edge_weight(dtype), kind, symmetrize=how
    )  # fmt: skip
    assert_near(op.to_dense(), operator(truth, kind))
    assert op.symmetric
    assert op.require_symmetric("a test") is op


@pytest.mark.parametrize("how", ["max", "mean"])
@pytest.mark.parametrize("seed", range(10))
def test_symmetrize_many_parallel_edges(how: str, seed: int) -> None:
    """Sums of three or more numbers depend on their order; the symmetric operator must not."""
    graph = random_graph(6, 60, seed=seed)
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight(torch.float32), symmetrize=how)
    assert op.symmetric


def test_symmetrize_negative_weights() -> None:
    index, weight = torch.tensor([[0, 1, 1], [1, 0, 2]]), torch.tensor([-3.0, -1.0, -2.0])
    larger = GraphOperator.from_edge_index(index, 3, weight, "adjacency", symmetrize="max")
    assert larger.to_dense().tolist() == [[0, -1, 0], [-1, 0, 0], [0, 0, 0]]  # a missing edge is a zero
    mean = GraphOperator.from_edge_index(index, 3, weight, "adjacency", symmetrize="mean")
    assert mean.to_dense().tolist() == [[0, -2, 0], [-2, 0, -1], [0, -1, 0]]


@pytest.mark.parametrize("how", ["max", "mean"])
def test_symmetrize_is_differentiable(how: str) -> None:
    index = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 0]])
    weight = torch.tensor([1.0, 2.0, 3.0, 0.5, 0.7], dtype=F64, requires_grad=True)
    assert gradcheck(lambda w: GraphOperator.from_edge_index(index, 3, w, symmetrize=how).to_dense(), (weight,))


def test_every_form_can_be_symmetrized() -> None:
    graph = random_graph(6, 12)
    a = graph.dense()
    for name, build in BUILDERS.items():
        op = build(graph, symmetrize="mean")
        assert op.symmetric, name
        assert_near(op.to_dense(), operator((a + a.T) / 2, "arma"))


def test_advice_where_symmetry_is_needed() -> None:
    directed = GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 2)
    with pytest.raises(SymmetryError, match=r"^a spectrum needs a symmetric operator.*directed.*symmetrize='max'"):
        directed.require_symmetric("a spectrum")
    with pytest.raises(ValueError, match="symmetrize"):
        directed.require_symmetric("a spectrum")
    undirected = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2)
    assert undirected.require_symmetric("a spectrum") is undirected
    with pytest.raises(SymmetryError, match="values were replaced"):
        undirected.with_value(undirected.value).require_symmetric("a spectrum")


def test_with_value() -> None:
    op = GraphOperator.from_edge_index(random_graph(6, 9).both_ways().edge_index, 6, kind="gcn")
    other = op.with_value(torch.arange(op.nnz, dtype=torch.float32))
    assert other.kind == "gcn"
    assert not other.symmetric  # nobody has looked
    assert torch.equal(other.to_dense() != 0, (op.to_dense() != 0) & (other.to_dense() != 0))
    assert sorted(other.to_dense().flatten().tolist())[-op.nnz :] == list(range(op.nnz))
    assert op.symmetric  # the first one has not changed
    assert_near(other.T.to_dense(), other.to_dense().T)
