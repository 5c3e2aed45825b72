"""Every line of the table of docs/guides/from-pygsp.md, run by both libraries; the same numbers where it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.filters import ARMAFilter, ChebyshevFilter, FilterBank, SpectralFilter, targets
from armagnn.operators import grid, knn_graph, ring, sensor
from armagnn.spectral import plot_signal, spectrum

PAGE = Path(__file__).resolve().parents[1] / "docs" / "guides" / "from-pygsp.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="not a checkout: no docs")

NUMBERS = {
    "G.L": 'GraphOperator.from_scipy(W, kind="laplacian").to_dense()',
    "G.e": "1 - mu.flip(0)",
    "G.lmax": "1 - mu[0]",
    "G.igft(G.gft(x))": "U @ (U.T @ x)",
    "G.dirichlet_energy(x)": "X.T @ (X - op @ X)",
    'filters.Filter(G, h).filter(x, method="exact")': 'SpectralFilter(h, variable="lambda").filter(op, x)',
    "filters.Filter(G, h).evaluate(G.e)": 'SpectralFilter(h, variable="lambda").response(1 - G.e)',
    "filters.Heat(G, 5)": "SpectralFilter(targets.heat(5 / lmax))",
    "filters.Rectangular(G, None, 0.3)": "SpectralFilter(targets.low_pass(1 - 0.3 * lmax))",
    "filters.Rectangular(G, 0.3, None)": "SpectralFilter(targets.high_pass(1 - 0.3 * lmax))",
    "filters.Rectangular(G, 0.3, 0.6)": "SpectralFilter(targets.band_pass(1 - 0.6 * lmax, 1 - 0.3 * lmax))",
    'g.localize(7, method="exact")': "N**0.5 * f.filter(op, delta)",
    "learning.regression_tikhonov(G, x, known, tau)": "ARMAFilter([tau / (1 + tau)], [1 / (1 + tau)]).filter(op, x)",
}
"""What has the same numbers in both: a line of the table each."""
NEAR = {"g.filter(x, order=30)": 'ChebyshevFilter.design("heat", order=31).filter(op, x)'}
"""What is the same up to the error of an approximation."""
GRAPHS = {
    "graphs.Graph(W)": "GraphOperator.from_scipy(W)",
    "graphs.Ring(64)": "ring(64)",
    "graphs.Grid2d(5, 7)": "grid(5, 7)",
}
OTHER = {
    "graphs.Sensor(64, seed=42)": "sensor(64, seed=42)",
    "graphs.NNGraph(points, k=6)": 'GraphOperator.from_graph(knn_graph(points, 6, "gaussian"))',
    "G.compute_fourier_basis()": "mu, U = spectrum(op)",
    "filters.Heat(G, [5, 10])": 'FilterBank.of([0.9, 0.5, "low-pass"])',
    "G.plot(x)": "plot_signal(op, x, places)",
    "g.plot()": "f.plot()",
}
"""What has no equal numbers, but the same purpose."""


@pytest.fixture
def names() -> dict[str, Any]:
    """Both libraries and one graph and signal, under the names that the table has."""
    reason = "PyGSP is not installed: pip install --no-deps pygsp"
    filters, graphs, learning = (
        pytest.importorskip(f"pygsp.{room}", reason=reason) for room in ("filters", "graphs", "learning")
    )
    G = graphs.Sensor(64, seed=42)
    G.compute_laplacian("normalized")
    G.compute_fourier_basis()
    op = GraphOperator.from_scipy(G.W, dtype=torch.float64)
    mu, U = spectrum(op)
    lmax, N = float(1 - mu[0]), 64
    rng = np.random.default_rng(0)
    delta = torch.zeros(N, dtype=torch.float64)
    delta[7] = 1
    return {
        "filters": filters,
        "graphs": graphs,
        "learning": learning,
        "G": G,
        "W": G.W,
        "N": N,
        "lmax": lmax,
        "op": op,
        "mu": mu,
        "U": U,
        "delta": delta,
        "tau": 3.0,
        "known": np.ones(N, dtype=bool),
        "np": np,
        "x": rng.standard_normal(N),
        "points": rng.random((40, 2)),
        "h": lambda e: 1 / (1 + 3 * e),
        "g": filters.Heat(G, 5 * G.lmax),
        "f": SpectralFilter("heat"),
        "GraphOperator": GraphOperator,
        "SpectralFilter": SpectralFilter,
        "targets": targets,
        "spectrum": spectrum,
        "ARMAFilter": ARMAFilter,
        "ChebyshevFilter": ChebyshevFilter,
        "FilterBank": FilterBank,
        "ring": ring,
        "grid": grid,
        "sensor": sensor,
        "knn_graph": knn_graph,
        "plot_signal": plot_signal,
    }


def test_the_page_has_these_lines_and_no_others() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    wanted = NUMBERS | NEAR | GRAPHS | OTHER
    for theirs, ours in wanted.items():
        assert any(line.startswith(f"| `{theirs}` | `{ours}`") for line in lines), theirs
    assert len(lines) == len(wanted)


@pytest.mark.parametrize("theirs", NUMBERS)
def test_both_give_the_same_numbers(theirs: str, names: dict[str, Any]) -> None:
    expected, found = (numbers(code, names) for code in (theirs, NUMBERS[theirs]))
    loose = 1e-4 if "learning" in theirs else 1e-10  # their solver stops at 1e-5
    np.testing.assert_allclose(found, expected, atol=1e-6 if found.dtype == np.float32 else loose)


def numbers(code: str, names: dict[str, Any]) -> Any:
    """Run a line with x as an array for them and a tensor for us; a filter is applied to x."""
    ours = code in (*NUMBERS.values(), *NEAR.values())
    x = torch.from_numpy(names["x"]) if ours else names["x"]
    value = eval(code, {**names, "x": x, "X": x[:, None]})
    if isinstance(value, SpectralFilter):
        value = value.filter(names["op"], x)
    elif hasattr(value, "evaluate"):
        value = value.filter(x, method="exact")
    value = value.toarray() if hasattr(value, "toarray") else value
    return np.asarray(value).squeeze()


def test_chebyshev_filters_of_both_are_near_the_exact_one(names: dict[str, Any]) -> None:
    exact = names["g"].filter(names["x"], method="exact")
    for code in (*NEAR, *NEAR.values()):
        np.testing.assert_allclose(numbers(code, names), exact, atol=1e-6)


def test_eigenvectors_are_theirs_in_the_other_order(names: dict[str, Any]) -> None:
    along = names["G"].U.T @ names["U"].flip(1).numpy()
    np.testing.assert_allclose(np.abs(along), np.eye(64), atol=1e-6)


@pytest.mark.parametrize("theirs", GRAPHS)
def test_both_make_the_same_graph(theirs: str, names: dict[str, Any]) -> None:
    graph, op = eval(theirs, names), eval(GRAPHS[theirs], names)
    op = op[0] if isinstance(op, tuple) else op
    expected = GraphOperator.from_scipy(graph.W).to_dense()
    torch.testing.assert_close(op.to_dense(), expected)


def test_places_of_a_grid_lie_as_theirs(names: dict[str, Any]) -> None:
    theirs, ours = names["graphs"].Grid2d(5, 7).coords, grid(5, 7)[1].numpy()
    for axis in (0, 1):
        np.testing.assert_array_equal(np.unique(theirs[:, axis], return_inverse=True)[1], ours[:, axis])


def test_nearest_neighbours_are_theirs(names: dict[str, Any]) -> None:
    """And the weights, where both ask for each other and sigma is theirs: they halve what one end alone asks for."""
    G = names["graphs"].NNGraph(names["points"], k=6, rescale=False, center=False)
    edges, weight = knn_graph(names["points"], 6, "gaussian", sigma=G.sigma**0.5)
    ours = torch.zeros(40, 40).index_put_((edges[1], edges[0]), weight).numpy()
    theirs = G.W.toarray()
    np.testing.assert_array_equal(ours > 0, theirs > 0)
    ratio = theirs[ours > 0] / ours[ours > 0]
    assert np.all(np.isclose(ratio, 1, atol=1e-5) | np.isclose(ratio, 0.5, atol=1e-5))
    assert 0.5 < np.isclose(ratio, 1, atol=1e-5).mean() < 1


@pytest.mark.parametrize("theirs", OTHER)
def test_the_other_lines_run(theirs: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    for code in (theirs, OTHER[theirs]):
        exec(code, {**names, "places": names["G"].coords})
