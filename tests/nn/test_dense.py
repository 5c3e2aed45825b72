"""Filters by dense matrices: all that is asked of the layers, asked again where they choose them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode

from armagnn import GraphOperator
from armagnn.nn import CayleyConv, ChebConv, cayley_transform, chebyshev
from armagnn.nn.dense import FEWEST_SIGNALS, MOST_NODES, MOST_TERMS, dense_can, dense_pays, dense_terms
from nn.cayley_oracle import without_loops
from nn.test_cayley import TestCayleyWithoutLoops as CayleyChecks
from nn.test_chebyshev import TestChebyshev as ChebyshevChecks
from oracles import assert_near, numbers, random_graph


@pytest.fixture
def always_dense(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The layers choose dense matrices wherever they can; what they chose them for is noted."""
    chosen: list[Any] = []

    def noted(op: GraphOperator, key: Any, terms: Any) -> Any:
        chosen.append(key)
        return dense_terms(op, key, terms)

    for module in (chebyshev, cayley_transform):
        monkeypatch.setattr(module, "dense_pays", lambda op, signals, terms: dense_can(op))
        monkeypatch.setattr(module, "dense_terms", noted)
    return chosen


@pytest.mark.usefixtures("always_dense")
class TestDenseChebyshev(ChebyshevChecks):
    pass


@pytest.mark.usefixtures("always_dense")
class TestDenseCayley(CayleyChecks):
    pass


LAYERS = [(ChebConv, {"order": 5}), (CayleyConv, {"order": 3, "jacobi": 2})]


@pytest.mark.parametrize(("layer", "options"), LAYERS)
def test_matrices_are_chosen_and_made_once(layer: Any, options: dict[str, Any], always_dense: list[Any]) -> None:
    graph = without_loops(random_graph(9, 20, seed=1)).both_ways()
    conv = layer(3, 5, **options).double()
    op = conv.operator(graph.edge_index, graph.num_nodes, dtype=torch.float64)
    x = numbers(4, 9, 3)
    one, two = conv(x, op), conv(x, op)
    assert len(always_dense) == 2
    assert torch.equal(one, two)
    calls = []
    for key in set(always_dense):
        dense_terms(op, key, lambda eye: calls.append(eye) or [eye])  # type: ignore[func-returns-value]
    assert not calls


def test_matrices_of_another_operator_are_others() -> None:
    first, second = (GraphOperator.from_edge_index(random_graph(6, 9, seed).edge_index, 6) for seed in (0, 1))
    for op in (first, second):
        assert_near(dense_terms(op, "hop", lambda eye, op=op: [op @ eye]).squeeze(0), op.to_dense())


@pytest.mark.usefixtures("always_dense")
@pytest.mark.parametrize(("layer", "options"), LAYERS)
@pytest.mark.parametrize("mode", ["inference", "autocast", "fake"])
def test_the_mode_of_the_first_call_does_not_show_in_the_next(layer: Any, options: dict[str, Any], mode: str) -> None:
    graph = without_loops(random_graph(9, 20, seed=1)).both_ways()
    conv, x = layer(3, 5, **options), numbers(4, 9, 3).float()
    first, second = (conv.operator(graph.edge_index, graph.num_nodes, dtype=torch.float32) for _ in range(2))
    modes: dict[str, Any] = {
        "inference": torch.inference_mode(), "autocast": torch.autocast("cpu", torch.bfloat16),
        "fake": FakeTensorMode(allow_non_fake_inputs=True),
    }  # fmt: skip
    with modes[mode]:
        conv(x, first)
    found, expected = conv(x, first), conv(x, second)
    assert torch.equal(found, expected)
    found.sum().backward()


@given(
    nodes=st.integers(1, 2 * MOST_NODES),
    signals=st.integers(1, 2 * FEWEST_SIGNALS),
    terms=st.integers(1, 2 * MOST_TERMS),
)
def test_dense_pays_for_many_signals_on_a_small_graph_on_a_gpu(nodes: int, signals: int, terms: int) -> None:
    class Op:
        num_nodes = nodes
        device = torch.device("cuda")
        value = torch.ones(1)

    op: Any = Op()
    pays = nodes <= MOST_NODES and signals >= FEWEST_SIGNALS and terms <= MOST_TERMS
    assert dense_pays(op, signals, terms) == pays
    op.value = torch.ones(1, requires_grad=True)
    assert not dense_pays(op, signals, terms)
    op.value, op.device = torch.ones(1), torch.device("cpu")
    assert not dense_pays(op, signals, terms)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize(("layer", "options"), LAYERS)
@pytest.mark.parametrize("sizes", [(3, 5), (7, 3)])
def test_on_a_gpu(layer: Any, options: dict[str, Any], sizes: tuple[int, int]) -> None:
    graph = without_loops(random_graph(50, 200, seed=1)).both_ways()
    conv = layer(*sizes, **options).double()
    x, direction = numbers(FEWEST_SIGNALS, 50, sizes[0]), numbers(FEWEST_SIGNALS, 50, sizes[1], seed=9)
    found = []
    for device in ("cpu", "cuda"):
        conv, y = conv.to(device), x.to(device).requires_grad_()
        op = conv.operator(graph.edge_index.to(device), graph.num_nodes, graph.edge_weight().to(device))
        assert dense_pays(op, FEWEST_SIGNALS, 5) == (device == "cuda")
        out = conv(y, op)
        found.append([out, *torch.autograd.grad((out * direction.to(device)).sum(), [y, *conv.parameters()])])
    for one, two in zip(*found, strict=True):
        assert_near(two.cpu(), one, 1e-11)
