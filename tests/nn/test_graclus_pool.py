"""Pooling along the tree against a reduction over explicit clusters of the graph's own nodes."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap
from torch.nn import functional as F

from armagnn.errors import DTypeError, ParameterError, ShapeError, UnknownNameError
from armagnn.nn import ARMAConv, GraclusPool
from armagnn.operators import Coarsening, coarsen
from oracles import Graph
from strategies import undirected

MODES = pytest.mark.parametrize("mode", ["max", "mean"])
Mode = Literal["max", "mean"]


def tree_of(graph: Graph, levels: int) -> Coarsening:
    return coarsen(graph.edge_index, levels, num_nodes=graph.num_nodes, edge_weight=graph.edge_weight())


def by_cluster(tree: Coarsening, x: Tensor, level: int, mode: str) -> Tensor:
    """Reduce the signals (B, N, F) over the nodes of each cluster of a level; a cluster without nodes gives zero."""
    out = torch.zeros(x.shape[0], tree.sizes[level], x.shape[2], dtype=x.dtype)
    cluster = tree.place >> level
    for p in range(tree.sizes[level]):
        members = x[:, cluster == p]
        if members.shape[1]:
            out[:, p] = members.amax(1) if mode == "max" else members.mean(1)
    return out


@MODES
@given(graph=undirected(max_nodes=16, max_edges=30), levels=st.integers(0, 3), sign=st.sampled_from([-1.0, 1.0]))
def test_pooling_is_the_reduction_over_clusters_whatever_is_at_fakes(
    mode: Mode, graph: Graph, levels: int, sign: float
) -> None:
    tree = tree_of(graph, levels)
    x = sign * torch.rand(2, graph.num_nodes, 3, dtype=torch.float64) - 0.5 * sign
    x = x - 2 if sign < 0 else x  # all negative: a zero would win
    expected = by_cluster(tree, x, levels, mode)
    for filling in (0.0, 1e30, -1e30):
        arranged = tree.arrange(x)
        arranged[:, ~tree.real[0]] = filling
        arranged.requires_grad_()
        pooled = GraclusPool(2**levels, mode)(arranged, tree.real[0])
        torch.testing.assert_close(pooled, expected, rtol=1e-12, atol=1e-12)
        pooled.sum().backward()
        assert arranged.grad is not None
        assert arranged.grad.isfinite().all()
        assert not arranged.grad[:, ~tree.real[0]].any(), "a fake has a gradient"


@given(undirected(max_nodes=16, max_edges=30))
def test_maxima_of_maxima_are_maxima(graph: Graph) -> None:
    tree = tree_of(graph, 3)
    x = tree.arrange(torch.randn(2, graph.num_nodes, 3))
    at_once = GraclusPool(8)(x, tree.real[0])
    stepwise = GraclusPool(4)(GraclusPool(2)(x, tree.real[0]), tree.real[1])
    assert torch.equal(at_once, stepwise)


def test_a_large_bias_never_leaks_from_a_fake() -> None:
    star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    tree = coarsen(star, 2)
    assert not tree.real[0].all()
    conv = ARMAConv(1, 2, num_stacks=2, num_layers=3, act=None)
    torch.nn.init.constant_(conv.bias, 100.0)  # type: ignore[arg-type]
    torch.nn.init.constant_(conv.skip_weight, -50.0)
    x = torch.rand(5, 4, 1) + 1
    plain = conv(x, conv.operator(star, 4))
    out = GraclusPool(4)(conv(tree.arrange(x), tree.operator()), tree.real[0])
    torch.testing.assert_close(out, by_cluster(tree, plain, 2, "max"))


@MODES
def test_without_fakes_it_is_torchs_own_pooling(mode: Mode) -> None:
    x = torch.randn(3, 12, 5, dtype=torch.float64, requires_grad=True)
    torchs = F.max_pool1d if mode == "max" else F.avg_pool1d
    expected = torchs(x.transpose(1, 2), 4).transpose(1, 2)
    for real in (None, torch.ones(12, dtype=torch.bool)):
        found = GraclusPool(4, mode)(x, real)
        torch.testing.assert_close(found, expected)
        grads = [torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (found, expected)]
        torch.testing.assert_close(*grads)


@MODES
def test_gradients_are_those_of_differences(mode: Mode) -> None:
    x = torch.randn(2, 8, 2, dtype=torch.float64, requires_grad=True)
    real = torch.tensor([True, True, False, True, True, False, False, False])
    assert torch.autograd.gradcheck(lambda x: GraclusPool(2, mode)(x, real), (x,))


@MODES
def test_it_works_under_vmap_and_without_a_batch(mode: Mode) -> None:
    x, real = torch.randn(3, 2, 8, 2), torch.tensor([True, False] * 4)
    pool = GraclusPool(2, mode)
    assert torch.equal(vmap(lambda x: pool(x, real))(x), pool(x, real))
    assert torch.equal(pool(x[0, 0], real), pool(x, real)[0, 0])


@pytest.mark.parametrize(
    ("x", "real", "error", "message"),
    [
        (torch.zeros(7, 1), None, ShapeError, "arrange"),
        (torch.zeros(8), None, ShapeError, "x must have shape"),
        (torch.zeros(8, 1, dtype=torch.int64), None, DTypeError, "float"),
        (torch.zeros(8, 1), torch.ones(8), DTypeError, "booleans"),
        (torch.zeros(8, 1), torch.ones(4, dtype=torch.bool), ShapeError, r"\(8,\)"),
    ],
    ids=["places", "axes", "integers", "mask", "length"],
)
def test_bad_input_is_refused(x: Tensor, real: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        GraclusPool(2)(x, real)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ParameterError, match="stride"):
        GraclusPool(0)
    with pytest.raises(UnknownNameError, match="mean"):
        GraclusPool(2, "average")  # type: ignore[arg-type]
    assert repr(GraclusPool(4)) == "GraclusPool(4, 'max')"
