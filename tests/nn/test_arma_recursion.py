from __future__ import annotations

import itertools
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.errors import ArmagnnError, DTypeError, GraphError, ParameterError, ShapeError
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint
from oracles import Graph, assert_near, numbers, random_graph
from strategies import graphs

NODES, FIN, FOUT = 7, 3, 4


def make(stacks: int = 2, steps: int = 3, **options: Any) -> ARMAConv:
    conv = ARMAConv(FIN, FOUT, stacks, steps, **options).double()
    if conv.bias is not None:
        torch.nn.init.normal_(conv.bias)
    return conv


def operators(count: int, nodes: int = NODES) -> list[GraphOperator]:
    """Other edges at every instant, directed or not."""
    drawn = [random_graph(nodes, 2 * nodes, seed=t) for t in range(count)]
    drawn = [graph.both_ways() if t % 2 else graph for t, graph in enumerate(drawn)]
    return [GraphOperator.from_edge_index(g.edge_index, nodes, g.edge_weight()) for g in drawn]


def truth(conv: ARMAConv, xs: Tensor, dense: list[Tensor], act: Any = torch.relu) -> Tensor:
    """The recursion over time in dense matrices, one stack and one instant at a time: (T, N, F_out)."""
    outputs = []
    for k in range(conv.num_stacks):
        states: list[Tensor] = []
        for t, (x, op) in enumerate(zip(xs, dense, strict=True)):
            own = 0 if conv.shared_weights else t
            v = conv.skip_weight[own, :, k]
            z = x @ v
            if t > 0:
                z = z + op @ states[-1] @ conv.weight[0 if conv.shared_weights else t - 1, k]
            elif conv.init != "zero":
                z = z + op @ x @ (v if conv.init == "tied" else conv.initial_weight[:, k])
            states.append(act(z if conv.bias is None else z + conv.bias[own, k]))
        outputs.append(torch.stack(states))
    return torch.stack(outputs).mean(0)


@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("stacks", "steps"), [(1, 1), (2, 1), (1, 2), (2, 4)])
def test_a_constant_sequence_is_the_static_layer(init: str, shared: bool, stacks: int, steps: int) -> None:
    (op,) = operators(1)
    x = numbers(NODES, FIN)
    for act, bias in itertools.product(("relu", "elu", "gelu", None), (True, False)):
        conv = make(stacks, steps, init=init, shared_weights=shared, act=act, bias=bias)
        expected = conv(x, op)
        constant = [x] * steps
        for sequence, given_graphs in ((constant, op), (tuple(constant), [op] * steps), (torch.stack(constant), op)):
            assert_near(conv.sequence(sequence, given_graphs)[-1], expected, 1e-13)
        assert_near(conv(constant, op), expected, 1e-13)
        assert_near(conv(constant, [op] * steps), expected, 1e-13)
        gradients = torch.autograd.grad(expected.square().sum(), list(conv.parameters()))
        ours = torch.autograd.grad(conv(constant, op).square().sum(), list(conv.parameters()))
        for a, b in zip(ours, gradients, strict=True):
            assert_near(a, b)


@pytest.mark.parametrize("dropout", [0.3, 0.8])
def test_a_constant_sequence_has_the_static_layers_masks(dropout: float) -> None:
    (op,) = operators(1)
    conv, x = make(2, 4, dropout=dropout), numbers(NODES, FIN)
    torch.manual_seed(3)
    expected = conv(x, op)
    torch.manual_seed(3)
    assert_near(conv([x] * 4, op), expected, 1e-13)
    assert not torch.allclose(conv([x] * 4, op), expected)


@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
@pytest.mark.parametrize("shared", [True, False])
def test_changing_signals_and_edges_against_dense_matrices(init: str, shared: bool) -> None:
    steps = 4
    ops, conv = operators(steps), make(2, steps, init=init, shared_weights=shared)
    one, two = (numbers(steps, NODES, FIN).requires_grad_() for _ in range(2))
    ours, expected = conv.sequence(one, ops), truth(conv, two, [op.to_dense() for op in ops])
    assert ours.shape == (steps, NODES, FOUT)
    assert_near(ours, expected)
    assert (expected[-1] - expected[-2]).abs().max() > 0.1
    direction = numbers(*ours.shape, seed=5)
    for a, b in zip(
        torch.autograd.grad((ours * direction).sum(), [one, *conv.parameters()]),
        torch.autograd.grad((expected * direction).sum(), [two, *conv.parameters()]),
        strict=True,
    ):
        assert b.abs().max() > 0
        assert_near(a, b)


