"""Pictures of responses: what is drawn, and the bytes that are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ArmagnnError, ParameterError, UnknownNameError
from armagnn.operators import ring, sensor
from armagnn.spectral.plot import (
    FORMATS,
    check_format,
    new_figure,
    picture,
    plot_components,
    plot_response,
    plot_signal,
    scatter_response,
)

MU = torch.tensor([0.5, -0.5, 0.0])
H = torch.tensor([1.0, torch.nan, 3.0])


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_a_response_is_drawn_over_lambda_without_silent_frequencies(shift: float) -> None:
    axes = new_figure(4, 3)[1][0, 0]
    plot_response(axes, MU, H, shift=shift, label="h")
    scatter_response(axes, MU, H, shift=shift)
    line, points = axes.lines[0], axes.collections[0].get_offsets()
    np.testing.assert_allclose(line.get_xdata(), [0.5 + shift, 1.0 + shift])
    np.testing.assert_allclose(line.get_ydata(), [1.0, 3.0])
    np.testing.assert_allclose(sorted(points.tolist()), [[0.5 + shift, 1.0], [1.0 + shift, 3.0]])


def test_components_are_root_mean_squares_in_bands() -> None:
    axes = new_figure(4, 3)[1][0, 0]
    plot_components(axes, torch.tensor([0.9, 0.8, -0.9]), torch.tensor([3.0, 4.0, 2.0]), bands=4)
    values, edges, _ = axes.patches[0].get_data()
    np.testing.assert_allclose(values, [12.5**0.5, np.nan, np.nan, 2.0])
    np.testing.assert_allclose(edges, [0.0, 0.5, 1.0, 1.5, 2.0])
    assert axes.get_yscale() == "log"
    with pytest.raises(ParameterError, match="bands"):
        plot_components(axes, MU, MU, bands=0)


@pytest.mark.parametrize(("format", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_has_the_same_bytes_every_time(format: str, start: bytes) -> None:
    made = [picture(new_figure(2, 2)[0], format) for _ in range(2)]
    assert made[0].startswith(start)
    if format != "svg":  # its ids are random
        assert made[0] == made[1]


def test_formats_by_name() -> None:
    assert [check_format(Path(f"a.{format.upper()}")) for format in FORMATS] == list(FORMATS)
    with pytest.raises(ParameterError, match="Name the picture"):
        check_format(Path("a.txt"))
    with pytest.raises(UnknownNameError, match="format"):
        picture(new_figure(2, 2)[0], "gif")


class TestSignalOnAGraph:
    def test_nodes_are_where_and_edges_between_them(self) -> None:
        op, places = sensor(30, seed=2)
        x = torch.arange(30.0)
        figure, axes = new_figure(3, 3)
        ax = plot_signal(op, x, places, axes[0, 0], title="$ a name", cmap="magma")
        lines, dots = ax.collections
        np.testing.assert_allclose(dots.get_offsets(), places)
        np.testing.assert_allclose(dots.get_array(), x)
        drawn = {frozenset(map(tuple, segment.tolist())) for segment in lines.get_segments()}
        pairs = op.to_dense().triu(1).nonzero()
        assert drawn == {frozenset({tuple(places[i].tolist()), tuple(places[j].tolist())}) for i, j in pairs}
        assert len(figure.axes) == 2  # with the colours' meaning
        assert ax.get_title() == "$ a name"
        assert picture(figure).startswith(b"\x89PNG")

    def test_places_of_networkx_and_arrays(self) -> None:
        graph = networkx.path_graph(5)
        layout = networkx.spring_layout(graph, seed=0)
        axes = new_figure(3, 3)[1][0, 0]
        plot_signal(GraphOperator.from_networkx(graph), np.ones((5, 1)), layout, axes, colorbar=False, size=9)
        np.testing.assert_allclose(axes.collections[1].get_offsets(), np.array(list(layout.values())))
        assert axes.collections[1].get_sizes() == [9]
        assert len(axes.figure.axes) == 1

    @pytest.mark.parametrize("kind", ["arma", "laplacian"])
    def test_without_places_a_ring_is_round(self, kind: str) -> None:
        op = ring(40, kind=kind)[0]
        axes = new_figure(3, 3)[1][0, 0]
        plot_signal(op, torch.zeros(40), ax=axes)
        offsets = np.asarray(axes.collections[1].get_offsets())
        np.testing.assert_allclose(np.linalg.norm(offsets, axis=1), (1 / 20) ** 0.5, atol=1e-6)

    def test_directed_edges_are_drawn(self) -> None:
        op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 2], [1, 2, 2]]))
        axes = new_figure(3, 3)[1][0, 0]
        plot_signal(op, [1.0, 2.0, 3.0], torch.eye(3)[:, :2], axes)
        assert len(axes.collections[0].get_segments()) == 2
        with pytest.raises(ArmagnnError):
            plot_signal(op, [1.0, 2.0, 3.0], ax=axes)  # no smooth signals

    @pytest.mark.parametrize(
        "options",
        [
            {"x": torch.ones(4)},
            {"x": torch.ones(5, 2)},
            {"x": ["a"] * 5},
            {"x": [float("nan")] * 5},
            {"pos": torch.ones(5, 3)},
            {"pos": torch.full((5, 2), float("inf"))},
            {"op": torch.ones(5, 5)},
            {"ax": 3},
            {"cmap": "no such"},
            {"size": -1},
        ],
    )
    def test_bad_arguments(self, options: dict[str, Any]) -> None:
        good: dict[str, Any] = {
            "op": ring(5)[0],
            "x": torch.ones(5),
            "pos": ring(5)[1],
            "ax": new_figure(2, 2)[1][0, 0],
        }
        with pytest.raises(ArmagnnError):
            plot_signal(**(good | options))

    def test_two_nodes_without_places(self) -> None:
        op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
        assert plot_signal(op, [0.0, 1.0], ax=new_figure(2, 2)[1][0, 0]) is not None
