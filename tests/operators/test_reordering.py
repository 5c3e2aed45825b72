"""Another order of the nodes: the same graph, the same results, and neighbours nearer to each other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn import CSR, GraphOperator
from armagnn.errors import ArmagnnError, GraphError, ShapeError
from armagnn.nn import ARMAConv
from armagnn.operators import NodeOrder, knn_graph


def shuffled_grid(side: int = 12) -> GraphOperator:
    """A grid whose nodes have random numbers."""
    ids = torch.arange(side * side).view(side, side)
    edges = torch.cat(
        [torch.stack([ids[:, :-1], ids[:, 1:]]).flatten(1), torch.stack([ids[:-1], ids[1:]]).flatten(1)], 1
    )
    place = torch.randperm(side * side, generator=torch.Generator().manual_seed(0))
    edges = place[torch.cat([edges, edges.flip(0)], 1)]
    return GraphOperator.from_edge_index(edges, side * side, dtype=torch.float64)


@given(nodes=st.integers(1, 9), seed=st.integers(0, 99), kind=st.sampled_from(["arma", "gcn", "laplacian"]))
@pytest.mark.parametrize("directed", [True, False])
def test_it_is_the_matrix_with_rows_and_columns_permuted(directed: bool, nodes: int, seed: int, kind: str) -> None:
    generator = torch.Generator().manual_seed(seed)
    index = torch.randint(0, nodes, (2, 2 * nodes), generator=generator)
    index = index if directed else torch.cat([index, index.flip(0)], 1)
    weight = None if not directed else torch.rand(index.shape[1], generator=generator, dtype=torch.float64)
    op = GraphOperator.from_edge_index(index, nodes, weight, kind, dtype=torch.float64)  # type: ignore[arg-type]
    for given_order in (None, torch.randperm(nodes, generator=generator)):
        near, order = op.reordered(given_order)
        assert torch.equal(near.to_dense(), op.to_dense()[order.old][:, order.old])
        assert torch.equal(near.T.to_dense(), op.T.to_dense()[order.old][:, order.old])
        assert (near.kind, near.symmetric, near.shift, near.unit_diagonal) == (
            op.kind, op.symmetric, op.shift, op.unit_diagonal,
        )  # fmt: skip
        assert given_order is None or torch.equal(order.old, given_order)
        x = torch.randn(2, nodes, 3, generator=generator, dtype=torch.float64)
        torch.testing.assert_close(order.restore(near @ order.permute(x)), op @ x)


def test_neighbours_come_near_each_other() -> None:
    op = shuffled_grid()
    near, order = op.reordered()

    def farthest(op: GraphOperator) -> int:
        return int((op._rows() - op.col).abs().max())

    assert farthest(op) > 100
    assert farthest(near) <= 2 * 12
    x = torch.randn(144, 4, dtype=torch.float64)
    conv = ARMAConv(4, 3, 2, 3).double()
    torch.testing.assert_close(order.restore(conv(order.permute(x), near)), conv(x, op))


def test_gradients_of_values_and_features() -> None:
    index = torch.tensor([[0, 4, 4, 2, 1], [4, 0, 2, 4, 3]])
    op = GraphOperator.from_edge_index(index, 5, kind="adjacency", dtype=torch.float64)
    value, x = torch.rand(5, dtype=torch.float64).requires_grad_(), torch.rand(5, 2, dtype=torch.float64)
    x.requires_grad_()
    weights = torch.rand(5, 2, dtype=torch.float64)
    learned = op.with_value(value)
    near, order = learned.reordered()
    ours = torch.autograd.grad((order.restore(near @ order.permute(x)) * weights).sum(), [value, x])
    truth = torch.autograd.grad(((learned @ x) * weights).sum(), [value, x])
    for one, other in zip(ours, truth, strict=True):
        torch.testing.assert_close(one, other)


def test_labels_sparse_features_and_other_axes() -> None:
    order = NodeOrder.of(torch.tensor([2, 0, 3, 1]))
    labels, wide = torch.tensor([5, 6, 7, 8]), torch.arange(8.0).view(2, 4)
    assert order.permute(labels).tolist() == [7, 5, 8, 6]
    assert torch.equal(order.permute(wide, dim=1), wide[:, order.old])
    assert torch.equal(order.restore(order.permute(wide, -1), -1), wide)
    dense = torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 4.0, 0.0]])
    sparse = order.permute(CSR.from_dense(dense))
    assert torch.equal(sparse.to_dense(), dense[order.old])
    assert torch.equal(sparse.T.to_dense(), dense[order.old].T)
    assert torch.equal(order.restore(sparse).to_dense(), dense)


def test_graphs_without_edges_or_nodes() -> None:
    for nodes in (0, 3):
        op = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), nodes)
        near, order = op.reordered()
        assert near.num_nodes == len(order.old) == nodes
        assert order.restore(order.permute(torch.ones(nodes, 1))).shape == (nodes, 1)


def test_bad_orders_and_features_are_refused() -> None:
    """By one clear error each."""
    op = shuffled_grid(3)
    for bad in (torch.zeros(9, dtype=torch.int64), torch.arange(8), torch.arange(9) - 1, torch.rand(9), [0], "rcm"):
        with pytest.raises(ArmagnnError):
            op.reordered(bad)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="each of 0 to 8 once"):
        op.reordered(torch.ones(9, dtype=torch.int32))
    _, order = op.reordered()
    for x in (torch.ones(8, 2), torch.ones(4), CSR.from_dense(torch.eye(4))):
        with pytest.raises(ShapeError, match="9 nodes"):
            order.permute(x)
    with pytest.raises(ShapeError, match="no axis 3"):
        order.permute(torch.ones(9, 2), 3)
    with pytest.raises(ArmagnnError):
        order.restore("x")


def test_neighbours_of_points() -> None:
    points = torch.rand(300, 2, generator=torch.Generator().manual_seed(1))
    op = GraphOperator.from_edge_index(knn_graph(points, 4)[0], 300)
    near, _ = op.reordered()
    assert (near._rows() - near.col).abs().double().mean() < (op._rows() - op.col).abs().double().mean() / 4
