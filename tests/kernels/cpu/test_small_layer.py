"""A layer on a small graph, done in one call: against the formula in dense numpy, and the gradients of dense torch."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError
from armagnn.kernels import cpu
from armagnn.kernels.cpu import MOST, small_layer
from armagnn.nn import ARMAConv

ACTS = {"relu": 0.0, None: 1.0, "leaky_relu": 0.01}


def layer(fan_in: int, width: int, stacks: int, steps: int, **options: object) -> ARMAConv:
    conv = ARMAConv(fan_in, width, stacks, steps, **options).double()  # type: ignore[arg-type]
    with torch.no_grad():
        for weight in conv.parameters():
            weight.normal_()
    return conv


def graph(nodes: int = 9, edges: int = 30, seed: int = 0, directed: bool = True) -> GraphOperator:
    index = torch.randint(0, nodes - 1, (2, edges), generator=torch.Generator().manual_seed(seed))  # one is isolated
    index = index if directed else torch.cat([index, index.flip(0)], 1)
    return GraphOperator.from_edge_index(index, nodes, dtype=torch.float64)


def dense(conv: ARMAConv, op: GraphOperator, x: Tensor) -> Tensor:
    """Eqs. 14 and 16, stack by stack."""
    matrix, slope, out = op.to_dense(), ACTS[conv.act], torch.zeros((), dtype=x.dtype)  # type: ignore[index]
    for k in range(conv.num_stacks):
        state = x.new_zeros(len(x), conv.out_channels)
        v, w0 = conv.skip_weight[:, :, k], conv.skip_weight[0, :, k]
        if conv.init == "linear":
            w0 = conv.initial_weight[:, k]
        for t in range(conv.num_layers):
            skip = x @ v[min(t, len(v) - 1)]
            if conv.bias is not None:
                skip = skip + conv.bias[min(t, len(v) - 1), k]
            if t > 0:
                z = matrix @ (state @ conv.weight[min(t, len(conv.weight)) - 1, k]) + skip
            else:
                z = skip if conv.init == "zero" else matrix @ (x @ w0) + skip
            state = torch.where(z > 0, z, z * slope)
        out = out + state / conv.num_stacks
    return out


def is_small(out: Tensor) -> bool:
    plan, *_ = out.grad_fn.fixed  # type: ignore[union-attr]
    return plan is small_layer


def both(conv: ARMAConv, op: GraphOperator, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return value and gradients, those of the layer and of the dense truth."""
    found = []
    for function in (conv, lambda x, op: dense(conv, op, x)):
        own = x.clone().requires_grad_()
        out = function(own, op)
        if function is conv:
            assert is_small(out)
        weights = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)
        found.append([out, *torch.autograd.grad((out * weights).sum(), [own, *conv.parameters()])])
    return found[0], found[1]


