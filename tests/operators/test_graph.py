"""Every builder against the same dense adjacency; batches; what a graph operator adds to a matrix."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

from armagnn import GraphOperator
from armagnn.errors import SymmetryError
from armagnn.operators.building import KINDS
from oracles import Array, Graph, assert_near, numbers, operator, random_graph
from strategies import graphs

F64 = torch.float64
Builder = Callable[..., GraphOperator]
OPTIONS: list[dict[str, Any]] = [
    {"kind": "arma"},
    {"kind": "arma", "lambda_min": 0.1, "lambda_max": 1.7},
    {"kind": "gcn", "gamma": 0.5},
    {"kind": "laplacian"},
    {"kind": "adjacency"},
]


# ------------------------------------------------------------------------------------------------------ how graphs come


def sparse_coo(graph: Graph) -> Tensor:
    index = torch.from_numpy(np.stack([graph.target, graph.source]))
    return torch.sparse_coo_tensor(index, graph.edge_weight(), (graph.num_nodes,) * 2, check_invariants=True)


def networkx_graph(graph: Graph, cls: Any) -> Any:
    """Parallel edges of a plain DiGraph are added up by hand; a MultiDiGraph keeps them."""
    g = cls()
    g.add_nodes_from(f"node {i}" for i in range(graph.num_nodes))
    for s, t, w in zip(graph.source, graph.target, graph.weight, strict=True):
        u, v = f"node {s}", f"node {t}"
        if not g.is_multigraph() and g.has_edge(u, v):
            g[u][v]["weight"] += w
        else:
            g.add_edge(u, v, weight=w)
    return g


def data(graph: Graph, **extra: Any) -> Data:
    return Data(edge_index=graph.edge_index, edge_weight=graph.edge_weight(), num_nodes=graph.num_nodes, **extra)


def data_adj(graph: Graph) -> Data:
    return Data(adj_t=sparse_coo(graph).coalesce().to_sparse_csr(), num_nodes=graph.num_nodes)


def edge_index_of_pyg(graph: Graph) -> EdgeIndex:
    return EdgeIndex(graph.edge_index, sparse_size=(graph.num_nodes, graph.num_nodes))


def scipy_coo(graph: Graph, cls: Any) -> Any:
    return cls((graph.weight, (graph.target, graph.source)), shape=(graph.num_nodes,) * 2)


FORMS: dict[str, Callable[[Graph], Any]] = {
    "scipy coo_array": lambda g: scipy_coo(g, scipy.sparse.coo_array),
    "scipy coo_matrix": lambda g: scipy_coo(g, scipy.sparse.coo_matrix),
    "scipy csr_array": lambda g: scipy_coo(g, scipy.sparse.coo_array).tocsr(),
    "scipy csr_matrix": lambda g: scipy_coo(g, scipy.sparse.coo_matrix).tocsr(),
    "scipy csc_array": lambda g: scipy_coo(g, scipy.sparse.coo_array).tocsc(),
    "scipy lil_matrix": lambda g: scipy_coo(g, scipy.sparse.coo_matrix).tolil(),
    "torch coo": sparse_coo,
    "torch coo coalesced": lambda g: sparse_coo(g).coalesce(),
    "torch csr": lambda g: sparse_coo(g).coalesce().to_sparse_csr(),
    "torch csc": lambda g: sparse_coo(g).coalesce().to_sparse_csc(),
    "PyG Data": data,
    "PyG Data with adj_t": data_adj,
    "PyG Batch": lambda g: Batch.from_data_list([data(g)]),
    "networkx DiGraph": lambda g: networkx_graph(g, nx.DiGraph),
    "networkx MultiDiGraph": lambda g: networkx_graph(g, nx.MultiDiGraph),
}
"""What `from_graph` recognises by its type; the adjacency of each is the graph's."""

GO = GraphOperator
BUILDERS: dict[str, Callable[..., GraphOperator]] = {
    "edge_index": lambda g, **o: GO.from_edge_index(g.edge_index, g.num_nodes, g.edge_weight(), **o),
    "edge_index int32": lambda g, **o: GO.from_edge_index(g.edge_index.int(), g.num_nodes, g.edge_weight(), **o),
    "edge_index uint8": lambda g, **o: GO.from_edge_index(g.edge_index.byte(), g.num_nodes, g.edge_weight(), **o),
    "edge_index and a column": lambda g, **o: GO.from_edge_index(
        g.edge_index, g.num_nodes, g.edge_weight().unsqueeze(1), **o
    ),
    "EdgeIndex": lambda g, **o: GO.from_edge_index(edge_index_of_pyg(g), None, g.edge_weight(), **o),
    "numpy": lambda g, **o: GO.from_dense(g.dense(), dtype=F64, **o),
    "list": lambda g, **o: GO.from_dense(g.dense().tolist(), dtype=F64, **o),
    "dense tensor": lambda g, **o: GO.from_dense(torch.from_numpy(g.dense()), **o),
    "from_graph edge_index": lambda g, **o: GO.from_graph(g.edge_index, g.num_nodes, g.edge_weight(), **o),
    "from_graph EdgeIndex": lambda g, **o: GO.from_graph(edge_index_of_pyg(g), None, g.edge_weight(), **o),
}
DIRECT: dict[str, Builder] = {
    "scipy": GO.from_scipy,
    "torch": GO.from_torch_sparse,
    "PyG": GO.from_data,
    "networkx": GO.from_networkx,
}
for _name, _form in FORMS.items():
    _builder = DIRECT[_name.split()[0]]
    BUILDERS[_name] = lambda g, form=_form, builder=_builder, **o: builder(form(g), dtype=F64, **o)
    BUILDERS[f"from_graph {_name}"] = lambda g, form=_form, **o: GO.from_graph(form(g), dtype=F64, **o)

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


