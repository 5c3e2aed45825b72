from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import GraphError
from armagnn.solvers import shifted_systems as module
from armagnn.solvers.shifted_systems import shifted_systems
from oracles import Graph, assert_near, numbers, random_graph
from strategies import undirected


def matrix(eigenvalues: Tensor, seed: int = 0) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    q, _ = torch.linalg.qr(numbers(len(eigenvalues), len(eigenvalues), seed=seed))
    return q @ torch.diag(eigenvalues.double()) @ q.T


def of_poles(*poles: complex, columns: int = 1) -> Tensor:
    a = torch.tensor([[(1 / complex(p)).real, (1 / complex(p)).imag] for p in poles], dtype=torch.float64)
    return a.unsqueeze(2).repeat(1, 1, columns)


def solved(m: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """The same by dense solves, real and imaginary parts (P, 2, N, C)."""
    eye = torch.eye(len(m), dtype=torch.complex128)
    columns = [
        [torch.linalg.solve(eye - torch.complex(*f[:, c]) * m, y[:, c].to(eye.dtype)) for c in range(y.shape[1])]
        for f in a
    ]
    z = torch.stack([torch.stack(own, 1) for own in columns])
    return torch.stack([z.real, z.imag], 1)


POLES = [(1.5,), (-1.01,), (0.2 + 0.1j,), (1.001, -2.0, 0.05j), (0.5 + 0.5j, 100.0, -0.3 + 0.02j, 1.2 + 1e-3j)]


@pytest.mark.parametrize("poles", POLES)
def test_all_systems_are_those_of_dense_solves(poles: tuple[complex, ...]) -> None:
    m, y = matrix(torch.linspace(-1, 1, 40)), numbers(40, 3)
    a = of_poles(*poles, columns=3)
    z, image, statistics = shifted_systems(lambda x: m @ x, y, a)
    assert_near(z, solved(m, y, a), 1e-9)
    assert_near(image, m @ z, 1e-9)
    assert statistics.converged == [True] * len(poles)
    assert len(statistics.steps) == len(poles)
    assert statistics.residual < 1e-10


def test_each_column_has_its_own_poles() -> None:
    m, y = matrix(torch.linspace(-0.9, 1, 20)), numbers(20, 4)
    a = torch.cat([of_poles(1.1 + k, 0.3 * k + 0.2j) for k in range(4)], 2)
    assert_near(shifted_systems(lambda x: m @ x, y, a)[0], solved(m, y, a), 1e-9)


@settings(max_examples=25, deadline=None)
@given(undirected(max_nodes=12), st.integers(0, 99), st.floats(0.02, 3.0), st.floats(0.0, math.pi))
def test_any_graph_and_any_pole(graph: Graph, seed: int, far: float, angle: float) -> None:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())
    r = math.exp(far)  # the ellipse around [-1, 1] with the axes (r ± 1/r) / 2
    a = of_poles(complex((r + 1 / r) / 2 * math.cos(angle), (r - 1 / r) / 2 * math.sin(angle)), (r + 1 / r) / 2)
    y = numbers(graph.num_nodes, 2, seed=seed)
    a = a.expand(-1, -1, 2)
    z, _, statistics = shifted_systems(lambda x: op @ x, y, a)
    assert all(statistics.converged)
    assert_near(z, solved(op.to_dense(), y, a), 1e-8)


def test_one_product_serves_all_poles() -> None:
    m, y = matrix(torch.linspace(-1, 1, 200)), numbers(200, 2)
    poles = (0.3 + 0.2j, -0.4 + 0.2j, 1.05, 0.2j)
    widths: list[int] = []

    def product(x: Tensor) -> Tensor:
        widths.append(x.shape[1])
        return m @ x

    _, _, together = shifted_systems(product, y, of_poles(*poles, columns=2))
    count, widths[:] = sum(widths), []
    alone = [shifted_systems(product, y, of_poles(pole, columns=2))[2] for pole in poles]
    assert together.steps == [own.steps[0] for own in alone]  # nobody pays for company
    assert count <= 2 * (max(together.steps) + 7)  # and the true residuals: 2 columns of a real system, 4 of others
    assert sum(widths) > 2.5 * count


def test_steps_end_where_the_space_does() -> None:
    m = matrix(torch.tensor([1.0] * 6 + [0.5] * 6 + [-0.7] * 6))
    _, _, statistics = shifted_systems(lambda x: m @ x, numbers(18, 2), of_poles(0.1j, 1.001, columns=2))
    assert statistics.steps == [3, 3]
    assert all(statistics.converged)


