"""The diagonal of an operator, what is left without it, and the promise that it is one."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given
from torch import Tensor
from torch.autograd import gradcheck
from torch.utils import _pytree as pytree

from armagnn.operators import GraphBatches, GraphOperator
from armagnn.operators.building import KINDS
from armagnn.torch_private import is_wrapped
from oracles import Graph, assert_near, numbers, operator, random_graph
from strategies import graphs

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
LOOP = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 1, 2]])


def laplacian(edges: Tensor = PATH, weight: Tensor | None = None) -> GraphOperator:
    return GraphOperator.from_edge_index(edges, 4, weight, "laplacian")


# ------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("kind", KINDS)
@given(graph=graphs())
def test_the_diagonal_and_the_rest(kind: str, graph: Graph) -> None:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), kind)  # type: ignore[arg-type]
    dense = torch.from_numpy(operator(graph.dense(), kind))
    assert_near(op.diagonal(), dense.diagonal())
    off = op.off_diagonal()
    assert_near(off.to_dense(), dense - dense.diagonal().diag())
    assert_near(off.T.to_dense(), off.to_dense().T, 0.0)
    assert off.symmetric == op.symmetric
    assert not off.unit_diagonal


def test_both_are_differentiable_in_the_values() -> None:
    graph = random_graph(5, 9)
    op = GraphOperator.from_edge_index(graph.edge_index, 5, graph.edge_weight(), "laplacian")
    x, value = numbers(5, 2), op.value.clone().requires_grad_()
    assert gradcheck(lambda v: op.with_value(v).diagonal(), (value,))
    assert gradcheck(lambda v: op.with_value(v).off_diagonal() @ x, (value,))


def test_what_is_off_the_diagonal_is_found_once_for_fixed_values() -> None:
    op = laplacian()
    with torch.inference_mode():
        off = op.off_diagonal()
    assert op.off_diagonal() is off
    x = torch.ones(4, 1, requires_grad=True)
    (off @ x).sum().backward()  # it was made for later use, too
    learned = op.with_value(op.value.clone().requires_grad_())
    for _ in range(2):  # a second backward pass finds its own graph
        (learned.off_diagonal() @ torch.ones(4, 1)).square().sum().backward()


def test_tensors_of_a_transform_are_not_kept() -> None:
    op, x = laplacian(), torch.ones(4, 1)
    inside = torch.func.grad(lambda x: (op.off_diagonal() @ x).square().sum())(x)
    assert not is_wrapped(op.off_diagonal().value)
    dense = op.off_diagonal().to_dense()
    assert_near(inside, 2 * dense.T @ dense @ x)
    fresh = laplacian()
    twice = torch.func.vmap(lambda x: fresh.off_diagonal() @ x)(torch.stack([x, 2 * x]))
    assert_near(twice[1], 2 * dense @ x)
    assert_near(fresh.off_diagonal().to_dense(), dense, 0.0)


# ---------------------------------------------------------------------------------------------------------- the promise


def test_a_laplacian_without_stored_loops_has_it() -> None:
    assert laplacian().unit_diagonal
    assert laplacian(torch.empty(2, 0, dtype=torch.int64)).unit_diagonal
    assert laplacian(PATH, torch.tensor([1.0, 2.0, 3.0, 0.0], requires_grad=True)).unit_diagonal
    assert not laplacian(LOOP).unit_diagonal
    assert not laplacian(LOOP, torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0])).unit_diagonal  # its gradient is not zero
    for kind in ("arma", "gcn", "adjacency"):
        assert not GraphOperator.from_edge_index(PATH, 4, kind=kind).unit_diagonal  # type: ignore[arg-type]


def test_it_goes_where_the_values_go() -> None:
    for edges in (PATH, LOOP):
        op = laplacian(edges)
        learned = laplacian(edges, torch.ones(edges.shape[1], requires_grad=True))
        leaves, structure = pytree.tree_flatten(op)
        same = [
            op.to(torch.float64), op.to(torch.bfloat16), op.to("meta"), op.to("cpu"), op.detach(), learned,
            learned.detach(), learned.to(torch.float64), copy.deepcopy(op), pytree.tree_unflatten(leaves, structure),
        ]  # fmt: skip
        assert [other.unit_diagonal for other in same] == [op.unit_diagonal] * len(same)


def test_new_values_lose_it() -> None:
    op = laplacian()
    assert not op.with_value(op.value).unit_diagonal
    assert not op._new(op.rowptr, op.col, op.value, op.shape, None, False).unit_diagonal
    assert not GraphOperator(op.rowptr, op.col, op.value, op.shape, kind="laplacian").unit_diagonal


def test_batches_have_it_if_all_graphs_do() -> None:
    plain, loop = laplacian(), laplacian(LOOP)
    for parts, expected in (([plain, plain], True), ([plain, loop], False)):
        joined = GraphOperator.block_diagonal(parts)
        assert joined.unit_diagonal == expected
        graphs = GraphBatches(joined, torch.tensor([0, 4, 8]))
        batches = [
            graphs.take([0]), graphs.take_padded(torch.tensor([0, 2]), 6, 12), graphs.to(torch.float64).take([1, 0]),
            *graphs.epoch([torch.tensor([0]), torch.tensor([1])]),
        ]  # fmt: skip
        assert [batch.op.unit_diagonal for batch in batches] == [expected] * len(batches)


def test_compiled_code_does_not_know() -> None:
    torch._dynamo.reset()

    def build(weight: Tensor) -> Tensor:
        op = laplacian(PATH, weight)
        return op.off_diagonal() @ torch.ones(4, 1) + op.unit_diagonal

    found = torch.compile(build, fullgraph=True, backend="aot_eager")(torch.ones(4))
    assert_near(found, laplacian().off_diagonal() @ torch.ones(4, 1))
