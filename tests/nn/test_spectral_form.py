"""Filters in the frequencies: all that is asked of the layers, asked again where they choose them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from armagnn import GraphOperator
from armagnn.nn import CayleyConv, ChebConv, cayley_conv, cheb_conv, spectral_form
from armagnn.nn.spectral_form import FEWEST_SIGNALS, spectral_can, spectral_pays, spectrum
from armagnn.operators import GraphBatches
from nn.cayley_oracle import without_loops
from nn.test_cayley_conv import TestCayleyPolynomial as CayleyChecks
from nn.test_cheb_conv import TestChebyshev as ChebyshevChecks
from oracles import Graph, assert_near, numbers, random_graph


@pytest.fixture
def always_spectral(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The layers choose the frequencies wherever they can; what they chose them for is noted."""
    chosen: list[Any] = []

    def noted(op: GraphOperator, *rest: Any) -> Any:
        chosen.append(op)
        return spectral_form.spectral(op, *rest)

    for module in (cheb_conv, cayley_conv):
        monkeypatch.setattr(module, "spectral_pays", lambda op, signals, degree, channels: spectral_can(op))
        monkeypatch.setattr(module, "spectral", noted)
    return chosen


@pytest.mark.usefixtures("always_spectral")
class TestSpectralChebyshev(ChebyshevChecks):
    def problem(self, conv: Any, graph: Graph | None = None) -> tuple[Tensor, GraphOperator | None, Tensor]:
        graph = (random_graph(9, 20, seed=3) if graph is None else graph).both_ways()
        x, op, adjacency = super().problem(conv, graph)
        assert op is not None
        assert spectral_can(op)
        return x, op, adjacency

    def test_edges_are_as_good_as_an_operator(self) -> None:
        conv = self.make(2, 3)
        x, op, adjacency = self.problem(conv)
        assert_near(conv(x, adjacency.to_sparse_csr()), conv(x, op))


@pytest.mark.usefixtures("always_spectral")
class TestSpectralCayley(CayleyChecks):
    pass


LAYERS = [(ChebConv, {"order": 5}), (CayleyConv, {"order": 3, "jacobi": 2})]


def graph_of(layer: Any, options: dict[str, Any], sizes: tuple[int, int] = (3, 5)) -> tuple[Any, GraphOperator]:
    graph = without_loops(random_graph(9, 20, seed=1)).both_ways()
    conv = layer(*sizes, **options).double()
    return conv, conv.operator(graph.edge_index, graph.num_nodes, dtype=torch.float64)


@pytest.mark.parametrize(("layer", "options"), LAYERS)
@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)])
def test_the_vectors_are_found_once(
    layer: Any,
    options: dict[str, Any],
    sizes: tuple[int, int],
    always_spectral: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    conv, op = graph_of(layer, options, sizes)
    calls: list[int] = []
    original = torch.linalg.eigh
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: calls.append(1) or original(matrix))
    x = numbers(4, 9, sizes[0])
    one, two = conv(x, op), conv(x, op)
    assert len(always_spectral) == 2
    assert len(calls) == 1
    assert torch.equal(one, two)


def test_the_spectrum_is_the_operators() -> None:
    edges = [without_loops(random_graph(6, 9, seed)).both_ways().edge_index for seed in (0, 1)]
    for op in [GraphOperator.from_edge_index(index, 6, kind="laplacian") for index in edges]:
        frequencies, vectors = spectrum(op)
        assert frequencies.dtype == torch.float64
        assert vectors.dtype == op.dtype
        assert_near((vectors * frequencies) @ vectors.t().double(), op.to_dense().double(), 1e-6)


@pytest.mark.usefixtures("always_spectral")
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


@pytest.mark.parametrize(
    ("nodes", "nonzeros", "signals", "degree", "channels", "pays"),
    [
        (784, 5928, 32, 144, (1, 32), True),
        (784, 5928, 32, 24, (1, 32), False),
        (198, 1500, 32, 24, (32, 64), True),
        (198, 1500, 32, 2, (32, 64), False),
        (198, 1500, 15, 24, (32, 64), False),
        (1025, 1_000_000, 32, 144, (32, 64), False),
    ],
)
def test_it_pays_for_many_signals_on_a_small_graph_and_a_high_degree(
    nodes: int, nonzeros: int, signals: int, degree: int, channels: tuple[int, int], pays: bool
) -> None:
    class Op:
        num_nodes, nnz, symmetric, for_one_call, whole = nodes, nonzeros, True, False, True
        rowptr = col = value = torch.ones(1)

    op: Any = Op()
    assert spectral_pays(op, signals, degree, channels) == pays
    for name, value in (
        ("symmetric", False),
        ("value", torch.ones(1, requires_grad=True)),
        ("for_one_call", True),
        ("whole", False),
    ):
        other: Any = Op()
        setattr(other, name, value)
        assert not spectral_pays(other, signals, degree, channels)


@pytest.mark.parametrize(("layer", "options"), LAYERS)
def test_no_spectrum_for_edges_that_are_met_once(layer: Any, options: dict[str, Any], monkeypatch: Any) -> None:
    graph = without_loops(random_graph(9, 20, seed=1)).both_ways()
    conv, x = layer(3, 5, **options).double(), numbers(40, 9, 3)
    op = conv.operator(graph.edge_index, graph.num_nodes, dtype=torch.float64)
    expected = conv(x, op)
    monkeypatch.setattr(torch.linalg, "eigh", lambda matrix: pytest.fail("an eigendecomposition for one call"))
    assert_near(conv(x, graph.edge_index), expected)


