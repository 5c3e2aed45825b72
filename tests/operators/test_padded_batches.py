"""Padded batches: the batch and nodes without edges, in the room that was asked for or not at all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn.errors import ArmagnnError, ParameterError
from armagnn.nn import ARMAConv
from armagnn.nn.pooling import AvgPool
from armagnn.operators import GraphBatches, GraphOperator
from armagnn.randomness import source
from oracles import assert_near, numbers

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


OP = GraphOperator.from_edge_index(EDGES)


def test_what_is_padded_is_checked() -> None:
    batches = GraphBatches(GraphOperator.block_diagonal([OP, OP]), torch.tensor([0, 3, 6]))
    assert batches.take_padded(torch.tensor([1, 2]), 5, 9).num_graphs == 3
    for ids, rows, nonzeros in (
        ([1], 5, 9), (torch.tensor([[1]]), 5, 9), (torch.tensor([1.5]), 5, 9), (torch.tensor([3]), 5, 9),
        (torch.tensor([-1]), 5, 9), (torch.tensor([1]), "5", 9), (torch.tensor([1]), 5, [9]),
    ):  # fmt: skip
        with pytest.raises(ArmagnnError, match=r"ids|rows|nonzeros"):
            batches.take_padded(ids, rows, nonzeros)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "nonzeros"), [(2, 9), (4, 3)])
def test_a_batch_that_does_not_fit_into_its_room_is_refused(rows: int, nonzeros: int) -> None:
    """It was written beyond the room, and ended the process."""
    batches = GraphBatches(GraphOperator.block_diagonal([OP, OP]), torch.tensor([0, 3, 6]))
    assert batches.take_padded(torch.tensor([1]), 4, 4).num_nodes == 4
    with pytest.raises(ArmagnnError, match="too few"):
        batches.take_padded(torch.tensor([1]), rows, nonzeros)


F64 = torch.float64


def pointer(ops: list[GraphOperator]) -> Tensor:
    return torch.tensor([0, *np.cumsum([op.num_nodes for op in ops])])


def joined(ops: list[GraphOperator]) -> GraphBatches:
    return GraphBatches(GraphOperator.block_diagonal(ops), pointer(ops))


def few(directed: bool = False, dtype: torch.dtype = F64) -> list[GraphOperator]:
    """A triangle with a tail, a node alone, two nodes without an edge, an edge (one way, if directed)."""
    edges = ([[0, 1], [1, 2], [2, 0], [2, 3]], [], [], [[0, 1]])
    ops = []
    for nodes, pairs in zip((4, 1, 2, 2), edges, strict=True):
        index = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t()
        index = index if directed else torch.cat([index, index.flip(0)], dim=1)
        ops.append(GraphOperator.from_edge_index(index, nodes, dtype=dtype))
    return ops


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("picks", [[0], [3, 0, 3], [1, 2, 4], [4, 0, 4, 2]])
@pytest.mark.parametrize("room", [(0, 0), (1, 3), (20, 40)])
def test_a_padded_batch_is_the_batch_and_nodes_without_edges(
    directed: bool, picks: list[int], room: tuple[int, int]
) -> None:
    graphs = joined(few(directed))  # graph 4 is the one without nodes
    real = [pick for pick in picks if pick < 4]
    exact, (rows, nonzeros) = graphs.take(real), graphs.measure(real)
    batch = graphs.take_padded(torch.tensor(picks), rows + room[0], nonzeros + room[1])
    assert batch.ids.tolist() == [*picks, 4]
    assert batch.ptr.diff().tolist() == [*([4, 1, 2, 2, 0][pick] for pick in picks), room[0]]
    assert torch.equal(batch.nodes[:rows], exact.nodes)
    assert (batch.op.nnz, int(batch.op.rowptr[-1])) == (nonzeros + room[1], nonzeros + room[1])
    assert int(batch.op.rowptr[rows]) == nonzeros
    if room[0]:  # the stored zeros are shared out evenly
        assert batch.op.rowptr[rows:].diff().max() <= -(-room[1] // room[0])
    assert_near(batch.op.to_dense()[:rows, :rows], exact.op.to_dense())
    dense = torch.zeros(rows + room[0], rows + room[0], dtype=F64)
    dense[:rows, :rows] = exact.op.to_dense()
    x = numbers(rows + room[0], 3)
    assert_near(batch.op @ x, dense @ x)
    assert_near(batch.op.T @ x, dense.T @ x)
    y = numbers(rows + room[0], 3).requires_grad_()
    (gradient,) = torch.autograd.grad((batch.op @ y * x).sum(), y)
    assert_near(gradient, dense.T @ x)


@pytest.mark.parametrize("nonzeros", [0, 7])
def test_graphs_without_edges_are_padded_too(nonzeros: int) -> None:
    none = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 5)
    batch = GraphBatches(none, torch.tensor([0, 2, 5])).take_padded(torch.tensor([1, 0]), 8, nonzeros)
    assert batch.op.nnz == nonzeros
    assert not batch.op.to_dense().any()
    assert batch.nodes[:5].tolist() == [2, 3, 4, 0, 1]


def test_padding_changes_no_layer_and_no_pool() -> None:
    graphs = joined(few())
    exact, padded = graphs.take([0, 3]), graphs.take_padded(torch.tensor([0, 3, 4]), 9, 30)
    x = numbers(9, 5)
    conv, pool = ARMAConv(5, 3, num_stacks=2, num_layers=2, dropout=0.5).double(), AvgPool()
    results = []
    for batch in (exact, padded):
        with source(torch.tensor([7])):
            out = pool(conv(x[batch.nodes], batch.op), batch)[:2]
        results.append((out, *torch.autograd.grad(out.square().sum(), list(conv.parameters()))))
    for one, other in zip(*results, strict=True):
        assert_near(other, one)


@pytest.mark.parametrize(("rows", "nonzeros"), [(0, 0), (4, 6), (5, 7), (9, 5), (-1, 9), (9, 2**40), (2.5, 9)])
def test_a_padded_batch_without_enough_room(rows: Any, nonzeros: Any) -> None:
    """Nothing may be written behind the end of an array; `rows=0` ended the process."""
    two = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]))
    graphs = GraphBatches(two, torch.tensor([0, 3, 5]))
    with pytest.raises(ParameterError, match=r"rows|nonzeros"):
        graphs.take_padded(torch.tensor([0, 1]), rows, nonzeros)
    assert graphs.take_padded(torch.tensor([0, 1, 2]), 5, 6).num_nodes == 5
    with pytest.raises(ParameterError, match="from 0 to 2"):
        graphs.take_padded(torch.tensor([3]), 9, 9)
