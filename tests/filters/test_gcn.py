from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from armagnn.errors import GraphError, ParameterError
from armagnn.filters import Filter, GCNFilter
from armagnn.solvers.eigen import eigh
from filters.filter_checks import Array, FilterChecks
from oracles import assert_near, numbers, random_graph


class TestGCN(FilterChecks):
    kind = "gcn"
    refused = ("laplacian", "adjacency", "arma")

    def make(self, *parameters: Tensor) -> Filter:
        return GCNFilter(gamma=1.0, T=3)

    def truth(self, eigenvalues: Array) -> Array:
        return eigenvalues**3


class TestWithoutLoopsItActsOnTheArmaOperator(FilterChecks):
    def make(self, *parameters: Tensor) -> Filter:
        return GCNFilter(gamma=0.0, T=2)

    def truth(self, eigenvalues: Array) -> Array:
        return eigenvalues**2


def test_on_a_regular_graph_the_response_is_known_in_the_arma_operators_mu() -> None:
    n, gamma, T = 9, 2.5, 3
    ring = torch.arange(n)
    edges = torch.stack([torch.cat([ring, (ring + 1) % n]), torch.cat([(ring + 1) % n, ring])])
    f = GCNFilter(gamma, T)
    op = f.operator(edges, n).to(torch.float64)
    mu, U = eigh(GCNFilter(0.0).operator(edges, n).to(torch.float64))
    x = numbers(n, 2)
    assert_near(f.filter(op, x), (U * f.on_regular(mu, degree=2)) @ U.T @ x, 1e-6)


def test_loops_turn_it_into_a_low_pass() -> None:
    ends = torch.tensor([-1.0, 1.0])
    assert torch.equal(GCNFilter(0.0, 1).on_regular(ends, 3), torch.tensor([-1.0, 1.0]))  # both ends, one negative
    assert torch.equal(GCNFilter(0.0, 2).on_regular(ends, 3), torch.tensor([1.0, 1.0]))
    high = [float(GCNFilter(gamma, 2).on_regular(ends, 3)[0]) for gamma in (0.0, 0.5, 1.0, 2.0, 3.0)]
    assert (np.diff(high) < 0).all()
    assert high[-1] == 0.0


def test_the_arma_operator_is_refused_because_of_the_loops() -> None:
    graph = random_graph(6, 9).both_ways()
    op = GCNFilter(0.0).operator(graph.edge_index, 6)
    op.kind = "arma"
    with pytest.raises(GraphError, match="gamma"):
        GCNFilter(1.0).filter(op, numbers(6, 2, dtype=torch.float32))


@pytest.mark.parametrize("options", [{"gamma": -1.0}, {"gamma": float("nan")}, {"gamma": True}, {"T": 0}, {"T": 1.5}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(options))):
        GCNFilter(**options)


def test_a_bad_degree_is_refused() -> None:
    with pytest.raises(ParameterError, match="degree"):
        GCNFilter().on_regular(torch.ones(1), 0)