# ------------------------------------------------------------------------------------------------ nodes, weights, types


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


# ------------------------------------------------------------------------------------------------------------- symmetry


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


# -------------------------------------------------------------------------------------------------------------- batches


def parts(kind: str = "arma", learned: bool = False) -> tuple[list[GraphOperator], list[Array]]:
    shapes = [random_graph(5, 9, seed=1), random_graph(4, 5, seed=2).both_ways(), Graph(2, *(np.empty(0, int),) * 3)]
    operators = [
        GraphOperator.from_edge_index(g.edge_index, g.num_nodes, g.edge_weight().requires_grad_(learned), kind)
        for g in shapes
    ]
    return operators, [operator(g.dense(), kind) for g in shapes]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("chosen", [(0, 1, 2), (1,), (1, 1), (0, 0), (2, 1), (2,)], ids=str)
def test_block_diagonal_is_separate_graphs(kind: str, learned: bool, chosen: tuple[int, ...]) -> None:
    operators, truths = parts(kind, learned)
    operators, truths = [operators[i] for i in chosen], [truths[i] for i in chosen]
    joined = GraphOperator.block_diagonal(operators)
    truth = scipy.linalg.block_diag(*truths)
    assert joined.kind == kind
    assert joined.num_nodes == len(truth)
    assert joined.symmetric == all(op.symmetric for op in operators)
    assert_near(joined.to_dense(), truth)
    assert_near(joined.T.to_dense(), truth.T)
    x = numbers(len(truth), 3).requires_grad_()
    pieces = x.split([op.num_nodes for op in operators])
    separate = torch.cat([op @ piece for op, piece in zip(operators, pieces, strict=True)])
    assert torch.equal(joined @ x, separate)
    g = numbers(len(truth), 3, seed=4)
    wanted = [x, *(op.value for op in set(operators) if learned)]
    ours = torch.autograd.grad(joined @ x, wanted, g)
    theirs = torch.autograd.grad(separate, wanted, g)
    for a, b in zip(ours, theirs, strict=True):
        assert_near(a, b)


def test_block_diagonal_of_fixed_and_learned() -> None:
    operators, truths = parts()
    _, undirected, _ = parts(learned=True)[0]
    joined = GraphOperator.block_diagonal([operators[1], undirected])
    x = numbers(8, 2).requires_grad_()
    assert_near(joined @ x, scipy.linalg.block_diag(truths[1], truths[1]) @ x.detach().numpy())
    assert gradgradcheck(lambda v, x: GraphOperator.block_diagonal([operators[1], operators[1].with_value(v)]) @ x,
                         (undirected.value.detach().requires_grad_(), numbers(8, 1).requires_grad_()))  # fmt: skip


def test_block_diagonal_then_the_rest() -> None:
    """A batch is an operator like any other: values replaced, converted, joined again."""
    operators, truths = parts()
    joined = GraphOperator.block_diagonal(operators)
    truth = scipy.linalg.block_diag(*truths)
    assert_near(joined.with_value(joined.value * 2).T.to_dense(), 2 * truth.T)
    assert_near(joined.to(torch.float32).T.to_dense(), truth.T)
    again = GraphOperator.block_diagonal(iter([joined, joined]))  # type: ignore[arg-type]
    assert_near(again.T.to_dense(), scipy.linalg.block_diag(truth, truth).T)
    symmetric = GraphOperator.block_diagonal([operators[1]] * 2)
    assert_near(symmetric.with_value(symmetric.value * 3).T.to_dense(), 3 * scipy.linalg.block_diag(*truths[1:2] * 2))


@given(st.lists(graphs(max_nodes=5, max_edges=8), min_size=1, max_size=4), st.sampled_from(KINDS))
def test_batch_of_pyg(several: list[Graph], kind: str) -> None:
    batch = Batch.from_data_list([data(graph) for graph in several])
    truth = scipy.linalg.block_diag(*(operator(graph.dense(), kind) for graph in several))
    together = GraphOperator.from_data(batch, kind)
    assert_near(together.to_dense(), truth)
    joined = GraphOperator.block_diagonal([GraphOperator.from_data(data(graph), kind) for graph in several])
    assert_near(joined.to_dense(), truth)
    x = numbers(len(truth), 2)
    assert torch.equal(together @ x, joined @ x)


def test_sampled_subgraph_of_pyg() -> None:
    """What a NeighborLoader yields is directed: target nodes receive, the outermost ones do not."""
    from torch_geometric.utils import k_hop_subgraph

    graph = random_graph(12, 40, seed=5)
    nodes, index, _, kept = k_hop_subgraph(0, 1, graph.edge_index, relabel_nodes=True, directed=True, num_nodes=12)
    op = GraphOperator.from_edge_index(index, len(nodes), graph.edge_weight()[kept])
    truth = Graph(len(nodes), index[0].numpy(), index[1].numpy(), graph.weight[kept.numpy()])
    assert not op.symmetric
    assert_near(op.to_dense(), operator(truth.dense(), "arma"))


# ----------------------------------------------------------------------------------------------------------- with_value


def test_with_value() -> None:
    op = GraphOperator.from_edge_index(random_graph(6, 9).both_ways().edge_index, 6, kind="gcn")
    other = op.with_value(torch.arange(op.nnz, dtype=torch.float32))
    assert other.kind == "gcn"
    assert not other.symmetric  # nobody has looked
    assert torch.equal(other.to_dense() != 0, (op.to_dense() != 0) & (other.to_dense() != 0))
    assert sorted(other.to_dense().flatten().tolist())[-op.nnz :] == list(range(op.nnz))
    assert op.symmetric  # the first one has not changed
    assert_near(other.T.to_dense(), other.to_dense().T)
