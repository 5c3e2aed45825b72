from __future__ import annotations

from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradgradcheck

from armagnn import GraphOperator
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError
from armagnn.filters import ARMAFilter, CayleyFilter, Filter, arma
from armagnn.solvers import Statistics
from filters.filter_checks import NEAR, Array, FilterChecks
from oracles import Graph, assert_near, numbers, random_graph
from strategies import undirected

PAIR = np.array([0.4 + 0.6j, 0.4 - 0.6j])


class ARMAChecks(FilterChecks):
    def make(self, *parameters: Tensor) -> Filter:
        return ARMAFilter(*parameters)

    def truth(self, eigenvalues: Array) -> Array:
        a, b = (p.numpy() for p in self.parameters)
        return (b / (1 - eigenvalues[:, None] * a)).sum(1).real


class TestRealPoles(ARMAChecks):
    parameters: ClassVar = [torch.tensor(v, dtype=torch.float64) for v in ([0.8, -0.6, 0.0], [0.1, 0.4, -0.3])]


class TestPairs(ARMAChecks):
    """Two conjugate pairs and a real pole: closed under conjugation, so that the sum itself is real."""

    parameters: ClassVar = [
        torch.tensor([*PAIR, -0.3, -0.2 - 0.6j, -0.2 + 0.6j], dtype=torch.complex128),
        torch.tensor([0.3 + 0.1j, 0.3 - 0.1j, 0.5, -0.2j, 0.2j], dtype=torch.complex128),
    ]

    def truth(self, eigenvalues: Array) -> Array:
        a, b = (p.numpy() for p in self.parameters)
        total = (b / (1 - eigenvalues[:, None] * a)).sum(1)
        assert np.abs(total.imag).max(initial=0) < 1e-14
        return total.real


class TestHalfOfAPair(ARMAChecks):
    """A lone complex pole counts with its real part; a real pole may have a complex residue."""

    parameters: ClassVar = [
        torch.tensor([PAIR[0], 0.5], dtype=torch.complex128),
        torch.tensor([0.3 - 0.8j, 0.2 + 1j], dtype=torch.complex128),
    ]


class TestOnTheGCNOperator(TestPairs):
    kind = "gcn"
    gamma = 0.5


def graph_operator(graph: Graph | None = None) -> GraphOperator:
    graph = random_graph(40, 100, seed=7).both_ways() if graph is None else graph
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())


# -------------------------------------------------------------------------------------------------------------- poles


@pytest.mark.parametrize("a", [[17.5j, -17.5j], [0.6 + 3j, 0.6 - 3j], [-2.0 + 0.5j, -2.0 - 0.5j]])
def test_pairs_of_any_size_are_solved_exactly_off_the_interval(a: list[complex]) -> None:
    f, op, x = ARMAFilter(a, [0.3 + 0.4j, 0.3 - 0.4j]), graph_operator(), numbers(40, 3)
    assert_near(f.filter(op, x), f.filter(op, x, "eigen"), NEAR)
    with pytest.raises(ParameterError, match=r"Eq\. 10.*stable=True"):
        f.filter(op, x, "recursion")


def test_a_pair_is_one_real_solve() -> None:
    f, op, x = ARMAFilter([17.5j, -17.5j], [0.5, 0.5]), graph_operator(), numbers(40, 3)
    widths: list[int] = []

    class Spy(GraphOperator):
        def __matmul__(self, x: Tensor) -> Tensor:
            assert not x.is_complex()
            widths.append(x.shape[1])
            return super().__matmul__(x)

    spy = Spy(op.rowptr, op.col, op.value, op.shape, kind="arma", symmetric=True)
    assert_near(f.filter(spy, x), f.filter(op, x, "eigen"), NEAR)
    assert set(widths) == {3}  # never the six columns of two systems


@pytest.mark.parametrize("a", [1.0, -1.0, 1.5, -20.0])
@pytest.mark.parametrize("kind", [float, complex])
def test_poles_on_the_interval_are_refused_with_the_reason(a: float, kind: type) -> None:
    f, op, x = ARMAFilter([kind(a), kind(0.2)], [1.0, 1.0]), graph_operator(), numbers(40, 1)
    with pytest.raises(ParameterError, match=r"pole at \|mu\| = .* on \[-1, 1\]"):
        f.filter(op, x, "exact")
    with pytest.raises(ParameterError, match=r"\|a\| < 1"):
        f.filter(op, x, "recursion")