def test_what_cannot_be_kept_is_not_found_but_what_is_kept_is_used() -> None:
    _, op = graph_of(ChebConv, {})
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert not spectral_can(op)
    spectrum(op)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert spectral_can(op)


@pytest.mark.parametrize(("layer", "options"), LAYERS)
def test_the_layers_choose_by_the_number_of_signals(
    layer: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    conv, op = graph_of(layer, options)
    chosen: list[int] = []
    for module in (cheb_conv, cayley_conv):
        monkeypatch.setattr(module, "spectral", lambda *args: chosen.append(1) or spectral_form.spectral(*args))
    x = numbers(FEWEST_SIGNALS, 9, 3)
    few = conv(x[1:], op)
    assert not chosen
    assert_near(conv(x, op)[1:], few, 1e-11)
    assert chosen


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize(("layer", "options"), LAYERS)
@pytest.mark.parametrize("sizes", [(3, 5), (7, 3)])
@pytest.mark.parametrize("pays", [True, False])
def test_on_a_gpu(
    layer: Any, options: dict[str, Any], sizes: tuple[int, int], pays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cheb_conv, cayley_conv):
        monkeypatch.setattr(module, "spectral_pays", lambda op, *_: pays and op.device.type == "cuda")
    graph = without_loops(random_graph(50, 200, seed=1)).both_ways()
    conv = layer(*sizes, **options).double()
    x, direction = numbers(FEWEST_SIGNALS, 50, sizes[0]), numbers(FEWEST_SIGNALS, 50, sizes[1], seed=9)
    found = []
    for device in ("cpu", "cuda"):
        conv, y = conv.to(device), x.to(device).requires_grad_()
        op = conv.operator(graph.edge_index.to(device), graph.num_nodes, graph.edge_weight().to(device))
        out = conv(y, op)
        found.append([out, *torch.autograd.grad((out * direction.to(device)).sum(), [y, *conv.parameters()])])
    for one, two in zip(*found, strict=True):
        assert_near(two.cpu(), one, 1e-11)


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)])
@pytest.mark.parametrize("signals", [None, 2])
def test_batches_of_graphs_have_frequencies_of_their_own(sizes: tuple[int, int], signals: int | None) -> None:
    graphs = [without_loops(random_graph(n, 2 * n, seed=n)).both_ways() for n in (6, 4, 9)]
    conv = CayleyConv(*sizes, order=3, jacobi=2, zoom=1.7).double()
    ops = [
        GraphOperator.from_edge_index(g.edge_index, g.num_nodes, kind="laplacian", dtype=torch.float64) for g in graphs
    ]
    batches = GraphBatches(GraphOperator.block_diagonal(ops), torch.tensor([0, 6, 10, 19]))
    plain = batches.take([2, 0, 0, 1])
    batches.find_spectra()
    batch, padded = batches.take([2, 0, 0, 1]), batches.take_padded(torch.tensor([2, 0, 0, 1]), 30, 120)
    shape = (25, sizes[0]) if signals is None else (signals, 25, sizes[0])
    x = numbers(*shape).requires_grad_()
    results = []
    for op in (plain.op, batch.op, padded.op):
        given = torch.nn.functional.pad(x, (0, 0, 0, op.num_nodes - 25))
        out = conv(given, op)[..., :25, :]
        results.append([out, *torch.autograd.grad((out * numbers(*out.shape, seed=2)).sum(), [x, *conv.parameters()])])
    for found in results[1:]:
        for one, truth in zip(found, results[0], strict=True):
            assert_near(one, truth, 1e-9)


@pytest.mark.parametrize("sizes", [(3, 5), (5, 3)])
def test_autocast_narrows_a_batch_as_without_its_frequencies(sizes: tuple[int, int]) -> None:
    graph = without_loops(random_graph(6, 12, seed=1)).both_ways()
    batches = GraphBatches(GraphOperator.from_edge_index(graph.edge_index, 6, kind="laplacian"), torch.tensor([0, 6]))
    plain = batches.take([0]).op
    batches.find_spectra()
    conv, x = CayleyConv(*sizes), numbers(6, sizes[0]).float()
    with torch.autocast("cpu", torch.bfloat16):
        found, truth = conv(x, batches.take([0]).op), conv(x, plain)
    assert found.dtype == truth.dtype
    assert_near(found.float(), truth.float(), 0.05)


def test_a_compiled_layer_does_without() -> None:
    graph = without_loops(random_graph(6, 12, seed=1)).both_ways()
    batches = GraphBatches(GraphOperator.from_edge_index(graph.edge_index, 6, kind="laplacian"), torch.tensor([0, 6]))
    batches.find_spectra()
    conv, x, op = CayleyConv(3, 4), numbers(6, 3).float(), batches.take([0]).op
    assert_near(torch.compile(conv, fullgraph=True, backend="eager")(x, op), conv(x, op))


def test_trials_on_a_batch_are_those_alone() -> None:
    graph = without_loops(random_graph(6, 12, seed=1)).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, kind="laplacian", dtype=torch.float64)
    batches = GraphBatches(op, torch.tensor([0, 6]))
    batches.find_spectra()
    convs = [CayleyConv(3, 4, order=2, jacobi=2, zoom=1.0 + r).double() for r in range(3)]
    params = {
        name: torch.stack([dict(c.named_parameters())[name] for c in convs]) for name, _ in convs[0].named_parameters()
    }
    x, blocks = numbers(6, 3), batches.take([0]).op
    found = torch.vmap(lambda p: torch.func.functional_call(convs[0], p, (x, blocks)))(params)
    for one, conv in zip(found, convs, strict=True):
        assert_near(one, conv(x, blocks))
