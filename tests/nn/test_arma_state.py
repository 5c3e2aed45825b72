"""What an ARMA layer keeps and what it has not: a lazy state, a cached operator, an attribute of other layers."""

from __future__ import annotations

import inspect
import io

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad

from armagnn import GraphOperator
from armagnn.errors import MissingAttributeError, ParameterError
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint
from nn.arma_oracle import random_graph

INDEX = random_graph(6, 9)

# --------------------------------------------------------------------------------------------------------- lazy layers


def lazy(**options: object) -> ARMAConv:
    return ARMAConv(-1, 3, num_stacks=2, num_layers=2, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{}, {"init": "zero"}, {"shared_weights": False}, {"fixed_point": FixedPoint()}])
@pytest.mark.parametrize("to_disk", [False, True])
def test_a_lazy_state_loads_into_a_lazy_layer(options: dict[str, object], to_disk: bool) -> None:
    source, target, x = lazy(**options), lazy(**options), torch.randn(6, 4)
    nn.init.ones_(source.bias)
    state = source.state_dict()
    if to_disk:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        buffer.seek(0)
        state = torch.load(buffer, weights_only=True)
    target.load_state_dict(state)
    assert torch.equal(target.bias, source.bias)
    assert target.in_channels == -1
    assert target(x, INDEX).shape == (6, 3)


def test_the_state_of_a_layer_that_has_run_loads_into_a_lazy_one() -> None:
    source, target, x = lazy(), lazy(), torch.randn(6, 4)
    expected = source(x, INDEX)
    target.load_state_dict(source.state_dict())
    assert target.in_channels == 4
    assert torch.equal(target(x, INDEX), expected)


# -------------------------------------------------------------------------------------------------------- cached=True


def cached() -> ARMAConv:
    return ARMAConv(4, 3, num_layers=2, cached=True)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("filled", [True, False])
def test_a_cached_layer_refuses_edge_weights_that_require_a_gradient(grad: bool, filled: bool) -> None:
    conv, x, weight = cached(), torch.randn(6, 4), torch.rand(INDEX.shape[1])
    if filled:
        conv(x, INDEX, weight)
    with torch.set_grad_enabled(grad), pytest.raises(ParameterError, match=r"cached=False, or detach"):
        conv(x, INDEX, weight.requires_grad_())
    conv(x, INDEX, weight.detach())


def test_a_cached_layer_refuses_learned_weights_in_every_form_of_a_graph() -> None:
    conv, x = cached(), torch.randn(6, 4)
    weight = torch.rand(INDEX.shape[1], requires_grad=True)
    matrix = torch.sparse_coo_tensor(INDEX, weight, (6, 6), check_invariants=False)
    from torch_geometric.data import Data

    for graph in (matrix, Data(edge_index=INDEX, edge_weight=weight, num_nodes=6)):
        with pytest.raises(ParameterError, match="cached"):
            conv(x, graph)
    with pytest.raises(ParameterError, match="cached"):
        torch.func.grad(lambda w: conv(x, INDEX, w).sum())(weight.detach())
    with forward_ad.dual_level(), pytest.raises(ParameterError, match="cached"):
        conv(x, INDEX, forward_ad.make_dual(weight.detach(), torch.ones_like(weight)))


def test_a_cached_operator_has_no_history() -> None:
    """A learned operator is not kept, and the one that is kept is met by no backward pass twice."""
    conv, x = cached(), torch.randn(6, 4)
    for _ in range(2):  # twice: a graph that was kept would be gone
        conv(x, INDEX, torch.rand(INDEX.shape[1])).sum().backward()
    learned = torch.rand(INDEX.shape[1], requires_grad=True)
    op = GraphOperator.from_edge_index(INDEX, 6, learned)
    kept = conv._operator
    assert kept is not None
    for _ in range(2):  # an operator that comes as such is not kept, and keeps its gradient
        assert torch.autograd.grad(conv(x, op).sum(), learned, retain_graph=True)[0].any()
    assert conv._operator is kept
    assert not kept.value.requires_grad


def test_nothing_that_does_not_last_is_cached() -> None:
    conv, x = cached(), torch.randn(6, 4)
    program = torch.export.export(conv, (x, INDEX))
    assert conv._operator is None
    torch.testing.assert_close(conv(x, INDEX), program.module()(x, INDEX))
    assert conv._operator is not None


# ------------------------------------------------------------------------------------------------------ bounded_weight


def test_a_layer_without_fixed_point_has_no_bounded_weight() -> None:
    conv = ARMAConv(4, 3)
    assert not hasattr(conv, "bounded_weight")
    assert "bounded_weight" not in dict(inspect.getmembers(conv))
    assert getattr(conv, "bounded_weight", None) is None
    with pytest.raises(MissingAttributeError, match="without fixed_point"):
        _ = conv.bounded_weight
    with pytest.raises(AttributeError, match="no attribute 'bounded_wait'"):
        _ = conv.bounded_wait


def test_a_layer_with_fixed_point_has_one() -> None:
    conv = ARMAConv(4, 3, fixed_point=FixedPoint())
    assert hasattr(conv, "bounded_weight")
    assert "bounded_weight" in dict(inspect.getmembers(conv))
