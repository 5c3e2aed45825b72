"""The Cayley transform against complex numbers, and against Jacobi's iterations in complex dense matrices."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracles
from armagnn import GraphOperator
from armagnn.nn.cayley_transform import Jacobi, coefficients, responses
from nn.cayley_oracle import jacobi
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


@pytest.mark.parametrize("zoom", ZOOMS)
@pytest.mark.parametrize(("iterations", "order"), [(1, 1), (2, 3), (4, 4), (11, 12)])
def test_responses(zoom: float, iterations: int, order: int) -> None:
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    e = torch.linspace(-1, 1, 7, dtype=torch.float64)
    p = sum(gamma * e**t for t, gamma in enumerate(by_complex_numbers(h, iterations)))
    powers = [p**j for j in range(1, order + 1)]  # type: ignore[operator]
    truth = torch.stack([torch.ones_like(e), *(part for z in powers for part in (2 * z.real, -2 * z.imag))], 1)
    found = responses(h, iterations, order, e)
    assert_near(found, truth, 1e-12)
    direction = numbers(*found.shape)
    one, two = (torch.autograd.grad((table * direction).sum(), h)[0] for table in (found, truth))
    assert_near(one, two, 1e-11)


def test_responses_of_many_zooms() -> None:
    zooms, e = torch.tensor(ZOOMS, dtype=torch.float64), torch.linspace(-1, 1, 4, dtype=torch.float64)
    many = torch.vmap(lambda h: responses(h, 3, 2, e))(zooms)
    assert_near(many, torch.stack([responses(h, 3, 2, e) for h in zooms]), 1e-14)


@settings(max_examples=20)
@given(graph=graphs(), zoom=st.sampled_from([-2.0, -0.1, 0.05, 1.0, 3.0]), iterations=st.integers(1, 4))
def test_the_iterations(graph: Graph, zoom: float, iterations: int) -> None:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), "laplacian")
    laplacian = torch.from_numpy(oracles.operator(graph.dense(), "laplacian"))
    h = torch.tensor(zoom, dtype=torch.float64, requires_grad=True)
    y = numbers(graph.num_nodes, 2, 3, 2, seed=1).requires_grad_()
    z = jacobi(laplacian, h, iterations, torch.complex(*y.unbind(3)).flatten(1)).view(-1, 2, 3)
    found, expected = Jacobi(op, h, iterations)(y), torch.stack([z.real, z.imag], 3)
    assert_near(found, expected)
    direction = numbers(*found.shape, seed=3)
    grads = [torch.autograd.grad((out * direction).sum(), [y, h]) for out in (found, expected)]
    for one, two in zip(*grads, strict=True):
        assert_near(one, two)