def test_the_last_output_knows_the_first_instant() -> None:
    conv, xs = make(2, 2, act="tanh"), numbers(5, NODES, FIN).requires_grad_()
    (gradient,) = torch.autograd.grad(conv.sequence(xs, operators(5))[-1].sum(), xs)
    assert (gradient.flatten(1).abs().max(1).values > 1e-6).all()


def test_gradcheck_in_signals_weights_and_edges() -> None:
    conv, index = make(1, 2, act="tanh"), torch.tensor([[0, 1, 2], [1, 2, 0]])
    weights = [(numbers(3, seed=t).square() + 0.2).requires_grad_() for t in range(2)]
    xs = numbers(2, 3, FIN).requires_grad_()

    def run(xs: Tensor, one: Tensor, two: Tensor, *_: Tensor) -> Tensor:
        return conv.sequence(xs, [index, index], [one, two])

    assert torch.autograd.gradcheck(run, (xs, *weights, *conv.parameters()), fast_mode=True)


@settings(max_examples=15)
@given(graphs(), st.integers(1, 4), st.integers(0, 99), st.sampled_from(["linear", "zero", "tied"]))
def test_a_stream_equals_a_sequence(graph: Graph, steps: int, seed: int, init: Any) -> None:
    torch.manual_seed(seed)
    conv = make(2, 2, init=init)
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
    xs = numbers(steps, graph.num_nodes, FIN, seed=seed)
    state, outputs = None, []
    for x in xs:
        state = conv.step(state, x, op)
        assert state.shape == (2, graph.num_nodes, FOUT)
        outputs.append(state.mean(0))
    assert_near(torch.stack(outputs), conv.sequence(xs, op))


def test_leading_axes_and_sparse_features() -> None:
    ops, conv = operators(3), make(2, 3)
    xs = numbers(3, 2, 5, NODES, FIN)
    looped = torch.stack([torch.stack([conv.sequence(xs[:, a, b], ops) for b in range(5)]) for a in range(2)])
    assert_near(conv.sequence(xs, ops), looped.movedim(2, 0))
    state = None
    for x, op in zip(xs, ops, strict=True):
        state = conv.step(state, x, op)
    assert_near(state.mean(0), looped[:, :, -1])
    sparse = [CSR.from_dense(x) for x in xs[:, 0, 0]]
    assert_near(conv.sequence(sparse, ops), looped[0, 0])


def test_edges_are_as_good_as_operators() -> None:
    graphs = [random_graph(NODES, 12, seed=t) for t in range(3)]
    conv, xs = make(), numbers(3, NODES, FIN)
    ops = [GraphOperator.from_edge_index(g.edge_index, NODES, g.edge_weight()) for g in graphs]
    edges, weights = [g.edge_index for g in graphs], [g.edge_weight() for g in graphs]
    assert_near(conv.sequence(xs, edges, weights), conv.sequence(xs, ops))
    assert_near(conv(list(xs), edges, weights), conv.sequence(xs, ops)[-1])
    assert_near(conv.sequence(xs, edges[0], weights[0]), conv.sequence(xs, ops[0]))
    assert_near(conv.step(None, xs[0], edges[0], weights[0]).mean(0), conv.sequence(xs, ops)[0])


def test_a_convergent_layer_follows_a_constant_signal_to_its_fixed_point() -> None:
    ops = operators(2)
    conv = make(2, 1, fixed_point=FixedPoint(1e-12, contraction=0.7), act="tanh")
    x = numbers(NODES, FIN)
    wandering = list(numbers(20, NODES, FIN, seed=8))
    assert_near(conv([*wandering, *[x] * 100], ops[1]), conv(x, ops[1]), 1e-10)


# ------------------------------------------------------------------------------------------------------------ bad input


