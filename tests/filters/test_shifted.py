"""Filters in lambda are functions of L, whatever lambda_min and lambda_max made of the operator's diagonal (Eq. 9)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils import _pytree as pytree

import oracles
from armagnn import GraphOperator
from armagnn.errors import GraphError
from armagnn.filters import ARMAFilter, CayleyFilter, ChebyshevFilter, Filter, PolynomialFilter, SpectralFilter
from armagnn.filters.targets import heat
from armagnn.operators import GraphBatches
from armagnn.spectral import spectral_density, spectrum
from armagnn.spectral.plot import new_figure, plot_components, plot_response, scatter_response
from oracles import Graph, assert_near, numbers, random_graph
from strategies import undirected

mpl.use("Agg")

Array = npt.NDArray[Any]
Options = dict[str, Any]

RANGES: list[Options] = [
    {},
    {"lambda_max": 1.5},
    {"lambda_min": 0.25, "lambda_max": 1.5},
    {"lambda_max": 3.0},
    {"lambda_max": "computed"},
    {"lambda_min": "computed", "lambda_max": "computed"},
]
GRAPH = random_graph(12, 20, seed=5, lone=1).both_ways()
P, Q = [0.5, -0.2], [0.9, 0.3]

IN_LAMBDA: dict[str, tuple[Callable[[], Filter], Callable[[Array], Array]]] = {
    "polynomial": (
        lambda: PolynomialFilter([1.0, -0.5, 0.25], variable="lambda"),
        lambda v: 1 - 0.5 * v + 0.25 * v**2,
    ),
    "cayley": (
        lambda: CayleyFilter([0.5, 0.25 + 0.5j], zoom=0.7),
        lambda v: 0.5 + 2 * ((0.25 + 0.5j) * (0.7 * v + 1j) / (0.7 * v - 1j)).real,
    ),
    "rational": (
        lambda: ARMAFilter.from_rational(P, Q),
        lambda v: (P[0] + P[1] * v) / (1 + Q[0] * v + Q[1] * v**2),
    ),
    "twice the sum of rationals": (
        lambda: 2 * (ARMAFilter.from_rational([2.0], [1.0]) + ARMAFilter.from_rational([0.1], [0.5])),
        lambda v: 4 / (1 + v) + 0.2 / (1 + 0.5 * v),
    ),
    "exact heat": (lambda: SpectralFilter("heat"), lambda v: np.exp(-5 * v)),
    "another heat": (lambda: SpectralFilter(heat(1.5)), lambda v: np.exp(-1.5 * v)),
    "a function of lambda": (lambda: SpectralFilter(lambda v: v**2, "lambda"), lambda v: v**2),
    "samples in lambda": (lambda: SpectralFilter(([0.0, 2.0], [1.0, 0.0]), "lambda"), lambda v: 1 - v / 2),
    "Chebyshev heat": (lambda: ChebyshevFilter.design("heat", 40), lambda v: np.exp(-5 * v)),
    "a sum": (
        lambda: PolynomialFilter([0.0, 1.0], variable="lambda") - ARMAFilter.from_rational([1.0], [1.0]),
        lambda v: v - 1 / (1 + v),
    ),
}
IN_MU: dict[str, tuple[Callable[[], Filter], Callable[[Array], Array]]] = {
    "polynomial": (lambda: PolynomialFilter([0.5, 0.5, 0.1]), lambda m: 0.5 + 0.5 * m + 0.1 * m**2),
    "arma": (lambda: ARMAFilter([0.4, -0.3], [1.0, 0.5]), lambda m: 1 / (1 - 0.4 * m) + 0.5 / (1 + 0.3 * m)),
    "function": (lambda: SpectralFilter(lambda m: torch.exp(m)), np.exp),
    "rational in mu": (lambda: ARMAFilter.from_rational([1.0], [0.0, 0.5], "mu"), lambda m: 1 / (1 + m**2 / 2)),
}


def operator(graph: Graph, options: Options) -> GraphOperator:
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), **options)


def of_laplacian(graph: Graph, h: Callable[[Array], Array]) -> torch.Tensor:
    """Return U diag(h(lambda)) U^T, from a dense Laplacian that uses no armagnn."""
    return _function(oracles.operator(graph.dense(), "laplacian"), h)


def _function(matrix: Array, h: Callable[[Array], Array]) -> torch.Tensor:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return torch.from_numpy((vectors * h(values)) @ vectors.T)


@pytest.mark.parametrize("options", RANGES, ids=str)
@pytest.mark.parametrize("name", IN_LAMBDA)
def test_a_filter_in_lambda_is_a_function_of_the_laplacian(name: str, options: Options) -> None:
    make, h = IN_LAMBDA[name]
    op, x = operator(GRAPH, options), numbers(GRAPH.num_nodes, 3, seed=1)
    expected = of_laplacian(GRAPH, h) @ x
    for method in make().methods:
        assert_near(make().filter(op, x, method), expected, 1e-7)
        assert_near(make().bind(op, method) @ x, expected, 1e-7)
    given = spectrum(op, cache=False)
    assert_near(make().filter(op, x, "eigen", spectrum=given), expected, 1e-7)
    mu, vectors = given
    assert_near(vectors @ (make().bind(op).response(mu)[:, None] * (vectors.T @ x)), expected, 1e-7)


@pytest.mark.parametrize("name", ["polynomial", "cayley", "rational"])
def test_on_any_graph(name: str) -> None:
    make, h = IN_LAMBDA[name]

    @settings(max_examples=15)
    @given(undirected(), st.floats(0.1, 4.0), st.floats(0.0, 0.1))
    def check(graph: Graph, high: float, low: float) -> None:
        x = numbers(graph.num_nodes, 2, seed=3)
        assert_near(
            make().filter(operator(graph, {"lambda_min": low, "lambda_max": high}), x), of_laplacian(graph, h) @ x, 1e-7
        )

    check()


@pytest.mark.parametrize("options", RANGES[:3], ids=str)
@pytest.mark.parametrize("name", IN_MU)
def test_a_filter_in_mu_is_a_function_of_the_operator(name: str, options: Options) -> None:
    make, h = IN_MU[name]
    op, x = operator(GRAPH, options), numbers(GRAPH.num_nodes, 3, seed=1)
    for method in make().methods:
        assert_near(make().filter(op, x, method), _function(op.to_dense().numpy(), h) @ x, 1e-7)
    assert_near(make().bind(op).response(spectrum(op, cache=False)[0]), h(spectrum(op, cache=False)[0].numpy()), 1e-7)


def test_a_designed_name_is_in_lambda_and_a_function_in_mu() -> None:
    by_name, by_function = (ARMAFilter.design(t, 2) for t in ("heat", lambda mu: torch.exp(-5 * (1 - mu))))
    assert (by_name.variable, by_function.variable) == ("lambda", "mu")
    assert torch.equal(by_name.a, by_function.a)
    op, plain = operator(GRAPH, {"lambda_max": 1.5}), operator(GRAPH, {})
    x = numbers(GRAPH.num_nodes, 2)
    assert_near(by_name.filter(op, x), by_name.filter(plain, x), 1e-10)
    assert not torch.allclose(by_function.filter(op, x), by_function.filter(plain, x), atol=1e-2)


# ----------------------------------------------------------------------------------------- what the shift survives

SHIFTED = operator(GRAPH, {"lambda_max": 1.5})
SURVIVALS: dict[str, Callable[[GraphOperator], GraphOperator]] = {
    "a type": lambda op: op.to(torch.float32).to(torch.float64),
    "a device": lambda op: op.to("cpu"),
    "the transpose": lambda op: op.T,
    "detach": lambda op: op.detach(),
    "new values": lambda op: op.with_value(op.value.clone()),
    "a copy": copy.deepcopy,
    "pickle": lambda op: copy.copy(op),
    "a pytree": lambda op: pytree.tree_map(lambda t: t, op),
    "a batch": lambda op: GraphOperator.block_diagonal([op, op]),
    "a cut": lambda op: GraphBatches(op, torch.tensor([0, op.num_nodes])).take([0, 0]).op,
}


@pytest.mark.parametrize("how", SURVIVALS)
def test_the_operator_remembers_its_shift(how: str) -> None:
    assert SHIFTED.shift == -0.25
    other = SURVIVALS[how](SHIFTED)
    assert other.shift == -0.25
    part = other.without_shift().to_dense()[: GRAPH.num_nodes, : GRAPH.num_nodes]
    assert_near(part, oracles.operator(GRAPH.dense(), "arma"), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_shift_is_taken_away_in_the_type_of_the_operator(dtype: torch.dtype) -> None:
    index = torch.tensor([[0, 1, 1, 1], [1, 0, 1, 1]])  # with two loops at a node, which a graph may have
    built = lambda high: GraphOperator.from_edge_index(index, 2, lambda_max=high, dtype=dtype)  # noqa: E731
    assert_near(built(1.7).without_shift().to_dense(), built(2.0).to_dense(), 2 * torch.finfo(dtype).eps)
    plain = lambda high: built(high).without_shift() @ torch.eye(2, dtype=dtype)  # noqa: E731
    traced = torch.compile(plain, fullgraph=True, backend="aot_eager")  # which merges no loops
    assert_near(traced(1.7), plain(2.0), 2 * torch.finfo(dtype).eps)


def test_without_shift() -> None:
    plain = operator(GRAPH, {})
    assert plain.without_shift() is plain
    assert SHIFTED.without_shift() is SHIFTED.without_shift()
    assert SHIFTED.without_shift().symmetric
    weight = torch.ones(GRAPH.edge_index.shape[1], dtype=torch.float64, requires_grad=True)
    learned = GraphOperator.from_edge_index(GRAPH.edge_index, GRAPH.num_nodes, weight, lambda_max=1.5)
    truth = GraphOperator.from_edge_index(GRAPH.edge_index, GRAPH.num_nodes, weight)
    x = numbers(GRAPH.num_nodes, 2)
    ours, theirs = (
        torch.autograd.grad((PolynomialFilter([0.0, 0.0, 1.0], "lambda").filter(op, x) ** 2).sum(), weight)[0]
        for op in (learned, truth)
    )
    assert_near(ours, theirs, 1e-9)


def test_where_the_shift_is_not_known_a_filter_in_lambda_says_so() -> None:
    mixed = GraphOperator.block_diagonal([SHIFTED, operator(GRAPH, {})])
    assert mixed.shift is None
    x = numbers(mixed.num_nodes, 1)
    assert_near(PolynomialFilter([0.0, 1.0]).filter(mixed, x), mixed @ x)  # in mu: h(M) as ever
    for method in ("exact", "eigen"):
        with pytest.raises(GraphError, match="frequencies lambda of this operator are not known"):
            PolynomialFilter([0.0, 1.0], "lambda").filter(mixed, x, method)
    with pytest.raises(GraphError, match="not known"):
        spectral_density(mixed)
    with pytest.raises(GraphError, match="not known"):
        PolynomialFilter([0.0, 1.0], "lambda").filter(SHIFTED.off_diagonal(), x[: GRAPH.num_nodes])


# ---------------------------------------------------------------------------------------------------------------- plots


def test_a_bound_filter_is_drawn_over_the_range_of_its_operator() -> None:
    mu, _ = spectrum(SHIFTED, cache=False)
    f = PolynomialFilter([0.0, 1.0], "lambda")
    axes = f.bind(SHIFTED).plot(mu=mu)
    curve, marks = axes.lines
    np.testing.assert_allclose(curve.get_ydata(), curve.get_xdata(), atol=1e-12)
    assert (curve.get_xdata()[0], curve.get_xdata()[-1]) == (0.0, 2.0)
    np.testing.assert_allclose(marks.get_ydata(), 0.75 - mu.numpy())
    assert axes.get_xlabel() == "λ = 0.75 − μ"
    laplacian = GraphOperator.from_edge_index(GRAPH.edge_index, GRAPH.num_nodes, GRAPH.edge_weight(), kind="laplacian")
    (curve,) = f.bind(laplacian).plot().lines
    np.testing.assert_allclose(curve.get_ydata(), curve.get_xdata(), atol=1e-12)


def test_pictures_are_over_lambda() -> None:
    mu, h = torch.tensor([-1.25, -0.25, 0.75]), torch.tensor([3.0, 2.0, 1.0])
    _, axes = new_figure(2, 2, columns=3)
    plot_response(axes[0, 0], mu, h, shift=-0.25)
    assert axes[0, 0].lines[0].get_xdata().tolist() == [0.0, 1.0, 2.0]
    assert axes[0, 0].lines[0].get_ydata().tolist() == [1.0, 2.0, 3.0]
    scatter_response(axes[0, 1], mu, h, shift=-0.25)
    assert axes[0, 1].collections[0].get_offsets()[:, 0].tolist() == [2.0, 1.0, 0.0]
    plot_components(axes[0, 2], mu, h, bands=2, shift=-0.25)
    np.testing.assert_allclose(axes[0, 2].patches[0].get_data().values, [1.0, (13 / 2) ** 0.5])


def test_a_density_knows_the_range() -> None:
    density = spectral_density(SHIFTED, moments=200, probes=200)
    mu, _ = spectrum(SHIFTED, cache=False)
    assert (density.low, density.high) == (-1.25, 0.75)
    for point in (-0.5, 0.0, 0.5):
        assert abs(float(density.count(torch.tensor(point))) - float((mu <= point).double().mean())) < 0.1
    assert density.plot().get_xlabel() == "λ = 0.75 − μ"
