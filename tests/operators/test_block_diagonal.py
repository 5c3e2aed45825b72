"""Disjoint graphs as one operator, and graphs that PyG has joined or sampled."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradgradcheck
from torch_geometric.data import Batch

from armagnn import GraphOperator
from armagnn.operators.building import KINDS
from operators.builders import (
    data,
)
from oracles import Array, Graph, assert_near, numbers, operator, random_graph
from strategies import graphs


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
