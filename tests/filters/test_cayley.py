from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError
from armagnn.filters import CayleyFilter, Filter
from armagnn.solvers import Statistics
from filters.filter_checks import Array, FilterChecks
from oracles import numbers, random_graph

W = torch.tensor([0.4, 0.3 - 0.2j, -0.1 + 0.5j, 0.2j], dtype=torch.complex128)
ZOOM = torch.tensor(1.7, dtype=torch.float64)


class TestCayley(FilterChecks):
    refused = ("adjacency",)
    parameters: ClassVar = [W[:1].real, W[1:], ZOOM]

    def make(self, *parameters: Tensor) -> Filter:
        first, rest, zoom = parameters
        return CayleyFilter(torch.cat([first.to(rest.dtype), rest]), zoom)

    def truth(self, eigenvalues: Array) -> Array:
        zl = 1.7 * (1 - eigenvalues)
        transform = (zl + 1j) / (zl - 1j)
        return 0.4 + 2 * sum(W[k].item() * transform**k for k in range(1, 4)).real  # type: ignore[union-attr]


class TestOnTheLaplacian(TestCayley):
    """Eq. 17 as it is written."""

    kind = "laplacian"

    def truth(self, eigenvalues: Array) -> Array:
        return super().truth(1 - eigenvalues)


class TestRealWeights(FilterChecks):
    refused = ("adjacency",)
    kind = "gcn"
    parameters: ClassVar = [torch.tensor([0.3, -0.4], dtype=torch.float64)]

    def make(self, *parameters: Tensor) -> Filter:
        return CayleyFilter(*parameters)

    def truth(self, eigenvalues: Array) -> Array:
        lam = 1 - eigenvalues
        return 0.3 - 0.8 * ((lam**2 - 1) / (lam**2 + 1))


def test_statistics_of_every_power() -> None:
    graph = random_graph(30, 80).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 30, graph.edge_weight())
    how: list[Statistics] = []
    CayleyFilter(W).filter(op, numbers(30, 2), tol=1e-3, statistics=how)
    assert len(how) == 3
    assert all(s.converged and s.residual <= 1e-3 for s in how)


def test_w0_alone() -> None:
    np.testing.assert_allclose(CayleyFilter([0.7]).response([-1.0, 1.0]), 0.7)


@pytest.mark.parametrize("zoom", [1e3, 1e5, 2.0**31, 1e15])
def test_a_zoom_beyond_the_digits_of_float32_warns_and_gives_numbers(zoom: float) -> None:
    graph = random_graph(30, 80, seed=1).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 30)
    how: list[Statistics] = []
    with pytest.warns(RuntimeWarning, match="conjugate gradients stopped"):
        y = CayleyFilter([0.5, 0.2, 0.1], zoom).filter(op, numbers(30, 2).float(), statistics=how)
    assert torch.isfinite(y).all()
    assert max(s.residual for s in how) <= 1 + 1e-6  # no worse than zero


def test_a_zoom_whose_square_is_no_float32_is_refused() -> None:
    graph = random_graph(6, 9).both_ways()
    op, x = GraphOperator.from_edge_index(graph.edge_index, 6), numbers(6, 2)
    with pytest.raises(ParameterError, match=r"zoom = 1e\+20: its square is too large for torch.float32"):
        CayleyFilter(W, 1e20).filter(op, x.float())
    assert torch.isfinite(CayleyFilter(W, 1e20).filter(op, x.float(), "eigen")).all()


def test_learned_values_are_refused() -> None:
    graph = random_graph(6, 9).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight().requires_grad_())
    with pytest.raises(GraphError, match="detach"):
        CayleyFilter(W).filter(op, numbers(6, 2))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([1j, 1.0],), ParameterError),
        (([1.0, 1.0], 0.0), ParameterError),
        (([1.0, 1.0], float("nan")), ParameterError),
        (([1.0, 1.0], torch.ones(2)), ShapeError),
        (([1.0, 1.0], 1j), ParameterError),
        (([1.0, 1.0], torch.tensor(1)), DTypeError),
    ],
    ids=["w0", "zero zoom", "nan zoom", "two zooms", "complex zoom", "integer zoom"],
)
def test_bad_options_are_refused(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"w_0|zoom"):
        CayleyFilter(*arguments)
