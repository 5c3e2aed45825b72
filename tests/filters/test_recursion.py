"""The residual of the recursion bounds the error, in every type and near |a| = 1; what it cannot reach it says."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.errors import ConvergenceWarning
from armagnn.filters import ARMAFilter
from armagnn.solvers import Statistics
from oracles import numbers, random_graph


def ring(nodes: int, dtype: torch.dtype) -> GraphOperator:
    count = torch.arange(nodes)
    edges = torch.stack([torch.cat([count, (count + 1) % nodes]), torch.cat([(count + 1) % nodes, count])])
    return GraphOperator.from_edge_index(edges, nodes, dtype=dtype)


def scattered(dtype: torch.dtype) -> GraphOperator:
    graph = random_graph(40, 120, seed=1).both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, 40, graph.edge_weight(dtype))


def run(op: GraphOperator, a: complex, x: Tensor, **options: float) -> tuple[float, Statistics]:
    """Return the relative error of the recursion against a dense solve in float64, and what it says of itself."""
    log: list[Statistics] = []
    out = ARMAFilter([a], [1.0]).filter(op, x, "recursion", statistics=log, **options)
    matrix = torch.eye(op.num_nodes, dtype=torch.complex128) - a * op.to_dense().to(torch.complex128)
    truth = torch.linalg.solve(matrix, x.to(torch.complex128)).real
    return float(((out.double() - truth).norm(dim=0) / truth.norm(dim=0)).max()), log[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("a", [0.3, 0.5, -0.9, 0.99, 0.999, 0.4 + 0.7j])
@pytest.mark.parametrize("tol", [None, 1e-2, 1e-5])
def test_the_residual_bounds_the_error_and_meets_the_tolerance(
    dtype: torch.dtype, a: complex, tol: float | None
) -> None:
    for op in (ring(30, dtype), scattered(dtype)):
        x = numbers(op.num_nodes, 2, seed=3).to(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            error, own = run(op, a, x, **({} if tol is None else {"tol": tol}))
        assert own.converged
        # of a complex filter the real part is compared, which may be smaller than what the bound is relative to
        assert error <= own.residual * (1 if isinstance(a, float) else 10)
        assert own.residual <= (tol or {torch.float32: 1e-6, torch.float64: 1e-12}[dtype])


def test_float32_near_one_reaches_its_tolerance_or_says_what_it_reached() -> None:
    """With a = 0.9999 it reported convergence within 1e-6 at a relative error of 3e-3."""
    op, x = scattered(torch.float32), torch.ones(40, 1)
    with pytest.warns(
        ConvergenceWarning, match="the recursion stopped after 50000 iterations at a relative error of up to"
    ):
        error, own = run(op, 0.9999, x, max_iter=50_000)
    assert not own.converged
    assert 1e-6 < error <= own.residual
    error, own = run(op, 0.9999, x, max_iter=400_000)
    assert own.converged
    assert error <= own.residual <= 1e-6


def test_a_tolerance_below_rounding_is_not_met() -> None:
    op, x = scattered(torch.float32), torch.ones(40, 1)
    with pytest.warns(ConvergenceWarning, match="relative error of up to"):
        error, own = run(op, 0.5, x, tol=1e-9)
    assert not own.converged
    assert error <= own.residual
    with pytest.warns(ConvergenceWarning, match="relative error of up to"):
        run(op.to(torch.float64), 0.999, x.double(), tol=1e-15)