@pytest.mark.parametrize("init", ["zero", "linear", "tied"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("directed", [True, False])
def test_values_and_gradients(init: str, shared: bool, act: str | None, directed: bool) -> None:
    op = graph(directed=directed)
    for steps, stacks, (fan_in, width), bias in itertools.product(
        (1, 2, 4), (1, 3), ((2, 5), (17, 3), (1, 1)), (True, False)
    ):
        conv = layer(fan_in, width, stacks, steps, shared_weights=shared, act=act, init=init, bias=bias)
        for ours, truth in zip(*both(conv, op, torch.randn(9, fan_in, dtype=torch.float64)), strict=True):
            torch.testing.assert_close(ours, truth, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_every_type(index: torch.dtype, kind: torch.dtype) -> None:
    op, conv = graph(), layer(4, 3, 2, 3).to(kind)
    op = GraphOperator(op.rowptr.to(index), op.col.to(index), op.value.to(kind), op.shape, kind="arma")
    x = torch.randn(9, 4, dtype=kind)
    conv64 = layer(4, 3, 2, 3)
    conv64.load_state_dict(conv.state_dict())
    truth = dense(conv64, op.to(torch.float64), x.double())
    torch.testing.assert_close(conv(x, op).double(), truth, rtol=1e-4 if kind == torch.float32 else 1e-12, atol=1e-4)


def test_a_graph_without_edges_and_one_of_one_node() -> None:
    for nodes in (1, 5):
        op = GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), nodes, dtype=torch.float64)
        for ours, truth in zip(*both(layer(2, 3, 2, 3), op, torch.randn(nodes, 2).double()), strict=True):
            torch.testing.assert_close(ours, truth)


def test_x_and_gradients_that_are_parts_of_others() -> None:
    op, conv, wide = graph(), layer(4, 3, 2, 2), torch.randn(4, 18, dtype=torch.float64)
    x = wide[:, ::2].t()
    assert torch.equal(conv(x, op), conv(x.contiguous(), op))
    out = conv(x, op)
    g = torch.randn(3, 9, dtype=torch.float64).t()
    ours = torch.autograd.grad(out, list(conv.parameters()), g, retain_graph=True)
    for one, other in zip(ours, torch.autograd.grad(out, list(conv.parameters()), g.contiguous()), strict=True):
        assert torch.equal(one, other)


def test_values_of_the_operator_that_are_parts_of_others() -> None:
    op, conv, x = graph(), layer(4, 3, 2, 2), torch.randn(9, 4, dtype=torch.float64)
    strided = op.with_value(torch.stack([op.value, torch.full_like(op.value, 100.0)], 1)[:, 0])
    repeated = op.with_value(torch.full((1,), 0.25, dtype=torch.float64).expand(op.nnz))
    for own in (strided, repeated):
        assert not own.value.is_contiguous()
        found, truth = both(conv, own, x), both(conv, own.with_value(own.value.contiguous()), x)
        assert is_small(conv(x.clone().requires_grad_(), own))
        for one, other in zip(found[0], truth[0], strict=True):
            assert torch.equal(one, other)


def test_second_derivatives_and_batches_of_gradients() -> None:
    op, conv = graph(), layer(2, 2, 2, 2, act=None)
    x = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: conv(x, op).tanh(), x)
    out = conv(x, op)
    basis = torch.eye(out.numel(), dtype=torch.float64).view(-1, *out.shape)
    (rows,) = torch.autograd.grad(out, x, basis, is_grads_batched=True, retain_graph=True)
    for one, other in zip(basis, rows, strict=True):
        torch.testing.assert_close(torch.autograd.grad(out, x, one, retain_graph=True)[0], other)


def test_numbers_that_are_none() -> None:
    """NaN reaches those who hear it, and minus infinity a ReLU makes zero."""
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3, dtype=torch.float64)
    conv = layer(1, 1, 1, 1, bias=False)
    with torch.no_grad():
        conv.initial_weight.fill_(1.0)
        conv.skip_weight.fill_(0.0)
    x = torch.tensor([[math.nan], [1.0], [1.0]], dtype=torch.float64)
    assert torch.isnan(conv(x, op)).flatten().tolist() == [True, True, False]
    x = torch.tensor([[-math.inf], [-1.0], [1.0]], dtype=torch.float64)
    with torch.no_grad():
        conv.skip_weight.fill_(1e-300)
    assert conv(x, op).flatten().tolist() == [0.0, 0.0, 1e-300]


def test_what_goes_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def small(conv: ARMAConv, x: Tensor, op: GraphOperator) -> bool:
        return is_small(conv(x.requires_grad_(), op))

    op, x = graph(), torch.randn(9, 4, dtype=torch.float64)
    assert small(layer(4, 3, 2, 2), x, op)
    assert not small(layer(4, 3, 2, 2, dropout=0.5), x, op)
    assert not small(layer(4, 3, 2, 2, act="tanh"), x, op)
    assert not small(layer(4, 3, 2, 2), torch.randn(2, 9, 4, dtype=torch.float64), op)
    assert not small(layer(MOST + 1, 3, 1, 1), torch.randn(9, MOST + 1, dtype=torch.float64), op)
    assert not small(layer(4, 3, 2, 2), torch.randn(MOST + 1, 4).double(), graph(MOST + 1))
    bad = layer(4, 3, 2, 2)
    bad.weight.data = torch.randn(1, 2, 3, 2, dtype=torch.float64)
    with pytest.raises((ArmagnnError, RuntimeError)):
        bad(x, op)
    monkeypatch.setattr(cpu, "WORK", 0)
    assert not small(layer(4, 3, 2, 2), x, op)


def test_the_same_bits_every_time() -> None:
    op, conv, x = graph(40, 200), layer(5, 4, 3, 4), torch.randn(40, 5, dtype=torch.float64)
    runs = [[each.detach().numpy().tobytes() for each in both(conv, op, x)[0]] for _ in range(3)]
    assert runs[0] == runs[1] == runs[2]
    assert np.isfinite(np.frombuffer(runs[0][0])).all()