def test_lengths_and_node_sets() -> None:
    conv, ops, xs = make(), operators(3), numbers(3, NODES, FIN)
    for fewer in (ops[:2], [*ops, ops[0]], []):
        with pytest.raises(ShapeError, match=rf"3 steps, but there are {len(fewer)} graphs"):
            conv.sequence(xs, fewer)
        with pytest.raises(ShapeError, match=rf"3 steps, but there are {len(fewer)} graphs"):
            conv(list(xs), fewer)
    with pytest.raises(ShapeError, match="2 edge weights"):
        conv.sequence(xs, [random_graph(NODES, 5).edge_index] * 3, [torch.ones(5).double()] * 2)
    with pytest.raises(ShapeError, match="at least one"):
        conv.sequence([], ops[0])
    other = operators(1, nodes=NODES + 1)[0]
    with pytest.raises(ShapeError, match=f"{NODES + 1}"):
        conv.sequence(xs, [ops[0], other, ops[2]])
    with pytest.raises(ShapeError, match="x of step 1"):
        conv.sequence([xs[0], numbers(NODES + 1, FIN)], [ops[0], other])
    with pytest.raises(ShapeError, match="x of step 1"):
        conv.sequence([xs[0], xs[:2]], ops[:2])
    with pytest.raises(ShapeError, match="features"):
        conv.sequence([xs[0], numbers(NODES, FIN + 1)], ops[0])


def test_weights_of_their_own_need_so_many_instants_and_cannot_stream() -> None:
    (op,), conv = operators(1), make(2, 3, shared_weights=False)
    for length in (1, 2, 4):
        with pytest.raises(ShapeError, match=f"{length} steps.*num_layers=3"):
            conv.sequence(numbers(length, NODES, FIN), op)
    with pytest.raises(ParameterError, match="shared_weights=True"):
        conv.step(None, numbers(NODES, FIN), op)
    single = make(1, 1)
    with pytest.raises(ParameterError, match="num_layers=2"):
        single.sequence(numbers(2, NODES, FIN), op)
    state = single.step(None, numbers(NODES, FIN), op)
    with pytest.raises(ParameterError, match="num_layers=2"):
        single.step(state, numbers(NODES, FIN), op)


def test_other_bad_input() -> None:
    conv, (op,), x = make(), operators(1), numbers(NODES, FIN)
    with pytest.raises(ShapeError, match=r"\(T, \.\.\., N, 3\)"):
        conv.sequence(x, op)
    for thing in (None, 3, "x", iter([x])):
        with pytest.raises(DTypeError, match="x must"):
            conv.sequence(thing, op)
    with pytest.raises(DTypeError, match="x must"):
        conv([x, None], op)
    with pytest.raises(ArmagnnError, match="graph"):
        conv.sequence([x, x], [op, None])
    for state in (numbers(1, NODES, FOUT), numbers(2, NODES, FIN), numbers(NODES, FOUT), "state", 0):
        with pytest.raises(ShapeError, match=r"state must .*\(2, 7, 4\)"):
            conv.step(state, x, op)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="float32"):
        conv.step(numbers(2, NODES, FOUT).float(), x, op)
    cached = make(cached=True)
    index = random_graph(NODES, 5).edge_index
    with pytest.raises(ParameterError, match="cached"):
        cached.sequence([x, x], [index, index.flip(0)])
    cached.sequence([x, x], index)
    cached.sequence([x, x], [op, op])


# -------------------------------------------------------------------------------------------------------------- example


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    script = Path(__file__).parents[2] / "examples" / "changing_network.py"
    monkeypatch.setattr(sys, "argv", [str(script), "--epochs", "1", "--seeds", "1", "--instants", "8"])
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:20].strip() for line in lines[1:]] == [
        "persistence", "straight line", "ARMA without memory", "ARMA over time",
    ]  # fmt: skip


def test_a_convergent_layer_refuses_operators_that_expand_also_in_time() -> None:
    star = torch.tensor([[0, 0, 0, 1], [1, 2, 3, 0]])  # directed: its norm is 1.7
    conv, x = ARMAConv(3, 4, 2, fixed_point=FixedPoint()), torch.randn(4, 3)
    for call in (
        lambda: conv.sequence([x, x], star), lambda: conv.step(None, x, star), lambda: conv([x, x], [star, star])
    ):  # fmt: skip
        with pytest.raises(GraphError, match="norm of at most 1"):
            call()


def test_a_stream_under_autocast() -> None:
    conv, x = ARMAConv(8, 4, 2, 3), torch.randn(5, 8)
    op = conv.operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 5)
    with torch.autocast("cpu", torch.bfloat16):
        state = conv.step(conv.step(None, x, op), x, op)
        torch.testing.assert_close(
            state.mean(0), list(conv.sequence([x, x], op))[-1], rtol=2e-2, atol=2e-2, check_dtype=False
        )
