"""Every kind against the paper's formula in dense numpy, and its gradient in the edge weights."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from armagnn import GraphOperator, kernels
from armagnn.operators.building import KINDS
from oracles import Graph, assert_near, numbers, operator, random_graph, torch_operator
from strategies import graphs, undirected

F64 = torch.float64

options = st.one_of(
    st.just({"kind": "arma"}),
    st.fixed_dictionaries({"kind": st.just("arma"), "lambda_min": st.floats(-1, 1), "lambda_max": st.floats(1, 3)}),
    st.fixed_dictionaries({"kind": st.just("gcn"), "gamma": st.sampled_from([0, 0.5, 1.0, 2, 3.7])}),
    st.just({"kind": "laplacian"}),
    st.just({"kind": "adjacency"}),
)


def build(graph: Graph, dtype: torch.dtype = F64, **chosen: Any) -> GraphOperator:
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(dtype), **chosen)


# --------------------------------------------------------------------------------------------------------------- values


@settings(max_examples=120)
@given(graphs(), options, st.sampled_from([torch.float32, F64, torch.bfloat16]))
def test_every_kind(graph: Graph, chosen: dict[str, Any], dtype: torch.dtype) -> None:
    """Directed, with loops, parallel edges, lone nodes, zero weights: the formula, entry by entry, and never a NaN."""
    rounded = Graph(graph.num_nodes, graph.source, graph.target, graph.edge_weight(dtype).double().numpy())
    op = build(graph, dtype, **chosen)
    assert op.dtype == dtype
    assert op.kind == chosen["kind"]
    assert_near(op.to_dense(), operator(rounded.dense(), **chosen))


@given(undirected(), st.sampled_from(["lambda_min", "lambda_max", "both"]))
def test_computed_range(graph: Graph, which: str) -> None:
    names = ("lambda_min", "lambda_max") if which == "both" else (which,)
    chosen: dict[str, Any] = dict.fromkeys(names, "computed")
    assert_near(build(graph, **chosen).to_dense(), operator(graph.dense(), "arma", **chosen), 1e-8)


def test_a_computed_range_is_not_upside_down_by_rounding() -> None:
    """A lone node with a loop has the eigenvalue 0, which is computed as -2e-16."""
    loop = Graph(1, np.array([0]), np.array([0]), np.array([6.0]))
    assert build(loop, lambda_max="computed").shift == -1
    assert build(loop, lambda_min="computed", lambda_max="computed").shift == -1


def test_computed_range_of_known_graphs() -> None:
    """A triangle's Laplacian has the eigenvalues 0 and 3/2; a bipartite graph's reach 2, which is the default."""
    triangle = Graph(3, np.array([0, 1, 2]), np.array([1, 2, 0]), np.ones(3)).both_ways()
    assert_near(build(triangle, lambda_max="computed").to_dense().diagonal(), np.full(3, -0.25), 1e-9)  # 3/4 - 1
    square = Graph(4, np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0]), np.ones(4)).both_ways()
    assert_near(build(square, lambda_min="computed", lambda_max="computed").to_dense(), build(square).to_dense(), 1e-9)


@given(graphs())
def test_identities_between_the_kinds(graph: Graph) -> None:
    dense = {kind: build(graph, kind=kind).to_dense() for kind in KINDS}
    eye = torch.eye(graph.num_nodes, dtype=F64)
    assert_near(dense["arma"], eye - dense["laplacian"])
    assert_near(build(graph, lambda_min=0.0, lambda_max=2.0).to_dense(), dense["arma"])
    assert_near(build(graph, kind="gcn", gamma=0).to_dense(), dense["arma"])
    assert_near(build(graph, lambda_min=-1, lambda_max=3).to_dense(), dense["arma"] + eye)


@given(undirected())
def test_spectrum_lies_where_the_paper_says(graph: Graph) -> None:
    """Eigenvalues of M in [-1, 1] and of L in [0, 2]: what Theorem 1 and Eq. 9 rest on."""
    arma = torch.linalg.eigvalsh(build(graph).to_dense())
    assert float(arma.abs().max()) <= 1 + 1e-12
    laplacian = torch.linalg.eigvalsh(build(graph, kind="laplacian").to_dense())
    assert float(laplacian.min()) >= -1e-12
    assert float(laplacian.max()) <= 2 + 1e-12


def test_a_lone_node() -> None:
    lone = torch.empty(2, 0, dtype=torch.int64)
    diagonal = {kind: GraphOperator.from_edge_index(lone, 1, kind=kind).to_dense().item() for kind in KINDS}
    assert diagonal == {"arma": 0.0, "gcn": 1.0, "laplacian": 1.0, "adjacency": 0.0}
    assert GraphOperator.from_edge_index(lone, 1, kind="gcn", gamma=0).to_dense().item() == 0.0
    assert GraphOperator.from_edge_index(lone, 1, lambda_max=3.0).to_dense().item() == 0.5


def test_a_self_loop_counts_once() -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 0, 1], [0, 1, 0]]), dtype=F64)
    assert_near(op.to_dense(), np.array([[1 / 2, 2**-0.5], [2**-0.5, 0]]))


def test_degrees_of_bfloat16_are_summed_in_float32() -> None:
    """In bfloat16 a sum of ones stops at 256."""
    nodes = 1001
    star = torch.stack([torch.arange(1, nodes), torch.zeros(nodes - 1, dtype=torch.int64)])
    op = GraphOperator.from_edge_index(torch.cat([star, star.flip(0)], 1), nodes, dtype=torch.bfloat16)
    assert_near(op.to_dense()[0, 1:], np.full(1000, 1000**-0.5), 4e-3)


# ------------------------------------------------------------------------------------------------------------------ PyG


@given(graphs(weights=st.floats(0.01, 10.0)))
def test_degrees_and_directions_as_in_pyg(graph: Graph) -> None:
    """In-degrees, and an edge (source, target) at [target, source]."""
    index, weight = gcn_norm(graph.edge_index, graph.edge_weight(), graph.num_nodes, False, False, dtype=F64)
    theirs = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=F64)
    theirs.index_put_((index[1], index[0]), weight, accumulate=True)
    assert_near(build(graph).to_dense(), theirs)


@given(graphs(weights=st.floats(0.01, 10.0)), st.booleans())
def test_gcn_as_in_pyg(graph: Graph, improved: bool) -> None:
    """With its self-loops: PyG gives one to each node that has none, so the graphs here have none."""
    loopless = graph.source != graph.target
    graph = Graph(graph.num_nodes, graph.source[loopless], graph.target[loopless], graph.weight[loopless])
    index, weight = gcn_norm(graph.edge_index, graph.edge_weight(), graph.num_nodes, improved, True, dtype=F64)
    theirs = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=F64)
    theirs.index_put_((index[1], index[0]), weight, accumulate=True)
    assert_near(build(graph, kind="gcn", gamma=2.0 if improved else 1.0).to_dense(), theirs)


# ----------------------------------------------------------------------------------------------------------- properties


@given(graphs(), options, st.randoms(use_true_random=False))
def test_permutation_equivariance(graph: Graph, chosen: dict[str, Any], random: Any) -> None:
    """Renaming the nodes renames rows and columns: (P M Pᵀ)(P x) = P (M x)."""
    order = list(range(graph.num_nodes))
    random.shuffle(order)
    permutation = np.array(order)
    x = numbers(graph.num_nodes, 2)
    moved = torch.empty_like(x)
    moved[permutation] = x
    out = build(graph.permuted(permutation), **chosen) @ moved
    assert_near(out[permutation], build(graph, **chosen) @ x)


@given(graphs(weights=st.integers(0, 5).map(float)), st.integers(0, 99), st.integers(-4, 4), st.integers(-4, 4))
def test_linearity(graph: Graph, seed: int, a: int, b: int) -> None:
    """Exactly, for whole numbers and the adjacency; up to rounding for every kind."""
    whole = [numbers(graph.num_nodes, 3, seed=seed + k, whole=True) for k in range(2)]
    op = build(graph, kind="adjacency")
    assert torch.equal(op @ (a * whole[0] + b * whole[1]), a * (op @ whole[0]) + b * (op @ whole[1]))
    x, y = (numbers(graph.num_nodes, 3, seed=seed + k) for k in range(2))
    for kind in KINDS:
        op = build(graph, kind=kind)
        assert_near(op @ (a * x + b * y), a * (op @ x) + b * (op @ y))


@given(graphs(), options)
def test_order_of_the_edges_does_not_matter(graph: Graph, chosen: dict[str, Any]) -> None:
    backwards = Graph(graph.num_nodes, graph.source[::-1], graph.target[::-1], graph.weight[::-1])
    assert_near(build(backwards, **chosen).to_dense(), build(graph, **chosen).to_dense())


@given(undirected(), options, st.sampled_from([torch.float32, F64, torch.bfloat16]))
def test_an_undirected_graph_is_symmetric_to_the_last_bit(
    graph: Graph, chosen: dict[str, Any], dtype: torch.dtype
) -> None:
    op = build(graph, dtype, **chosen)
    assert op.symmetric
    assert torch.equal(op.to_dense(), op.to_dense().T)
    assert op.T is op


@given(graphs(), options)
def test_symmetric_never_claims_too_much(graph: Graph, chosen: dict[str, Any]) -> None:
    op = build(graph, **chosen)
    if op.symmetric:
        assert torch.equal(op.to_dense(), op.to_dense().T)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_one_bit_of_asymmetry_is_seen(dtype: torch.dtype) -> None:
    index = torch.tensor([[0, 1], [1, 0]])
    weight = torch.ones(2, dtype=dtype)
    assert GraphOperator.from_edge_index(index, 2, weight, "adjacency").symmetric
    weight[0] = torch.nextafter(weight[0], weight[0] * 2)
    assert not GraphOperator.from_edge_index(index, 2, weight, "adjacency").symmetric


# ------------------------------------------------------------------------------------------------------------ gradients

EDGES = torch.tensor([[0, 1, 1, 2, 0, 0, 3, 3, 2], [1, 0, 2, 1, 1, 0, 3, 1, 3]])  # parallel edges, loops, directed
WEIGHTS = torch.tensor([0.5, 1.5, 0.7, 2.0, 0.3, 1.1, 0.9, 1.3, 0.4], dtype=F64)
NODES = 6  # of which 4 and 5 are alone


@pytest.mark.parametrize(("kind", "gamma"), [*((kind, 1.0) for kind in KINDS), ("gcn", 0.0), ("gcn", 2.5)])
def test_gradient_in_the_weights(kind: str, gamma: float) -> None:
    weight, x = WEIGHTS.clone().requires_grad_(), numbers(NODES, 2).requires_grad_()
    ours = GraphOperator.from_edge_index(EDGES, NODES, weight, kind, gamma=gamma) @ x
    theirs = torch_operator(EDGES, weight, NODES, kind, gamma) @ x
    assert_near(ours, theirs)
    g = numbers(NODES, 2, seed=4)
    for a, b in zip(*(torch.autograd.grad(y, (weight, x), g) for y in (ours, theirs)), strict=True):
        assert bool(a.isfinite().all())
        assert_near(a, b)


@pytest.mark.parametrize("chosen", [{"kind": k} for k in KINDS] + [{"lambda_max": 1.5}], ids=str)
def test_gradcheck_in_the_weights(chosen: dict[str, Any]) -> None:
    weight, x = WEIGHTS.clone().requires_grad_(), numbers(NODES, 1).requires_grad_()

    def product(weight: Tensor, x: Tensor) -> Tensor:
        return GraphOperator.from_edge_index(EDGES, NODES, weight, **chosen) @ x

    def dense(weight: Tensor) -> Tensor:
        return GraphOperator.from_edge_index(EDGES, NODES, weight, **chosen).to_dense()

    assert gradcheck(product, (weight, x))
    assert gradcheck(dense, (weight,))
    assert gradgradcheck(product, (weight, x))


@given(graphs(), st.sampled_from(KINDS))
def test_gradient_on_any_graph(graph: Graph, kind: str) -> None:
    """Also where edges of weight zero leave a node without a degree: no infinity of 0^-1/2 gets through."""
    weight = graph.edge_weight().requires_grad_()
    g = numbers(graph.num_nodes, graph.num_nodes, seed=4)
    ours = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, weight, kind).to_dense()
    theirs = torch_operator(graph.edge_index, weight, graph.num_nodes, kind)
    assert_near(torch.autograd.grad(ours, weight, g)[0], torch.autograd.grad(theirs, weight, g)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_learned_weights_of_a_symmetric_graph(kind: str) -> None:
    """The operator is symmetric in value, but a gradient in one entry is not one in its mirror image."""
    graph = random_graph(6, 8, seed=3).both_ways()
    weight, x = graph.edge_weight().requires_grad_(), numbers(6, 2).requires_grad_()
    g = numbers(6, 2, seed=4)
    for transposed in (False, True):
        op, dense = (
            GraphOperator.from_edge_index(graph.edge_index, 6, weight, kind),
            torch_operator(graph.edge_index, weight, 6, kind),
        )
        assert op.symmetric
        ours, theirs = (op.T @ x, dense.T @ x) if transposed else (op @ x, dense @ x)
        for a, b in zip(*(torch.autograd.grad(y, (weight, x), g) for y in (ours, theirs)), strict=True):
            assert_near(a, b)
    small = (weight.detach()[:4].clone().requires_grad_(), numbers(6, 1).requires_grad_())
    rest = weight.detach()[4:]
    assert gradgradcheck(
        lambda w, x: GraphOperator.from_edge_index(graph.edge_index, 6, torch.cat([w, rest]), kind) @ x, small
    )


# ------------------------------------------------------------------------------------------------------------ compilers


@pytest.mark.parametrize("chosen", [{"kind": k} for k in KINDS] + [{"lambda_max": 1.5}], ids=str)
def test_built_inside_a_compiled_function(chosen: dict[str, Any]) -> None:
    """From edges with duplicates, which a compiled graph leaves side by side: the same operator, value and gradient."""
    torch._dynamo.reset()

    def product(index: Tensor, weight: Tensor, x: Tensor) -> Tensor:
        return GraphOperator.from_edge_index(index, NODES, weight, **chosen) @ x

    weight, x = WEIGHTS.clone().requires_grad_(), numbers(NODES, 2).requires_grad_()
    compiled = torch.compile(product, fullgraph=True, backend="aot_eager")
    ours, theirs = compiled(EDGES, weight, x), product(EDGES, weight, x)
    assert_near(ours, theirs)
    g = numbers(NODES, 2, seed=4)
    for a, b in zip(*(torch.autograd.grad(y, (weight, x), g) for y in (ours, theirs)), strict=True):
        assert_near(a, b)


# --------------------------------------------------------------------------------------------------- compiled assembly


@given(graphs(), options, st.sampled_from([torch.float32, torch.float64, torch.bfloat16]))
def test_the_kernels_build_what_torch_builds(graph: Graph, chosen: dict[str, Any], dtype: torch.dtype) -> None:
    """To the last bit, from edges and from matrices of scipy."""
    matrix = scipy.sparse.coo_array((graph.weight, (graph.target, graph.source)), (graph.num_nodes,) * 2)

    def built() -> list[GraphOperator]:
        edges = GraphOperator.from_edge_index(
            graph.edge_index, graph.num_nodes, graph.edge_weight(), dtype=dtype, **chosen
        )
        plain = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, dtype=dtype, **chosen)
        forms = [matrix.asformat(form) for form in ("coo", "csr", "csc")]
        return [edges, plain, *(GraphOperator.from_scipy(form, dtype=dtype, **chosen) for form in forms)]

    ours = built()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled_assembly", lambda *tensors: None)
        truth = built()
    for one, other in zip(ours, truth, strict=True):
        assert (one.symmetric, one.unit_diagonal, one.shift) == (other.symmetric, other.unit_diagonal, other.shift)
        for name in ("rowptr", "col", "value"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        for part, same in zip(one._structure(), other._structure(), strict=True):
            assert torch.equal(part, same)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system does not say what is in memory")
@pytest.mark.parametrize("form", ["edges", "csr", "coo"])
def test_building_takes_little_more_than_the_operator(form: str) -> None:
    program = f"""
import numpy as np, scipy.sparse, torch
from armagnn import GraphOperator, kernels
from armagnn.bench.comparison import peak_mib
def prepared(nodes, edges):
    half = np.random.default_rng(0).integers(0, nodes, (2, edges // 2))
    both = np.concatenate([half, half[::-1]], 1)
    if {form!r} == "edges":
        index = torch.from_numpy(both)
        return lambda: GraphOperator.from_edge_index(index, nodes)
    matrix = scipy.sparse.coo_array((np.ones(edges), both.astype(np.int32)), (nodes, nodes)).asformat({form!r})
    return lambda: GraphOperator.from_scipy(matrix)
prepared(50, 100)()
build, kept = prepared(100_000, 4_000_000), []
peak = peak_mib(lambda: kept.append(build()))
op = kept[0]
assert op.symmetric
print(peak * 2**20 / sum(t.numel() * t.element_size() for t in (op.rowptr, op.col, op.value)))
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    assert float(done.stdout.split()[-1]) <= 2.5