def test_a_pole_between_the_eigenvalues_is_for_the_eigendecomposition() -> None:
    path = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)  # eigenvalues ±1
    x = numbers(2, 1)
    dense = torch.linalg.inv(torch.eye(2).double() - 2 * path.to_dense()) @ x
    assert_near(ARMAFilter([2.0], [1.0]).filter(path, x, "eigen"), dense)
    with pytest.raises(ParameterError, match="eigenvalue of this graph"):
        ARMAFilter([1.0], [1.0]).filter(path, x, "eigen")


def test_an_operator_with_eigenvalues_beyond_one_is_still_solved_exactly() -> None:
    graph = random_graph(40, 100, seed=7).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 40, graph.edge_weight(), lambda_max=4.0)  # M = 2 I - L
    mu = torch.linalg.eigvalsh(op.to_dense())
    a = 1 / float((mu[20] + mu[21]) / 2)  # I - aM has eigenvalues of both signs
    f, x = ARMAFilter([a], [1.0]), numbers(40, 2)
    assert abs(a) < 1
    assert float((1 - a * mu).min()) < 0 < float((1 - a * mu).max())
    how: list[Statistics] = []
    out = f.filter(op, x, statistics=how)
    assert how[0].squared
    assert_near(out, torch.linalg.solve(torch.eye(40).double() - a * op.to_dense(), x), 1e-7)
    with pytest.raises(GraphError, match="diverges"):
        f.filter(op, x, "recursion")


# ------------------------------------------------------------------------------------------------ recursion, statistics


def test_the_recursion_is_eq_8() -> None:
    op, x = graph_operator(), numbers(40, 2)
    state = torch.zeros_like(x)
    for _ in range(7):
        state = 0.8 * (op @ state) + 0.3 * x
    with pytest.warns(RuntimeWarning, match="6 iterations"):
        ours = ARMAFilter([0.8], [0.3]).filter(op, x, "recursion", max_iter=6)
    assert_near(ours, state)


@pytest.mark.parametrize("a", [0.3, -0.9, 0.99])
@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-9])
def test_the_tolerance_of_the_recursion_bounds_the_error(a: float, tol: float) -> None:
    op, x = graph_operator(), numbers(40, 1)
    how: list[Statistics] = []
    f = ARMAFilter([a], [1.0])
    out, truth = f.filter(op, x, "recursion", tol=tol, statistics=how), f.filter(op, x, "eigen")
    assert float((out - truth).norm()) <= 1.001 * tol * float(out.norm())
    (own,) = how
    assert own.converged
    assert own.residual <= tol
    assert len(own.history) == own.iterations
    assert own.history[-2] > tol  # it did not go on for longer than it had to


def test_statistics_of_the_solver() -> None:
    op, x = graph_operator(), numbers(40, 2)
    how: list[Statistics] = []
    ARMAFilter([0.9, *PAIR], [1.0, 1.0, 1.0]).filter(op, x, tol=1e-6, statistics=how)
    assert len(how) == 2  # the real poles, and the pairs
    for own in how:
        assert own.converged
        assert not own.squared
        assert own.residual <= 1e-6
        assert 0 < own.iterations < 100
    with pytest.warns(RuntimeWarning, match="3 iterations at a relative residual"):
        ARMAFilter([0.99], [1.0]).filter(op, x, max_iter=3)


def test_wide_signals_are_filtered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    f, op, x = ARMAFilter([0.9, *PAIR], [1.0, 1.0, 1.0]), graph_operator(), numbers(40, 7)
    whole = {method: f.filter(op, x, method) for method in f.methods}
    monkeypatch.setattr(arma, "ENTRIES", 40 * 3 * 2)
    how: list[Statistics] = []
    for method in ("exact", "recursion"):
        assert_near(f.filter(op, x, method, statistics=how), whole[method], 1e-10)
    assert len(how) == 4 * 2 + 4  # four parts


