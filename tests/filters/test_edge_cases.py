"""Poles, targets and graphs at the edge of what is allowed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import DTypeError, ParameterError, UnknownNameError
from armagnn.filters import ARMAFilter, PolynomialFilter, SpectralFilter
from armagnn.solvers.eigen import extremal

EDGE = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize("power", [2, 3, 4, 5, 6])
def test_poles_of_any_multiplicity_are_refused(power: int) -> None:
    bottom = np.polynomial.polynomial.polypow([1.0, 0.5], power)
    with pytest.raises(ParameterError, match="repeated pole"):
        ARMAFilter.from_rational([1.0], bottom[1:])


def test_poles_far_away_are_told_apart() -> None:
    f = ARMAFilter([1e-5, 5e-5], [1.0, 1.0])
    again = ARMAFilter.from_rational(*f.to_rational("mu"), variable="mu")
    np.testing.assert_allclose(again.response([-1.0, 0.3]), f.response([-1.0, 0.3]), rtol=1e-9)


def test_a_term_is_the_twin_of_one_other_only() -> None:
    z = 0.3 + 0.4j
    f = ARMAFilter([z, z, z.conjugate()], [1.0, 1.0, 1.0])
    p, q = f.to_rational("mu")
    mu = np.linspace(-1, 1, 7)
    top = np.polynomial.polynomial.polyval(mu, p.numpy())
    bottom = np.polynomial.polynomial.polyval(mu, np.concatenate([[1.0], q.numpy()]))
    np.testing.assert_allclose(top / bottom, f.response(mu), rtol=1e-9)


def test_an_infinite_response_is_refused() -> None:
    op = GraphOperator.from_edge_index(EDGE, num_nodes=3, dtype=torch.float64)  # an isolated node: mu = 0
    with pytest.raises(ParameterError, match="not finite"):
        SpectralFilter(lambda mu: 1 / mu).filter(op, torch.ones(3, dtype=torch.float64))


def test_a_large_graph_without_edges_has_extremal_pairs() -> None:
    mu, vectors = extremal(GraphOperator.from_edge_index(EDGE[:, :0], num_nodes=100_000), k=2)
    assert mu.tolist() == [0.0, 0.0]
    assert torch.equal(vectors.T @ vectors, torch.eye(2, dtype=torch.float64))


@pytest.mark.parametrize("size", [1e-200, 1e-8, 1e6, 1e200, 1e300])
def test_a_design_does_not_depend_on_the_size_of_its_target(size: float) -> None:
    f = ARMAFilter.design(lambda mu: size * (mu >= 0).double(), order=4)
    assert f.report is not None
    assert f.report.rms / size == pytest.approx(0.0605, abs=2e-4)


def test_sums_ragged_lists_and_unknown_methods() -> None:
    f, g = ARMAFilter([0.5], [0.5]), PolynomialFilter([0.5, 0.5])
    np.testing.assert_allclose(sum([f, g]).response([0.2]), f.response([0.2]) + g.response([0.2]))  # type: ignore[union-attr]
    with pytest.raises(DTypeError, match="list of numbers"):
        PolynomialFilter([[1.0], [1.0, 2.0]])
    with pytest.raises(UnknownNameError, match="exact"):
        f.bind(GraphOperator.from_edge_index(EDGE), "exactly")
