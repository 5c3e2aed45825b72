"""Sums and multiples of filters: what they are made of, where they act, how they are shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import GraphError, ParameterError
from armagnn.filters import ARMAFilter, GCNFilter, PolynomialFilter
from armagnn.filters.combination import CombinedFilter
from oracles import assert_near

OP = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), dtype=torch.float64)
F, G = ARMAFilter([0.5], [0.5]), PolynomialFilter([1.0, 2.0])


def test_sums_within_sums_are_dissolved() -> None:
    combined = 2 * (F - 3 * G) + G
    assert isinstance(combined, CombinedFilter)
    assert [factor for factor, _ in combined.terms] == [2, -6, 1]
    np.testing.assert_allclose(combined([0.3]), 2 * F([0.3]) - 5 * G([0.3]))


def test_a_term_without_the_method_is_exact_and_takes_its_own_options() -> None:
    combined, x = F + G, torch.rand(3, 2, dtype=torch.float64)
    assert combined.methods["recursion"] == ("tol", "max_iter", "statistics")
    assert_near(combined.filter(OP, x, "recursion", tol=1e-10), combined.filter(OP, x, "eigen"), 1e-8)


def test_it_acts_where_all_terms_do() -> None:
    with pytest.raises(GraphError, match="kind 'arma'"):
        (G + GCNFilter(1.0)).filter(OP, torch.ones(3, 1, dtype=torch.float64))
    nowhere = PolynomialFilter([1.0])
    nowhere.kinds = ("arma",)  # type: ignore[misc]
    with pytest.raises(ParameterError, match="no operator suits"):
        nowhere + GCNFilter(1.0)


def test_factors_may_be_learned_and_signs_are_shown() -> None:
    factor = torch.tensor(-2.0, requires_grad=True)
    combined = factor * G - G
    combined.response(torch.tensor([0.5])).sum().backward()
    assert factor.grad is not None
    assert float(factor.grad) == 2.0
    assert repr(combined) == "-2 × PolynomialFilter([1, 2]) - 1 × PolynomialFilter([1, 2])"
    assert G.__add__(3) is NotImplemented  # type: ignore[arg-type]
    assert G.__mul__("a") is NotImplemented  # type: ignore[arg-type]
