"""Pictures of responses: the right heights at the right lambda, with marks, target and legend."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, ParameterError
from armagnn.filters import ARMAFilter, PolynomialFilter
from armagnn.filters.drawing import draw, small_curve
from armagnn.nn import RationalConv
from armagnn.operators import ring
from armagnn.spectral import spectral_density, spectrum

mpl.use("Agg")

F = ARMAFilter([0.8], [0.2])


def curve(ax: Any, place: int = 0) -> tuple[Any, Any]:
    return np.asarray(ax.lines[place].get_xdata()), np.asarray(ax.lines[place].get_ydata())


def test_low_frequencies_are_on_the_left() -> None:
    ax = F.plot()
    x, y = curve(ax)
    np.testing.assert_allclose((x[0], x[-1]), (0.0, 2.0))
    np.testing.assert_allclose(y, F.response(1 - x))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("λ = 1 − μ", "h(λ)")
    assert ax.get_legend() is None


def test_frequencies_of_a_graph_are_marked_on_the_curve() -> None:
    mu = spectrum(ring(9)[0])[0]
    x, y = curve(F.plot(mu=mu), 1)
    np.testing.assert_allclose(x, 1 - mu)
    np.testing.assert_allclose(y, F.response(mu))


def test_label_and_target_make_a_legend() -> None:
    ax = F.plot(label="mine", color="red")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mine"]
    ax = F.plot(target="low-pass", label="mine")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["target", "mine"]
    x, y = curve(ax)
    np.testing.assert_array_equal(y, (x <= 1.0).astype(float))
    assert len(ARMAFilter([0.5], [0.5]).plot(ax, label="other").lines) == 3  # into the same picture


@pytest.mark.parametrize("target", [lambda mu: mu**2, ([-1.0, 0.0, 1.0], [1.0, 0.0, 1.0])])
def test_a_target_is_a_function_of_mu(target: Any) -> None:
    x, y = curve(F.plot(target=target))
    wanted = (1 - x) ** 2 if callable(target) else np.abs(1 - x)
    np.testing.assert_allclose(y, wanted, atol=1e-12)


@pytest.mark.parametrize("variable", ["mu", "lambda"])
def test_an_operator_with_a_shift_has_its_own_axis(variable: Any) -> None:
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    op = GraphOperator.from_edge_index(edges, lambda_max=1.5, dtype=torch.float64)  # M = 0.75 I - L
    f = PolynomialFilter([1.0, 2.0], variable=variable)
    bound, mu = f.bind(op), spectrum(op)[0]
    ax = bound.plot(mu=mu, target=lambda m: m)
    assert ax.get_xlabel() == "λ = 0.75 − μ"
    (x, goal), (_, y), (marks, heights) = (curve(ax, place) for place in range(3))
    np.testing.assert_allclose(y, 1 + 2 * x if variable == "lambda" else 1 + 2 * (0.75 - x), atol=1e-12)
    np.testing.assert_allclose(goal, 1 - x if variable == "lambda" else 0.75 - x, atol=1e-12)
    np.testing.assert_allclose(marks, 0.75 - mu)
    np.testing.assert_allclose(heights, bound.response(mu))


def test_a_laplacian_is_drawn_over_its_eigenvalues() -> None:
    op = ring(6, kind="laplacian")[0]
    ax = PolynomialFilter([1.0, 2.0], variable="lambda").bind(op).plot(target=lambda mu: mu)
    (x, goal), (_, y) = curve(ax), curve(ax, 1)
    np.testing.assert_allclose(y, 1 + 2 * x)
    np.testing.assert_allclose(goal, 1 - x)
    assert ax.get_xlabel() == "λ"


def test_densities_are_drawn_over_lambda() -> None:
    for kind, name in (("arma", "λ = 1 − μ"), ("laplacian", "λ")):
        op = ring(50, kind=kind)[0]
        density = spectral_density(op, moments=10)
        x, y = curve(density.plot(label="ring"))
        at = torch.from_numpy(x if kind == "laplacian" else 1 - x)
        np.testing.assert_allclose(y, density(at), atol=1e-12)
        assert density.plot().get_xlabel() == name


@pytest.mark.parametrize("options", [{"target": "low"}, {"label": "a", "colour": 3}, {"ax": 3}, {"target": 5}])
def test_what_cannot_be_drawn_is_a_typed_error(options: dict[str, Any]) -> None:
    with pytest.raises(ArmagnnError):
        F.plot(**options)
    with pytest.raises(ParameterError, match="style"):
        draw(lambda mu: mu, shape="round")


def test_notebooks_show_filters_and_layers() -> None:
    assert "ARMAFilter" in F._repr_html_()
    assert "a=[0.8], b=[0.2]" in F._repr_html_()
    assert "<svg" in small_curve(F.response)
    assert small_curve(lambda mu: mu * np.nan) == ""
    assert "response from 1 at lambda = 0 over 0.2 at 1 to 0.111 at 2" in F._repr_html_()
    both = F.bind(ring(7)[0])._repr_html_()
    assert "ARMAFilter" in both
    assert "7 nodes" in both
    layer = RationalConv(3, 4, groups=2)._repr_html_()
    assert layer.count("<svg") == 2
    assert "3 → 4" in layer
