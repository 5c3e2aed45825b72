"""What makes a step a contraction: weights, activations, operators; and the way to a fixed point in bfloat16."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from armagnn import GraphOperator
from armagnn.errors import (
    GraphError,
    ParameterError,
)
from armagnn.nn import ARMAConv, NonExpansive, contraction
from armagnn.nn.contraction import bounded, operator_norm
from armagnn.solvers import FixedPoint
from nn.fixed_point_oracle import ACTS, make, problem
from oracles import Graph, assert_near, numbers, random_graph
from strategies import graphs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_the_norm_of_w_is_bounded_at_initialisation_and_after_every_step(dtype: torch.dtype, width: int) -> None:
    x, op = (part.to(dtype) for part in problem())
    conv = ARMAConv(3, width, 3, act="tanh", fixed_point=FixedPoint(tol=1e-3, contraction=0.9)).to(dtype)
    optimizer = torch.optim.SGD(conv.parameters(), lr=100.0)
    raw = []
    for _ in range(4):
        norms = torch.linalg.matrix_norm(conv.bounded_weight.detach().double(), 2)
        assert norms.max() <= 0.9
        raw.append(torch.linalg.matrix_norm(conv.weight.detach(), 2).max())
        optimizer.zero_grad()
        (-conv(x, op).square().sum()).backward()
        optimizer.step()
    assert max(raw) > 2  # the bound had something to do


def test_a_small_w_is_only_scaled_and_the_bound_is_differentiable() -> None:
    weight = 0.1 * numbers(2, 3, 3)
    assert_near(bounded(weight, 0.9), 0.9 * weight)
    large = (5 * numbers(2, 3, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: bounded(w, 0.9), (large,))
    zero = torch.zeros(1, 2, 2, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(bounded(zero, 0.9).sum(), zero)
    assert_near(gradient, torch.full((1, 2, 2), 0.9, dtype=torch.float64))
    same = torch.eye(3, dtype=torch.float64).mul(2).unsqueeze(0).requires_grad_()  # all singular values are one
    assert torch.autograd.grad(bounded(same, 0.9)[0, 0, 1], same)[0].isfinite().all()


@pytest.mark.parametrize(
    "act",
    [*ACTS, nn.ReLU(), nn.LeakyReLU(1.0), nn.ELU(0.5), nn.CELU(1.0), nn.Tanh(), nn.Sigmoid(), nn.Softplus(),
     nn.Softsign(), torch.relu, F.elu, torch.tanh, NonExpansive(torch.sin)],
    ids=lambda act: type(act).__name__ if isinstance(act, nn.Module) else getattr(act, "__name__", str(act)),
)  # fmt: skip
def test_activations_that_are_fine(act: Any) -> None:
    x, op = problem()
    assert make(act=act)(x, op).isfinite().all()
    function = act if callable(act) else ACTS[act]
    a, b = 3 * numbers(2000, seed=1), 3 * numbers(2000, seed=2)
    assert ((function(a) - function(b)).abs() <= (a - b).abs() * (1 + 1e-12)).all()


@pytest.mark.parametrize(
    ("act", "match"),
    [(name, name) for name in ("gelu", "silu", "mish", "selu", "hardswish")]
    + [(nn.GELU(), "gelu"), (nn.SELU(), "selu"), (F.silu, "silu"), (F.mish, "mish"), (nn.Hardswish(), "hardswish")]
    + [(nn.ELU(1.5), "alpha=1.5"), (nn.CELU(2.0), "alpha=2"), (nn.LeakyReLU(-1.1), "negative_slope=-1.1")]
    + [(torch.sin, "NonExpansive"), (nn.PReLU(), "NonExpansive"), (NonExpansive(nn.GELU()), "gelu")],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else getattr(value, "__name__", str(value)),
)
def test_activations_that_are_refused_by_name(act: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        make(act=act)
    ARMAConv(3, 4, act=act)  # the plain layer takes them all


def test_a_declared_module_is_trained_and_only_callables_can_be_declared() -> None:
    conv = make(act=NonExpansive(nn.PReLU(init=0.2)))
    x, op = problem()
    conv(x, op).sum().backward()
    assert conv.act.function.weight.grad.abs() > 0
    for thing in ("relu", None, nn.ReLU):
        with pytest.raises(ParameterError, match="callable"):
            NonExpansive(thing)  # type: ignore[arg-type]


def test_operators_above_one_are_refused() -> None:
    x = numbers(5, 3)
    star = torch.tensor([[0, 0, 0, 0, 1], [1, 2, 3, 4, 0]])
    op = GraphOperator.from_edge_index(star, 5, dtype=torch.float64)
    conv = make()
    for graph in (op, star):
        with pytest.raises(GraphError, match=r"norm of at most 1 .* has 2: .*symmetrize"):
            conv(x, graph)
    both = torch.cat([star, star.flip(0)], dim=1)
    wide = GraphOperator.from_edge_index(both, 5, lambda_max=2.5, dtype=torch.float64)
    with pytest.raises(GraphError, match=r"has 1\.25: .*lambda_max"):
        conv(x, wide)
    joined = GraphOperator.block_diagonal([GraphOperator.from_edge_index(both, 5, dtype=torch.float64), wide])
    with pytest.raises(GraphError, match=r"has 1\.25"):
        conv(torch.cat([x, x]), joined)
    conv(x, GraphOperator.from_edge_index(star, 5, symmetrize="max", dtype=torch.float64))
    ring = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])  # directed, and a permutation: a norm of 1
    conv(x, GraphOperator.from_edge_index(ring, 5, dtype=torch.float64))
    ARMAConv(3, 4).double()(x, op)  # the plain layer takes it


@pytest.mark.parametrize("dense", [0, 512])
def test_the_norm_of_an_operator(dense: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "DENSE", dense)

    @settings(max_examples=25)
    @given(graphs(max_nodes=12, max_edges=30), st.booleans())
    def check(graph: Graph, both: bool) -> None:
        graph = graph.both_ways() if both else graph
        op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
        norm = torch.linalg.matrix_norm(op.to_dense(), 2)
        # an upper bound where that is enough to decide, exact where it is not
        assert operator_norm(op) >= norm * (1 - 1e-7)
        assert operator_norm(op) <= max(1.0, float(norm)) * (1 + 1e-7)

    check()


def test_the_norm_is_worked_out_once_per_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = contraction.extremal_eigenvalues
    monkeypatch.setattr(contraction, "extremal_eigenvalues", lambda op: calls.append(op) or original(op))
    loops = torch.tensor([[0, 1, 0], [1, 0, 0]])
    x, op = numbers(2, 3), GraphOperator.from_edge_index(loops, dtype=torch.float64)
    conv = make()
    for _ in range(3):
        conv(x, op)
    assert len(calls) == 1


def test_self_loops_and_conversions_are_no_reason_to_refuse_a_graph() -> None:
    """Their norm is 1 up to the rounding that the values have seen."""
    for seed in range(12):
        graph = random_graph(9, 14, seed=seed).both_ways()
        weight = graph.edge_weight().float()
        op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, weight).to(torch.float64)
        make()(numbers(graph.num_nodes, 3), op)
    conv = ARMAConv(3, 4, fixed_point=FixedPoint())
    with torch.autocast("cpu", torch.bfloat16):
        assert conv(torch.randn(op.num_nodes, 3), op.to(torch.float32)).isfinite().all()


@pytest.mark.parametrize("width", [16, 256])
def test_the_bound_is_tight_in_bfloat16_too(width: int) -> None:
    weight = bounded(torch.randn(2, width, width, generator=torch.Generator().manual_seed(0)).bfloat16(), 0.95)
    norms = torch.linalg.matrix_norm(weight.double(), 2)
    assert (norms <= 0.95).all()
    assert (norms > 0.95 * 0.9).all()


def test_what_is_declared_but_known_to_expand_is_refused() -> None:
    for act in (nn.CELU(-0.5), nn.CELU(2.0), NonExpansive(nn.ELU(2.0)), NonExpansive(NonExpansive(nn.GELU()))):
        with pytest.raises(ParameterError, match="non-expansive"):
            ARMAConv(3, 4, act=act, fixed_point=FixedPoint())
    ARMAConv(3, 4, act=NonExpansive(NonExpansive(nn.CELU(0.5))), fixed_point=FixedPoint())


def test_weights_that_are_not_finite_are_named() -> None:
    conv, (x, op) = make(), problem()
    with torch.no_grad():
        conv.weight[0, 0, 0, 0] = float("nan")
    with pytest.raises(ParameterError, match="weights W hold values that are not finite"):
        conv(x, op)


# ------------------------------------------------------------------------------------------------------------ bfloat16


@pytest.mark.parametrize("solver", ["picard", "anderson"])
def test_a_layer_in_bfloat16_finds_its_fixed_point(solver: Any) -> None:
    ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    op = GraphOperator.from_edge_index(torch.cat([ring, ring.flip(0)], 1), 6)  # rows of 0.5 and 0.5
    conv = ARMAConv(1, 1, act=None, bias=False, fixed_point=FixedPoint(tol=1e-6, contraction=0.99, solver=solver))
    with torch.no_grad():
        conv.weight.fill_(1.0)
        conv.skip_weight.fill_(1.0)
    conv, x = conv.bfloat16(), torch.ones(6, 1, dtype=torch.bfloat16, requires_grad=True)
    w = 0.99  # W is bounded in float32: rounded down to 252/256, it would give 64 in place of 100
    conv.fixed_point = FixedPoint(tol=1e-6, contraction=0.99, solver=solver, max_iter=5000)
    y = conv(x, op.to(torch.bfloat16))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), torch.full((6, 1), 1 / (1 - w)).double(), rtol=2**-8, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient.double(), y.double().detach(), rtol=2**-7, atol=0)
    assert conv.statistics is not None
    assert conv.statistics.tolerances[0] < 2e-4


def test_a_random_layer_in_bfloat16_is_the_one_in_float32_with_its_weights() -> None:
    graph = random_graph(9, 14, seed=3).both_ways()
    op, x = GraphOperator.from_edge_index(graph.edge_index, 9, graph.edge_weight()), numbers(9, 3)
    conv = ARMAConv(3, 4, num_stacks=2, fixed_point=FixedPoint(contraction=0.9)).bfloat16()
    narrow, initial = op.to(torch.bfloat16), torch.zeros(2, x.shape[0], 4, dtype=torch.bfloat16)
    ours = conv.stacks(x.bfloat16(), narrow, initial=initial)
    twin = copy.deepcopy(conv).float()
    theirs = twin.stacks(x.bfloat16().float(), narrow.to(torch.float32))
    torch.testing.assert_close(ours.float(), theirs, rtol=2**-7, atol=1e-4)
    with pytest.raises(ParameterError, match=r"initial is torch.float32"):
        conv.stacks(x.bfloat16(), narrow, initial=initial.float())