@pytest.mark.parametrize("method", ["exact", "recursion"])
def test_nan_stays_in_its_column(method: str) -> None:
    f, op, x = ARMAFilter([0.9, *PAIR], [1.0, 1.0, 1.0]), graph_operator(), numbers(40, 3)
    clean = f.filter(op, x, method)
    x[4, 1] = torch.nan
    out = f.filter(op, x, method)
    assert_near(out[:, [0, 2]], clean[:, [0, 2]], 1e-10)
    assert out[:, 1].isnan().any()


@pytest.mark.parametrize("method", ["exact", "recursion"])
@pytest.mark.parametrize("size", [1e-30, 1e25])
def test_signals_of_any_size_and_their_gradients(method: str, size: float) -> None:
    f, op = ARMAFilter([0.9, *PAIR], [1.0, 1.0, 1.0]), graph_operator().to(torch.float32)
    x = numbers(40, 2, dtype=torch.float32).requires_grad_()
    plain, other = f.filter(op, x, method), f.filter(op, size * x, method)
    assert_near(other / size, plain, 1e-5)
    (truth,), (ours,) = (torch.autograd.grad((plain * scale).sum(), x, retain_graph=True) for scale in (1.0, size))
    assert_near(ours / size, truth, 1e-5)


@settings(max_examples=10)
@given(undirected(), st.floats(-0.8, 0.8), st.floats(0.05, 0.8), st.floats(0.1, 3.0))
def test_all_methods_agree(graph: Graph, a: float, size: float, angle: float) -> None:
    pole = size * np.exp(1j * angle)
    f = ARMAFilter([a, pole, np.conj(pole)], [0.5, 0.2 - 1j, 0.2 + 1j])
    op, x = graph_operator(graph), numbers(graph.num_nodes, 2)
    exact, recursion, eigen = (f.filter(op, x, method) for method in ("exact", "recursion", "eigen"))
    assert_near(exact, eigen, NEAR)
    assert_near(recursion, eigen, NEAR)


# ----------------------------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("method", ["exact", "recursion"])
def test_second_derivatives(method: str) -> None:
    op = graph_operator(random_graph(5, 8).both_ways())
    for a, b in (([0.6, -0.4], [0.5, 1.2]), ([0.3 + 0.4j], [0.5 - 1j])):
        inputs = (numbers(5, 1), torch.tensor(a), torch.tensor(b))
        inputs = tuple(p.to(torch.promote_types(p.dtype, torch.float64)).requires_grad_() for p in inputs)
        assert gradgradcheck(lambda x, a, b: ARMAFilter(a, b).filter(op, x, method), inputs, fast_mode=True)


