"""A batch of signals, which the processor takes through an ARMA layer one by one: against the paper's formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from armagnn import GraphOperator
from armagnn.nn import ARMAConv
from armagnn.randomness import source
from nn.arma_oracle import arma, random_graph
from oracles import Graph
from strategies import graphs

pytest.importorskip("numba")

from armagnn.kernels import cpu
from armagnn.kernels.backends import Layer
from armagnn.kernels.cpu import members
from armagnn.kernels.cpu.stack_by_stack import ROWS

ACTS = {"relu": torch.relu, None: lambda z: z, "leaky_relu": F.leaky_relu, "elu": F.elu}
F64 = torch.float64


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many signals the batches had that were taken one by one."""
    batches: list[int] = []
    real = members.forward

    def spy(layer: Layer, keep: bool) -> tuple[Tensor, list[Tensor]]:
        assert layer.x is not None
        if not layer.trials:
            batches.append(layer.x.shape[:-2].numel())
        return real(layer, keep)

    monkeypatch.setattr(members, "forward", spy)
    return batches


def problem(nodes: int, fan_in: int, *batch: int, directed: bool = False) -> tuple[Tensor, GraphOperator]:
    index = random_graph(nodes - 1, 3 * nodes, seed=nodes, directed=directed)  # the last node is alone
    op = GraphOperator.from_edge_index(index, nodes, dtype=F64)
    x = torch.randn(*batch, nodes, fan_in, dtype=F64, generator=torch.Generator().manual_seed(fan_in))
    return x.requires_grad_(), op


def make(*sizes: int, **options: Any) -> ARMAConv:
    torch.manual_seed(sum(sizes))
    conv = ARMAConv(*sizes, **options).double()
    if conv.bias is not None:
        torch.nn.init.normal_(conv.bias)
    return conv


def results(conv: ARMAConv, out: Tensor, x: Tensor) -> list[Tensor]:
    """Return the output and the gradients of a scalar that differs in all of its entries."""
    weight = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(2))
    inputs = [x, *conv.parameters()] if x.requires_grad else list(conv.parameters())
    return [out, *torch.autograd.grad((out * weight).sum(), inputs)]


