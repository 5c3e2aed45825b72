from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import GraphError, ParameterError, SymmetryError
from armagnn.filters.chebyshev import jackson_damping
from armagnn.spectral import spectral_density
from oracles import assert_near, random_graph

mpl.use("Agg")


def operator(nodes: int = 400, kind: Any = "arma", **options: Any) -> GraphOperator:
    graph = random_graph(nodes, 3 * nodes, seed=1, lone=nodes // 8).both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, nodes, graph.edge_weight(), kind, **options)


@pytest.mark.parametrize("kind", ["arma", "gcn", "laplacian"])
@pytest.mark.parametrize("moments", [2, 7, 30])
def test_the_moments_are_those_of_the_eigenvalues(kind: str, moments: int) -> None:
    op = operator(kind=kind)
    t = torch.linalg.eigvalsh(op.to_dense()) - (1.0 if kind == "laplacian" else 0.0)
    exact = torch.cos(torch.arange(moments).unsqueeze(1) * torch.acos(t.clamp(-1, 1))).mean(1)
    ours = spectral_density(op, moments, probes=200).moments / jackson_damping(moments)
    assert float((ours - exact).abs().max()) < 4 / (400 * 200) ** 0.5
    assert ours[0] == 1.0


@pytest.mark.parametrize("kind", ["arma", "laplacian"])
def test_the_density_is_positive_and_integrates_to_its_counts(kind: str) -> None:
    density = spectral_density(operator(kind=kind), moments=40)
    mu = torch.linspace(density.low, density.high, 20_001, dtype=torch.float64)[1:-1]
    height = density(mu)
    assert (height >= 0).all()
    assert float(torch.trapezoid(height, mu)) == pytest.approx(1.0, abs=0.02)
    middle = (density.low + density.high) / 2 + 0.3
    below = torch.trapezoid(torch.where(mu <= middle, height, 0.0), mu)
    assert float(density.count(torch.tensor(middle))) == pytest.approx(float(below), abs=0.02)
    assert density(torch.tensor([density.low - 0.1, density.high + 0.1])).tolist() == [0.0, 0.0]
    ends = density.count(torch.tensor([density.low, density.high]))
    assert_near(ends, torch.tensor([0.0, 1.0]), 1e-9)


def test_counts_follow_the_true_ones() -> None:
    op = operator()
    density = spectral_density(op, moments=200, probes=50)
    eigenvalues = torch.linalg.eigvalsh(op.to_dense())
    mu = torch.tensor([-0.6, -0.3, 0.3, 0.6], dtype=torch.float64)  # lone nodes make a step at 0
    truth = (eigenvalues.unsqueeze(1) <= mu).double().mean(0)
    assert float((density.count(mu) - truth).abs().max()) < 0.03


def test_the_seed_decides() -> None:
    op = operator()
    one, two, other = (spectral_density(op, 20, seed=s).moments for s in (0, 0, 1))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_plot() -> None:
    import matplotlib.pyplot as plt

    density = spectral_density(operator(), 20)
    ax = density.plot(label="mine")
    (line,) = ax.lines
    np.testing.assert_allclose(line.get_ydata(), density(1 - torch.from_numpy(line.get_xdata())))
    assert density.plot(ax=ax) is ax
    plt.close(ax.figure)


def test_bad_input_is_refused() -> None:
    op = operator(40)
    with pytest.raises(SymmetryError, match="symmetric"):
        spectral_density(GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3))
    with pytest.raises(GraphError, match="no nodes"):
        spectral_density(GraphOperator.from_edge_index(torch.empty(2, 0, dtype=torch.int64), 0))
    with pytest.raises(GraphError, match="adjacency"):
        spectral_density(operator(40, "adjacency"))
    with pytest.raises(GraphError, match="beyond"):
        spectral_density(GraphOperator(op.rowptr, op.col, 3 * op.value, op.shape, kind="arma", symmetric=True))
    for options in ({"moments": 1}, {"moments": 2.5}, {"probes": 0}, {"probes": True}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            spectral_density(op, **options)  # type: ignore[arg-type]