def test_the_gradient_keeps_no_iterations() -> None:
    op, x = graph_operator(), numbers(40, 2).requires_grad_()
    a = torch.tensor([0.95], dtype=torch.float64, requires_grad=True)
    sizes: list[int] = []

    def pack(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for method in ("exact", "recursion"):
            sizes.clear()
            ARMAFilter(a, [1.0]).filter(op, x, method)
            assert sum(sizes) < 10 * x.numel()


def test_a_filter_can_be_learned() -> None:
    op, x = graph_operator(), numbers(40, 1)
    target = ARMAFilter([0.7 + 0.4j, 0.7 - 0.4j], [0.5 - 1j, 0.5 + 1j]).filter(op, x)
    a = torch.tensor([0.5 + 0.2j], dtype=torch.complex128, requires_grad=True)
    b = torch.tensor([0.8 - 1.5j], dtype=torch.complex128, requires_grad=True)
    optimizer = torch.optim.LBFGS([a, b], max_iter=40, line_search_fn="strong_wolfe", tolerance_grad=1e-8)

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = (ARMAFilter(a, b).filter(op, x, tol=1e-10) - target).square().mean()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[arg-type]
    assert float(loss().detach()) < 1e-8
    assert abs(a.item() - (0.7 + 0.4j)) < 1e-2  # half of the pair, so b is twice
    assert abs(b.item() - 2 * (0.5 - 1j)) < 1e-2


def test_float32_coefficients_serve_a_float64_graph() -> None:
    op, x = graph_operator(), numbers(40, 2)
    a = torch.tensor([0.5], requires_grad=True)
    out = ARMAFilter(a, torch.ones(1)).filter(op, x)
    assert out.dtype == torch.float64
    wide = a.detach().double().requires_grad_()
    (ours,), (truth,) = (torch.autograd.grad(ARMAFilter(p, [1.0]).filter(op, x).sum(), p) for p in (a, wide))
    assert ours.dtype == torch.float32
    assert_near(ours, truth, 1e-6)


# ------------------------------------------------------------------------------------- label propagation and PageRank


def test_label_propagation_is_this_filter() -> None:
    op, alpha = graph_operator(), 0.85
    labels = torch.eye(3, dtype=torch.float64)[torch.arange(40) % 3] * (torch.arange(40) < 9).double()[:, None]
    dense = torch.eye(40).double() - alpha * op.to_dense()
    expected = torch.linalg.solve(dense, (1 - alpha) * labels)
    for method in ("exact", "recursion", "eigen"):
        assert_near(ARMAFilter([alpha], [1 - alpha]).filter(op, labels, method), expected, NEAR)


def test_personalised_pagerank_is_this_filter() -> None:
    graph = nx.karate_club_graph()
    op = GraphOperator.from_networkx(graph, weight=None, dtype=torch.float64)
    degree = torch.tensor([d for _, d in graph.degree()], dtype=torch.float64)
    seeds = torch.zeros(34, dtype=torch.float64)
    seeds[[0, 5]] = torch.tensor([0.75, 0.25], dtype=torch.float64)
    rank = degree**0.5 * ARMAFilter([0.85], [0.15]).filter(op, seeds / degree**0.5)
    theirs = nx.pagerank(graph, 0.85, {0: 0.75, 5: 0.25}, tol=1e-13, max_iter=1000, weight=None)
    assert_near(rank, np.array([theirs[k] for k in graph]), 1e-10)
    assert float(rank.sum()) == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------------------------- algebra


def test_sums_of_arma_filters_are_arma_filters() -> None:
    f, g = ARMAFilter([0.5], [1.0]), ARMAFilter(PAIR, [1.0, 1.0])
    total = 2 * f - g
    assert isinstance(total, ARMAFilter)
    assert total.order == 3
    mu = np.linspace(-1, 1, 11)
    np.testing.assert_allclose(total(mu), 2 * f(mu) - g(mu))
    np.testing.assert_allclose((-f)(mu), -f(mu))


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("a", "b", "error"),
    [
        ([0.5], [1.0, 2.0], ShapeError),
        ([], [], ShapeError),
        ([[0.5]], [[1.0]], ShapeError),
        ([float("inf")], [1.0], ParameterError),
        ([0.5], [float("nan")], ParameterError),
        ("ab", [1.0], DTypeError),
        (None, [1.0], DTypeError),
    ],
)
def test_bad_coefficients_are_refused(a: Any, b: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^a |^b |^a and b"):
        ARMAFilter(a, b)


@pytest.mark.parametrize(
    ("f", "method"),
    [
        (ARMAFilter([0.5], [1.0]), "exact"),
        (ARMAFilter([0.5], [1.0]), "recursion"),
        (CayleyFilter([1.0, 0.5j]), "exact"),
    ],
    ids=["exact", "recursion", "cayley"],
)
@pytest.mark.parametrize(
    "options", [{"tol": 0.0}, {"tol": 2.0}, {"max_iter": 0}, {"max_iter": 2.5}, {"max_iter": True}]
)
def test_bad_options_are_refused(f: Filter, method: str, options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        f.filter(graph_operator(), numbers(40, 1), method, **options)


def test_bfloat16_and_learned_values_are_refused() -> None:
    op = graph_operator()
    for f in (ARMAFilter([0.5], [1.0]), CayleyFilter([1.0, 0.5j])):
        with pytest.raises(DTypeError, match="float32 or float64"):
            f.filter(op.to(torch.bfloat16), numbers(40, 1, dtype=torch.bfloat16))
    graph = random_graph(6, 9).both_ways()
    learned = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight().requires_grad_())
    for method in ARMAFilter.methods:
        with pytest.raises(GraphError, match="detach"):
            ARMAFilter([0.5], [1.0]).filter(learned, numbers(6, 2), method)
    with torch.no_grad():
        assert ARMAFilter([0.5], [1.0]).filter(learned, numbers(6, 2)).shape == (6, 2)