def close(ours: list[Tensor], theirs: list[Tensor], tolerance: float = 1e-11) -> None:
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("init", ["linear", "tied", "zero"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("steps", [2, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_values_and_gradients_are_the_papers(
    taken: list[int], init: str, shared: bool, steps: int, directed: bool
) -> None:
    options = {"init": init, "shared_weights": shared}
    for (act, function), bias, fan_in, width in zip(
        ACTS.items(), (True, False, True, True), (1, 5, 20, 3), (3, 16, 34, 7), strict=True
    ):
        x, op = problem(11, fan_in, 3, 2, directed=directed)
        conv = make(fan_in, width, 2, steps, act=act, bias=bias, **options)
        truth = arma(conv, x, op.to_dense(), function).mean(0)
        close(results(conv, conv(x, op), x), results(conv, truth, x))
    assert taken == [6, 6, 6, 6]


def test_more_rows_than_a_block_and_more_signals_than_groups(taken: list[int]) -> None:
    x, op = problem(ROWS + 60, 2, 37)
    conv = make(2, 33, 3, 3)
    truth = arma(conv, x, op.to_dense(), torch.relu).mean(0)
    close(results(conv, conv(x, op), x), results(conv, truth, x), 1e-10)
    assert taken == [37]


@pytest.mark.parametrize("rate", [0.4, torch.tensor(0.4, dtype=F64), torch.tensor(0.0, dtype=F64)])
@pytest.mark.parametrize("init", ["linear", "tied", "zero"])
@pytest.mark.parametrize("shared", [True, False])
def test_dropout_drops_what_it_drops_in_a_batch(
    taken: list[int], rate: float | Tensor, init: str, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stacks of 7 and 5 signals: the masks of a row begin anywhere in a block of four."""
    x, op = problem(9, 4, 5)
    conv = make(4, 7, 2, 3, init=init, shared_weights=shared)
    conv.dropout = rate
    found = []
    for fewest in (1, 10**9):
        monkeypatch.setattr(cpu, "SIGNALS", fewest)
        with source(torch.tensor([2**61 + 12345])):
            found.append(results(conv, conv(x, op), x))
    close(*found)
    assert taken == [5]
    kept = conv.eval()(x, op)
    assert torch.allclose(found[0][0], kept) == (float(rate) == 0)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(4, 6), st.sampled_from(["linear", "tied", "zero"]), st.integers(0, 2**31))
def test_any_graph(graph: Graph, batch: int, init: str, seed: int) -> None:
    """Self-loops, parallel edges, lone nodes, no edge at all: signal by signal, and in another order of the nodes."""
    index, weight, nodes = graph.edge_index, graph.edge_weight(), graph.num_nodes
    op = GraphOperator.from_edge_index(index, nodes, weight, dtype=F64)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, nodes, 2, dtype=F64, generator=generator)
    conv = make(2, 5, 2, 3, init=init)
    out = conv(x, op)
    close([out], [torch.stack([conv(signal, op) for signal in x])])
    perm = torch.randperm(nodes, generator=generator)
    moved = GraphOperator.from_edge_index(perm.argsort()[index], nodes, weight, dtype=F64)
    close([conv(x[:, perm], moved)], [out[:, perm]])


def test_linear_layers_are_linear() -> None:
    x, op = problem(10, 3, 4)
    conv = make(3, 6, 2, 3, act=None, bias=False)
    y = torch.randn_like(x)
    close([conv(2 * x - y, op)], [2 * conv(x, op) - conv(y, op)])


def test_the_number_of_threads_changes_no_bit(taken: list[int]) -> None:
    x, op = problem(40, 3, 33)
    conv = make(3, 8, 2, 3, dropout=0.2)
    found, before = [], torch.get_num_threads()
    try:
        for number in (1, 2, 5):
            torch.set_num_threads(number)
            with source(torch.tensor([5])):
                found.append(results(conv, conv(x, op), x))
    finally:
        torch.set_num_threads(before)
    for one, *others in zip(*found, strict=True):
        assert all(torch.equal(one, other) for other in others)
    assert taken == [33] * 3


def test_second_derivatives(taken: list[int]) -> None:
    x, op = problem(5, 2, 4)
    conv = make(2, 3, 2, 2, act="leaky_relu")
    assert torch.autograd.gradgradcheck(lambda x, *_: conv(x, op), (x, *conv.parameters()))
    assert taken


def test_nothing_is_kept_but_the_inputs() -> None:
    x, op = problem(50, 3, 8)
    conv = make(3, 16, 2, 6)
    kept: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = conv(x, op)
    assert sum(kept) == sum(tensor.numel() for tensor in (x, *conv.parameters()))
    first = torch.autograd.grad(out.sum(), list(conv.parameters()), retain_graph=True)
    close(list(torch.autograd.grad(out.sum(), list(conv.parameters()))), list(first), 0.0)


def test_signals_without_a_gradient_and_in_single_precision(taken: list[int]) -> None:
    x, op = problem(30, 3, 2, 4)
    conv = make(3, 20, 2, 3)
    truth = results(conv, conv(x.detach(), op), x.detach())
    close(truth, [part for part in results(conv, conv(x, op), x) if part.shape != x.shape])
    single = x.detach().float().transpose(0, 1)  # and not contiguous
    out = conv.float()(single, op.to(torch.float32))
    torch.testing.assert_close(out.transpose(0, 1).double(), truth[0], rtol=1e-4, atol=1e-5)
    assert taken == [8, 8, 8]


def test_what_goes_another_way(taken: list[int]) -> None:
    """Few signals, one step, a wide X, an activation with exp, bfloat16, vmap, learned edge weights, large graphs."""
    x, op = problem(6, 3, 8)
    conv = make(3, 4, 2, 2)
    conv(x[:3], op)
    conv(x[0], op)
    make(3, 4, 2, 1)(x, op)
    make(3, 1, 2, 2)(x, op)
    make(3, 4, 2, 2, act="tanh")(x, op)
    make(3, 4, 2, 2).bfloat16()(x.bfloat16(), op.to(torch.bfloat16))
    torch.func.vmap(lambda signal: conv(signal, op))(x)
    index = random_graph(6, 8)
    conv(x, index, torch.ones(index.shape[1], dtype=F64, requires_grad=True))
    size = cpu.STATES // 8 // 4 + 1
    conv(torch.zeros(4, size, 3, dtype=F64), GraphOperator.from_edge_index(index, size, dtype=F64))
    assert taken == []
    conv(x, op)
    assert taken == [8]


@pytest.mark.parametrize("name", ["initial_weight", "weight", "skip_weight", "bias"])
@pytest.mark.parametrize("change", ["stacks", "dtype"])
def test_weights_that_do_not_fit_do_not_reach_the_kernels(name: str, change: str, taken: list[int]) -> None:
    x, op = problem(6, 3, 8)
    conv = make(3, 4, 2, 2)
    parameters = {key: value.detach() for key, value in conv.named_parameters()}
    axis = {"initial_weight": 1, "weight": 1, "skip_weight": 2, "bias": 1}[name]
    given = parameters[name]
    wrong = given.float() if change == "dtype" else given.narrow(axis, 0, 1)
    with pytest.raises((RuntimeError, ValueError, TypeError)):
        torch.func.functional_call(conv, parameters | {name: wrong}, (x, op))
    assert taken == []
