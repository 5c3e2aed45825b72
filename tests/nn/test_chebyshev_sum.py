"""Chebyshev sums against dense matrices and against numpy's Chebyshev polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev as numpy_chebyshev
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import oracles
from armagnn import CSR, GraphOperator, kernels
from armagnn.nn.cayley_transform import responses
from armagnn.nn.chebyshev_sum import chebyshev, chebyshev_coefficients, mixed, polynomial, shifted
from nn.cayley_oracle import jacobi, without_loops
from oracles import Graph, assert_near, numbers, random_graph
from strategies import graphs, undirected

CPU = torch.device("cpu")


@pytest.mark.parametrize("degree", [0, 1, 2, 5, 24, 40])
def test_chebyshev_polynomials_within_the_interval_and_outside(degree: int) -> None:
    e = torch.linspace(-1.2, 1.3, 11, dtype=torch.float64)
    truth = torch.from_numpy(numpy_chebyshev.chebvander(e.numpy(), degree))
    torch.testing.assert_close(chebyshev(e, degree), truth, rtol=1e-12, atol=1e-12)


@settings(max_examples=30)
@given(degree=st.integers(0, 40), count=st.integers(1, 3), seed=st.integers(0, 99))
def test_coefficients_are_those_of_the_polynomials(degree: int, count: int, seed: int) -> None:
    truth = numbers(degree + 1, count, seed=seed)
    found = chebyshev_coefficients(
        lambda e: torch.from_numpy(numpy_chebyshev.chebval(e.numpy(), truth.numpy())).T, degree, CPU
    )
    assert_near(found, truth, 1e-12)


@settings(max_examples=15)
@given(
    graph=undirected(),
    zoom=st.sampled_from([-2.0, 0.05, 1.0, 5.0]),
    iterations=st.integers(1, 5),
    order=st.integers(1, 4),
)
def test_cayley_coefficients_give_the_powers_of_the_transform(
    graph: Graph, zoom: float, iterations: int, order: int
) -> None:
    laplacian = torch.from_numpy(oracles.operator(without_loops(graph).dense(), "laplacian"))
    eye = torch.eye(len(laplacian), dtype=torch.float64)
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    table = chebyshev_coefficients(lambda e: responses(h, iterations, order, e), order * (iterations + 1), CPU)
    matrices = [eye, laplacian - eye]
    while len(matrices) < len(table):
        matrices.append(2 * matrices[1] @ matrices[-1] - matrices[-2])
    found = torch.einsum("nc,nij->cij", table, torch.stack(matrices))
    power, truth = eye.to(torch.complex128), [eye]
    for _ in range(order):
        power = jacobi(laplacian, h, iterations, power)
        truth += [2 * power.real, -2 * power.imag]
    assert_near(found, torch.stack(truth), 1e-11)
    direction = numbers(*found.shape)
    one, two = (torch.autograd.grad((out * direction).sum(), h)[0] for out in (found, torch.stack(truth)))
    assert_near(one, two, 1e-9)


def test_coefficients_of_many_zooms() -> None:
    zooms = torch.tensor([0.5, 1.0, 3.0], dtype=torch.float64)

    def table(h: Tensor) -> Tensor:
        return chebyshev_coefficients(lambda e: responses(h, 3, 2, e), 8, CPU)

    assert_near(torch.vmap(table)(zooms), torch.stack([table(h) for h in zooms]), 1e-13)
    slopes = torch.vmap(torch.func.jacrev(table))(zooms)
    assert_near(slopes, torch.stack([torch.autograd.functional.jacobian(table, h) for h in zooms]), 1e-12)


def test_mixed_weights() -> None:
    table, weight = numbers(5, 3), numbers(2, 3, 4, seed=1)
    assert_near(mixed(table, weight), torch.einsum("nc,fcg->nfg", table, weight), 1e-13)


# -------------------------------------------------------------------------------------------------------------- sums


def chebyshev_sum(op: GraphOperator, scale: float, x: Any, weights: Tensor, filters_first: bool) -> Tensor:
    """The sum of T_n X W_n from the W_n, shape (D + 1, F_in, F_out)."""
    return polynomial(op, scale, x, weights.transpose(0, 1), None, filters_first)


def dense_sum(laplacian: Tensor, scale: float, x: Tensor, weights: Tensor) -> Tensor:
    eye = torch.eye(len(laplacian), dtype=torch.float64)
    e = scale * laplacian - eye
    matrices = [eye, e]
    while len(matrices) < len(weights):
        matrices.append(2 * e @ matrices[-1] - matrices[-2])
    return sum(torch.einsum("ij,jbf,fg->ibg", m, x, w) for m, w in zip(matrices, weights, strict=False))  # type: ignore[return-value]


@settings(max_examples=25)
@given(
    graph=graphs(), loops=st.booleans(), scale=st.sampled_from([1.0, 0.8, 1.3]), degree=st.integers(0, 6),
    filters_first=st.booleans(), width=st.integers(1, 2),
)  # fmt: skip
def test_sums_are_those_of_dense_matrices(
    graph: Graph, loops: bool, scale: float, degree: int, filters_first: bool, width: int
) -> None:
    graph = graph if loops else without_loops(graph)
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), "laplacian")
    laplacian = torch.from_numpy(oracles.operator(graph.dense(), "laplacian"))
    x, weights = numbers(graph.num_nodes, 2, width).requires_grad_(), numbers(degree + 1, width, 3, seed=1)
    weights.requires_grad_()
    found, truth = chebyshev_sum(op, scale, x, weights, filters_first), dense_sum(laplacian, scale, x, weights)
    assert_near(found, truth)
    direction = numbers(*found.shape, seed=2)
    grads = [torch.autograd.grad((out * direction).sum(), [x, weights]) for out in (found, truth)]
    for one, two in zip(*grads, strict=True):
        assert_near(one, two)
    if not filters_first:
        sparse = chebyshev_sum(op, scale, CSR.from_dense(x.detach()[:, 0]), weights, False)
        assert_near(sparse[:, 0], truth[:, 0])


@pytest.mark.parametrize("filters_first", [True, False])
def test_polynomials_in_other_terms_than_chebyshevs(filters_first: bool) -> None:
    graph = random_graph(6, 12).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight(), "laplacian")
    x, weight, table = numbers(6, 2, 3), numbers(3, 2, 4, seed=1), numbers(5, 2, seed=2)
    inputs = [tensor.requires_grad_() for tensor in (x, weight, table)]
    found = polynomial(op, 0.9, x, weight, table, filters_first)
    truth = chebyshev_sum(op, 0.9, x, torch.einsum("nc,fcg->nfg", table, weight), filters_first)
    assert_near(found, truth)
    direction = numbers(*found.shape, seed=3)
    for one, two in zip(
        torch.autograd.grad((found * direction).sum(), inputs),
        torch.autograd.grad((truth * direction).sum(), inputs),
        strict=True,
    ):
        assert_near(one, two)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("filters_first", [True, False])
@pytest.mark.parametrize("undirected", [True, False])
def test_gradients_of_edge_weights_also_after_a_call_without_gradients(
    loops: bool, filters_first: bool, undirected: bool
) -> None:
    graph = random_graph(5, 9) if loops else without_loops(random_graph(5, 9))
    graph = graph.both_ways() if undirected else graph
    edge_weight = graph.edge_weight().requires_grad_()
    x, weights = numbers(5, 2, 2), numbers(5, 2, 3, seed=1)

    def run(edge_weight: Tensor) -> Tensor:
        op = GraphOperator.from_edge_index(graph.edge_index, 5, edge_weight, "laplacian")
        with torch.no_grad():
            chebyshev_sum(op, 0.9, x, weights, filters_first)
        return chebyshev_sum(op, 0.9, x, weights, filters_first)

    assert torch.autograd.gradcheck(run, (edge_weight,))
    assert torch.autograd.gradgradcheck(run, (edge_weight,))


@pytest.mark.parametrize("filters_first", [True, False])
def test_operators_of_many_trials(filters_first: bool) -> None:
    graph = without_loops(random_graph(6, 12)).both_ways()
    ops = [
        GraphOperator.from_edge_index(
            graph.edge_index, 6, graph.edge_weight() * (1 + numbers(1, seed=s) ** 2), "laplacian"
        )
        for s in range(3)
    ]
    x, weights = numbers(6, 2, 2), numbers(4, 2, 3, seed=1)
    values = torch.stack([op.value * (s + 1) for s, op in enumerate(ops)])
    one = torch.vmap(lambda v: chebyshev_sum(ops[0].with_value(v), 0.9, x, weights, filters_first))(values)
    two = torch.stack([chebyshev_sum(ops[0].with_value(v), 0.9, x, weights, filters_first) for v in values])
    assert_near(one, two, 1e-12)


@pytest.mark.parametrize("mode", ["inference", "fake", "none"])
def test_the_scaled_operator_is_made_once_in_no_special_mode(mode: str) -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 3, kind="laplacian")
    modes: dict[str, Any] = {
        "inference": torch.inference_mode(), "none": torch.no_grad(),
        "fake": FakeTensorMode(allow_non_fake_inputs=True),
    }  # fmt: skip
    with modes[mode]:
        first = shifted(op, 1.0, 4)
    second = shifted(op, 1.0, 4)
    assert (first is second) == (mode != "fake")
    values = second.multiples[1.0][2]
    assert type(values) is Tensor
    assert not values.is_inference()
    assert shifted(op, 1.0, 7) is second
    assert shifted(op, 0.5, 4) is not second
    assert shifted(op, 1.0, 1) is not second
    assert_near(values, [0.0, -1.0, -1.0, 0.0, 0.0], 1e-6)


def test_every_term_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = without_loops(random_graph(6, 12)).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight(), "laplacian")
    calls: list[int] = []
    original = kernels.gcs
    monkeypatch.setattr(kernels, "gcs", lambda *args: calls.append(1) or original(*args))
    for filters_first in (True, False):
        chebyshev_sum(op, 1.0, numbers(6, 2, 2), numbers(8, 2, 3), filters_first)
        assert len(calls) == 7
        calls.clear()


def test_a_degree_of_a_thousand_is_exact_to_rounding() -> None:
    graph = without_loops(random_graph(20, 60)).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 20, graph.edge_weight(), "laplacian")
    eigenvalues, vectors = np.linalg.eigh(op.to_dense().numpy() - np.eye(20))
    weights = numbers(1001, 1, 1)
    response = np.cos(np.outer(np.arccos(eigenvalues.clip(-1, 1)), np.arange(1001))) @ weights.flatten().numpy()
    x = numbers(20, 1, 1)
    truth = torch.from_numpy((vectors * response) @ vectors.T) @ x.flatten()
    for filters_first in (True, False):
        assert_near(chebyshev_sum(op, 1.0, x, weights, filters_first).flatten(), truth, 1e-9)
