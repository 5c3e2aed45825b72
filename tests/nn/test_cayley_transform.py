"""The Cayley transform in all forms, against Jacobi's iterations in complex dense matrices."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from armagnn import GraphOperator
from armagnn.nn.cayley_transform import Dense, Jacobi, Polynomial, Transform, coefficients, transform
from nn.cayley_oracle import jacobi, without_loops
from oracles import Graph, assert_near, numbers
from strategies import graphs

ZOOMS = [-2.0, -0.1, 0.05, 1.0, 30.0]


def by_complex_numbers(zoom: Tensor, iterations: int) -> Tensor:
    """The coefficients as the derivation writes them."""
    d = zoom + 1j
    u, a = (zoom - 1j) / d, -zoom / d
    return torch.stack([u, *((u - 1) * a**t for t in range(1, iterations + 1)), -(a ** (iterations + 1))])


@pytest.mark.parametrize("zoom", ZOOMS)
@pytest.mark.parametrize("iterations", [1, 2, 11])
def test_coefficients(zoom: float, iterations: int) -> None:
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    found, truth = coefficients(h, iterations), by_complex_numbers(h, iterations)
    truth = torch.stack([truth.real, truth.imag])
    assert_near(found, truth, 1e-13)
    direction = numbers(*found.shape)
    one, two = (torch.autograd.grad((table * direction).sum(), h)[0] for table in (found, truth))
    assert_near(one, two, 1e-12)


@pytest.mark.parametrize("zoom", [0.0, -1e-9, 1e-9])
def test_coefficients_are_smooth_where_the_zoom_is_zero(zoom: float) -> None:
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    assert_near(coefficients(h, 3)[:, 0], [-1.0, -2 * zoom], 1e-12)
    assert torch.autograd.gradcheck(lambda h: coefficients(h, 3), (h,))
    assert torch.autograd.gradgradcheck(lambda h: coefficients(h, 3), (h,))


def test_coefficients_of_many_zooms_and_of_narrow_ones() -> None:
    zooms = torch.tensor(ZOOMS)
    many = torch.vmap(lambda h: coefficients(h, 4))(zooms)
    assert many.dtype == torch.float64
    assert_near(many, torch.stack([coefficients(h, 4) for h in zooms.double()]), 1e-7)


def operator_of(graph: Graph) -> tuple[GraphOperator, Tensor]:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), "laplacian")
    return op, torch.from_numpy(oracles.operator(graph.dense(), "laplacian"))


def assert_form(form: Transform, laplacian: Tensor, zoom: Tensor, iterations: int) -> None:
    """Values and gradients of all ways to ask."""
    nodes = len(laplacian)
    y, x = numbers(nodes, 2, 2, 3, seed=1).requires_grad_(), numbers(nodes, 2, 3, seed=2).requires_grad_()

    def truth(y: Tensor) -> Tensor:
        z = jacobi(laplacian, zoom, iterations, torch.complex(y[:, 0], y[:, 1]).flatten(1)).view(nodes, 2, 3)
        return torch.stack([z.real, z.imag], 1)

    complex_x = torch.stack([x, torch.zeros_like(x)], 1)
    pairs = [
        (form(y), truth(y), y),
        (form.real_part(y), truth(y)[:, 0], y),
        (form.of_real(x), truth(complex_x), x),
        (torch.stack(form.parts(x, 2), 1), torch.cat([truth(complex_x), truth(truth(complex_x))], 1), x),
    ]
    for found, expected, signal in pairs:
        assert_near(found, expected)
        direction = numbers(*found.shape, seed=3)
        grads = [
            torch.autograd.grad((out * direction).sum(), [signal, zoom], retain_graph=True) for out in (found, expected)
        ]
        for one, two in zip(*grads, strict=True):
            assert_near(one, two)


@settings(max_examples=20)
@given(graph=graphs(), zoom=st.sampled_from([-2.0, -0.1, 0.05, 1.0, 3.0]), iterations=st.integers(1, 4))
def test_all_forms_are_the_iterations(graph: Graph, zoom: float, iterations: int) -> None:
    for subject in (graph, without_loops(graph)):
        op, laplacian = operator_of(subject)
        has_loops = bool((subject.source == subject.target).any())
        assert op.unit_diagonal == (not has_loops)
        assert isinstance(transform(op, torch.tensor(zoom), iterations), Jacobi if has_loops else Polynomial)
        for form in (Jacobi,) if has_loops else (Jacobi, Polynomial, Dense):
            h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
            assert_form(form(op, h, iterations), laplacian, h, iterations)
