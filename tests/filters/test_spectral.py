from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import DTypeError, GraphError, ParameterError, UnknownNameError
from armagnn.filters import Filter, SpectralFilter
from filters.filter_checks import Array, FilterChecks
from oracles import numbers, random_graph

WIDTH = torch.tensor(1.3, dtype=torch.float64)


class TestAFunctionWithParameters(FilterChecks):
    parameters: ClassVar = [WIDTH]

    def make(self, *parameters: Tensor) -> Filter:
        (width,) = parameters
        return SpectralFilter(lambda mu: torch.cos(width.to(mu) * mu) + mu)

    def truth(self, eigenvalues: Array) -> Array:
        return np.cos(1.3 * eigenvalues) + eigenvalues


def _step(mu: float) -> float:
    return math.exp(mu) if mu > 0.1 else 0.25


@pytest.mark.parametrize(
    ("h", "expected"),
    [
        (_step, lambda mu: np.where(mu > 0.1, np.exp(mu), 0.25)),
        (np.tanh, np.tanh),
        (lambda mu: 0.5, lambda mu: np.full_like(mu, 0.5)),
        ("heat", lambda mu: np.exp(-5 * (1 - mu))),
        (([-1.0, 1.0], [3.0, 1.0]), lambda mu: 2 - mu),
    ],
    ids=["of a number", "of an array", "constant", "name", "samples"],
)
@pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of torch, for numpy's functions
def test_any_way_to_say_a_response(h: Any, expected: Any) -> None:
    mu = np.linspace(-1, 1, 23)
    np.testing.assert_allclose(SpectralFilter(h).response(mu), expected(mu), atol=1e-12)
    assert SpectralFilter(h).response(torch.from_numpy(mu)).dtype == torch.float64


@pytest.mark.parametrize("h", [None, 3.0, [1.0, 2.0, 3.0]])
def test_what_is_no_response_is_refused(h: Any) -> None:
    with pytest.raises(DTypeError, match="target is"):
        SpectralFilter(h)


def test_unknown_names_and_complex_responses_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="low-pass"):
        SpectralFilter("lowpass")
    with pytest.raises(DTypeError, match="real"):
        SpectralFilter(lambda mu: torch.complex(mu, mu)).response(torch.ones(2))
    with pytest.raises(DTypeError, match="real"):
        SpectralFilter(lambda mu: "high").response(torch.ones(2))


def test_gradients_of_the_operators_values_are_not_lost_silently() -> None:
    graph = random_graph(6, 9).both_ways()
    op = GraphOperator.from_edge_index(graph.edge_index, 6, graph.edge_weight().requires_grad_())
    with pytest.raises(GraphError, match="detach"):
        SpectralFilter("heat").filter(op, numbers(6, 2))
    assert SpectralFilter("heat").filter(op.detach(), numbers(6, 2)).shape == (6, 2)


EDGE = torch.tensor([[0, 1], [1, 0]])


def test_an_infinite_response_is_refused() -> None:
    op = GraphOperator.from_edge_index(EDGE, num_nodes=3, dtype=torch.float64)  # an isolated node: mu = 0
    with pytest.raises(ParameterError, match="not finite"):
        SpectralFilter(lambda mu: 1 / mu).filter(op, torch.ones(3, dtype=torch.float64))
