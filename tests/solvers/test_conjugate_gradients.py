from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from armagnn import GraphOperator
from armagnn.solvers.conjugate_gradients import conjugate_gradients, polynomial, solve_polynomial
from oracles import Graph, assert_near, numbers, random_graph
from strategies import undirected


def matrix(eigenvalues: list[float], seed: int = 0) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    n = len(eigenvalues)
    q, _ = torch.linalg.qr(numbers(n, n, seed=seed))
    return q @ torch.diag(torch.tensor(eigenvalues, dtype=torch.float64)) @ q.T


def operator(graph: Graph) -> GraphOperator:
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight())


@pytest.mark.parametrize("condition", [1.0, 1e2, 1e5])
def test_a_definite_system(condition: float) -> None:
    a, y = matrix(torch.logspace(0, 1, 30, condition).tolist()), numbers(30, 4)
    z, statistics = conjugate_gradients(lambda p: a @ p, y)
    assert_near(z, torch.linalg.solve(a, y), 1e-9)
    assert statistics.converged
    assert not statistics.squared
    assert statistics.residual < 1e-11
    assert len(statistics.history) == statistics.iterations


def test_as_many_steps_as_different_eigenvalues() -> None:
    a = matrix([1.0] * 5 + [2.0] * 5 + [7.0] * 5)
    _, statistics = conjugate_gradients(lambda p: a @ p, numbers(15, 2))
    assert statistics.iterations == 3


def test_an_indefinite_system_is_squared() -> None:
    a, y = matrix([-3.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0]), numbers(7, 3)
    z, statistics = conjugate_gradients(lambda p: a @ p, y)
    assert statistics.squared
    assert statistics.converged
    assert_near(z, torch.linalg.solve(a, y), 1e-9)
    residual = (a @ z - y).norm(dim=0) / y.norm(dim=0)
    assert statistics.residual == pytest.approx(float(residual.max()), abs=1e-13)


@pytest.mark.parametrize("eigenvalues", [[-1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0], [1e-17, 1.0, 2.0, 3.0]])
@pytest.mark.parametrize("seed", range(8))  # zero is a small number of either sign, as the rounding has it
def test_a_singular_system_is_not_called_solved(eigenvalues: list[float], seed: int) -> None:
    a = matrix(eigenvalues, seed)
    _, statistics = conjugate_gradients(lambda p: a @ p, numbers(4, 1), max_iter=200)
    assert not statistics.converged
    assert statistics.residual > 0.01


def test_columns_do_not_disturb_each_other() -> None:
    a, y = matrix([1.0, 2.0, 5.0, 9.0]), numbers(4, 5)
    y[:, 1] = 0
    y[:, 2] *= 1e-200
    y[:, 3] *= 1e100
    y[2, 4] = torch.inf
    z, statistics = conjugate_gradients(lambda p: a @ p, y)
    truth = torch.linalg.solve(a, y)
    assert statistics.converged
    assert torch.equal(z[:, 1], torch.zeros(4).double())
    for column in (0, 2, 3):
        scale = truth[:, column].abs().max()
        assert_near(z[:, column] / scale, truth[:, column] / scale, 1e-10)
    assert z[:, 4].isnan().all()
    assert torch.isfinite(z[:, :4]).all()


def test_tolerance_and_limit() -> None:
    a, y = matrix(torch.logspace(0, 3, 60).tolist()), numbers(60, 1)
    loose, tight = (conjugate_gradients(lambda p: a @ p, y, tol)[1] for tol in (1e-2, 1e-8))
    assert loose.iterations < tight.iterations
    assert loose.residual <= 1e-2
    _, short = conjugate_gradients(lambda p: a @ p, y, max_iter=4)
    assert not short.converged
    assert short.iterations == 4
    with pytest.warns(RuntimeWarning, match="here stopped after 4 iterations .*: do more"):
        short._warn("here", "do more")


def test_what_rounding_allows_is_enough() -> None:
    a, y = matrix(torch.logspace(0, 8, 40).tolist()), numbers(40, 2)
    z, statistics = conjugate_gradients(lambda p: a @ p, y, tol=1e-15)
    assert statistics.converged  # it stops in time although no residual can be that small
    assert statistics.iterations < 10_000
    assert float((a @ z - y).norm() / y.norm()) < 1e-6


def test_float32() -> None:
    a, y = matrix(torch.linspace(1, 50, 30).tolist()), numbers(30, 2)
    z, statistics = conjugate_gradients(lambda p: a.float() @ p, y.float())
    assert z.dtype == torch.float32
    assert statistics.converged
    assert_near(z, torch.linalg.solve(a, y), 1e-4)


def test_where_rounding_takes_over_a_column_keeps_what_was_sound() -> None:
    """The squares of the residuals overflow; zero is the last sound answer, and its residual is 1."""
    a, y = 1e19 * matrix([-1.0, 1e-25, 1.0, 2.0]).float(), torch.eye(4)[:, :2]
    wild = torch.tensor([1.0, 1e30])
    z, statistics = conjugate_gradients(lambda p: wild * (a @ p), y)
    assert torch.isfinite(z).all()
    assert not statistics.converged
    assert 0 < statistics.residual <= 1


def test_no_columns_and_no_rows() -> None:
    for shape in ((3, 0), (0, 2), (0, 0)):
        z, statistics = conjugate_gradients(lambda p: p, torch.empty(shape, dtype=torch.float64))
        assert z.shape == shape
        assert statistics.converged


# ------------------------------------------------------------------------------------------------------- polynomials


@settings(max_examples=20)
@given(undirected(), st.integers(1, 3), st.integers(0, 99))
def test_polynomials_of_any_operator(graph: Graph, degree: int, seed: int) -> None:
    op = operator(graph)
    c = 0.2 * numbers(degree + 1, 2, seed=seed).clamp(-1, 1)
    c[0] = 1.0  # positive on [-1, 1]
    y = numbers(graph.num_nodes, 2, seed=seed + 1)
    dense = op.to_dense()
    truth = torch.stack(
        [sum(c[k, j] * torch.linalg.matrix_power(dense, k) for k in range(degree + 1)) for j in range(2)]
    )
    assert_near(polynomial(op, c, y), torch.einsum("jnm,mj->nj", truth, y))
    z, statistics = solve_polynomial(op, c, y)
    assert statistics.converged
    assert_near(z, torch.linalg.solve(truth, y.T.unsqueeze(-1)).squeeze(-1).T, 1e-9)


def test_gradients_of_first_and_second_order() -> None:
    op = operator(random_graph(5, 9).both_ways())
    c = torch.tensor([[1.2, 1.0], [-0.5, 0.3], [0.2, 0.4]], dtype=torch.float64, requires_grad=True)
    y = numbers(5, 2).requires_grad_()
    assert gradcheck(lambda c, y: solve_polynomial(op, c, y)[0], (c, y))
    assert gradgradcheck(lambda c, y: solve_polynomial(op, c, y)[0], (c, y), fast_mode=True)


def test_too_few_steps_are_told() -> None:
    op = operator(random_graph(40, 100).both_ways())
    c = torch.tensor([[1.0], [-0.99]], dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="conjugate gradients stopped after 2"):
        solve_polynomial(op, c, numbers(40, 1), max_iter=2)