@pytest.mark.parametrize("near", [1e-2, 1e-4, 1e-6])
def test_no_pivot_breaks_down_near_the_frequencies(near: float) -> None:
    """An eigenvalue at zero, a symmetric spectrum: the residuals of real systems at 0 would break down."""
    values = torch.linspace(-1, 1, 31)
    m, y, a = matrix(values), numbers(31, 2), of_poles(near * 1j, columns=2)
    z, _, statistics = shifted_systems(lambda x: m @ x, y, a, tol=1e-10)
    assert all(statistics.converged)
    truth = solved(m, y, a)
    assert float((z - truth).norm() / truth.norm()) < 1e-6


def test_drift_is_found_and_mended() -> None:
    """In single precision the recursion's own residual falls below what is true; the true one is reported."""
    values = torch.linspace(-1, 1, 400)
    m, y = matrix(values), numbers(400, 2)
    a = of_poles(0.02j, 0.5 + 0.5j, columns=2)
    z, _, statistics = shifted_systems(lambda x: m.float() @ x, y.float(), a)
    assert all(statistics.converged)
    residual = y.double() - z[0, 0].double() + a[0, 0] * (m @ z[0, 0].double()) - a[0, 1] * (m @ z[0, 1].double())
    assert float((residual.norm(dim=0) / y.norm(dim=0)).max()) < 3e-4  # |a| = 50: its rounding
    truth = solved(m, y, a)
    assert float((z - truth).norm() / truth.norm()) < 1e-4


def test_a_product_that_lies_once_is_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    m, y = matrix(torch.linspace(-0.9, 0.9, 30)), numbers(30, 2)
    calls = [0]

    def product(x: Tensor) -> Tensor:
        calls[0] += 1
        return m @ x + (1e-3 * numbers(*x.shape) if calls[0] == 5 else 0.0)

    a = of_poles(1.2, 0.3j, columns=2)
    z, _, statistics = shifted_systems(product, y, a)
    assert_near(z, solved(m, y, a), 1e-9)
    assert all(statistics.converged)
    monkeypatch.setattr(module, "REFINEMENTS", 0)
    calls[0] = 0
    _, _, statistics = shifted_systems(product, y, a)
    assert statistics.failed == [0, 1]
    assert statistics.residual > 1e-5


def test_too_few_steps_are_not_called_solved() -> None:
    m = matrix(torch.linspace(-1, 1, 60))
    _, _, statistics = shifted_systems(lambda x: m @ x, numbers(60, 1), of_poles(50.0, 0.05j), max_iter=8)
    assert statistics.converged == [True, False]
    assert statistics.steps == [8, 8] or statistics.steps[0] < 8
    assert statistics.residual > 1e-3


def test_an_eigenvalue_beyond_a_real_pole() -> None:
    m = matrix(torch.linspace(-1.5, 1, 20))
    with pytest.raises(GraphError, match=r"\|mu\| = 1.2"):
        shifted_systems(lambda x: m @ x, numbers(20, 1), of_poles(-1.2))
    z, _, _ = shifted_systems(lambda x: m @ x, numbers(20, 1), of_poles(-1.2 + 0.1j))  # a complex one is sound
    assert_near(z, solved(m, numbers(20, 1), of_poles(-1.2 + 0.1j)), 1e-8)


@pytest.mark.parametrize("size", [1e-30, 1e-300, 1e300])
def test_columns_of_any_size(size: float) -> None:
    m, y = matrix(torch.linspace(-1, 1, 12)), numbers(12, 2)
    y[:, 1] *= size
    a = of_poles(0.3j, 1.5, columns=2)
    z, _, _ = shifted_systems(lambda x: m @ x, y, a)
    assert_near(z[..., 1] / size, solved(m, numbers(12, 2), a)[..., 1], 1e-9)


def test_zero_and_numbers_that_are_none() -> None:
    m, y = matrix(torch.linspace(-1, 1, 12)), numbers(12, 4)
    y[:, 0], y[3, 1], y[4, 2] = 0.0, math.nan, math.inf
    a = of_poles(0.3j, 1.5, columns=4)
    z, _, _ = shifted_systems(lambda x: m @ x, y, a)
    assert z[..., 0].abs().max() == 0
    assert z[..., 1:3].isnan().all()
    assert_near(z[..., 3], solved(m, y[:, 3:], a[..., 3:])[..., 0], 1e-9)


@pytest.mark.parametrize("shape", [(0, 2), (5, 0)])
def test_nothing_to_solve(shape: tuple[int, int]) -> None:
    z, _, statistics = shifted_systems(lambda x: x, torch.empty(shape), of_poles(2.0, 0.5j, columns=shape[1]))
    assert z.shape == (2, 2, *shape)
    assert statistics.steps == [0, 0]


def test_the_threads_do_not_change_a_bit() -> None:
    graph = random_graph(3000, 9000, seed=1).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 3000, graph.edge_weight(torch.float32), dtype=torch.float32)
    y, a = numbers(3000, 16).float(), of_poles(0.2j, 1.3, columns=16)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(shifted_systems(lambda x: op @ x, y, a)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)
