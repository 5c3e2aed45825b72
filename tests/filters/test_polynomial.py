from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError, UnknownNameError
from armagnn.filters import Filter, PolynomialFilter
from filters.filter_checks import Array, FilterChecks
from oracles import assert_near, numbers, random_graph

W = torch.tensor([0.4, -1.0, 0.3, 0.8], dtype=torch.float64)


class TestInMu(FilterChecks):
    parameters: ClassVar = [W]

    def make(self, *parameters: Tensor) -> Filter:
        return PolynomialFilter(*parameters)

    def truth(self, eigenvalues: Array) -> Array:
        return np.polynomial.polynomial.polyval(eigenvalues, W.numpy())


class TestInLambda(TestInMu):
    refused = ("adjacency",)

    def make(self, *parameters: Tensor) -> Filter:
        return PolynomialFilter(*parameters, variable="lambda")

    def truth(self, eigenvalues: Array) -> Array:
        return np.polynomial.polynomial.polyval(1 - eigenvalues, W.numpy())


class TestOnTheLaplacian(TestInLambda):
    """Eq. 3 as it is written."""

    kind = "laplacian"

    def truth(self, eigenvalues: Array) -> Array:
        return np.polynomial.polynomial.polyval(eigenvalues, W.numpy())


class TestOnTheGCNOperator(TestInMu):
    kind = "gcn"
    gamma = 2.0


def test_a_laplacian_where_powers_of_mu_are_meant_is_explained() -> None:
    graph = random_graph(6, 9).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight(), "laplacian")
    with pytest.raises(GraphError, match="variable='lambda'"):
        PolynomialFilter([1.0, 2.0]).filter(op, numbers(6, 2))


def test_gradients_reach_the_operators_values() -> None:
    graph = random_graph(6, 9).both_ways()
    weight = graph.edge_weight().requires_grad_()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, weight, "adjacency")
    op.kind = "arma"  # its eigenvalues do not matter to a polynomial
    x = numbers(6, 2)
    (ours,) = torch.autograd.grad(PolynomialFilter([0.0, 0.0, 1.0]).filter(op, x).sum(), weight)
    dense = torch.from_numpy(graph.dense())
    left, right = dense.T @ torch.ones(6, 2).double(), dense @ x  # d(1' A A x)/dA = (A' 1) x' + 1 (A x)'
    expected = (left @ x.T + torch.ones(6, 2).double() @ right.T)[graph.target, graph.source]
    assert_near(ours, expected)


@pytest.mark.parametrize(
    ("w", "error"),
    [
        ([], ShapeError),
        ([[1.0]], ShapeError),
        ([float("nan")], ParameterError),
        ([1j], DTypeError),
        ("ab", DTypeError),
        ([None], DTypeError),
    ],
)
def test_bad_coefficients_are_refused(w: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="w must"):
        PolynomialFilter(w)


def test_an_unknown_variable_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="lambda"):
        PolynomialFilter([1.0], variable="lamda")  # type: ignore[arg-type]
