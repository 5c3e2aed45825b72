"""Graphs to play with: their spectra are known, their places fit their edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.errors import ArmagnnError
from armagnn.operators import GraphOperator, grid, knn_graph, ring, sensor
from armagnn.spectral import spectrum


@pytest.mark.parametrize("n", [3, 4, 17])
def test_a_ring_has_the_frequencies_of_a_fourier_transform(n: int) -> None:
    op, places = ring(n, dtype=torch.float64)
    wanted = sorted(math.cos(2 * math.pi * k / n) for k in range(n))
    np.testing.assert_allclose(spectrum(op)[0], wanted, atol=1e-12)
    np.testing.assert_allclose(places.norm(dim=1), 1.0)
    edges = op.to_dense().nonzero()
    length = (places[edges[:, 0]] - places[edges[:, 1]]).norm(dim=1)
    np.testing.assert_allclose(length, 2 * math.sin(math.pi / n))  # neighbours are side by side


@pytest.mark.parametrize(("rows", "columns"), [(1, 5), (4, 1), (3, 4), (5, None)])
def test_a_grid_joins_pixels_at_distance_one(rows: int, columns: int | None) -> None:
    op, places = grid(rows, columns, kind="adjacency")
    width = rows if columns is None else columns
    distance = (places[:, None] - places[None]).abs().sum(-1)
    assert torch.equal(op.to_dense(), (distance == 1).float())
    assert places[0].tolist() == [0, rows - 1]  # the first row of an image is its top
    assert places[width - 1].tolist() == [width - 1, rows - 1]


def test_sensors_are_joined_with_the_nearest() -> None:
    op, places = sensor(40, neighbours=5, seed=3, kind="adjacency")
    edges, weight = knn_graph(places, 5, "gaussian")
    assert torch.equal(op.to_dense(), GraphOperator.from_edge_index(edges, 40, weight, kind="adjacency").to_dense())
    assert torch.equal(places, sensor(40, seed=3)[1])
    assert not torch.equal(places, sensor(40, seed=4)[1])


def test_options_reach_the_operator() -> None:
    for make in (ring, grid, sensor):
        op = make(12, kind="laplacian", dtype=torch.float64)[0]  # type: ignore[operator]
        assert (op.kind, op.dtype) == ("laplacian", torch.float64)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ring(2),
        lambda: ring("many"),  # type: ignore[arg-type]
        lambda: grid(0),
        lambda: grid(3, -1),
        lambda: grid(10**6, 10**6),
        lambda: sensor(5, neighbours=5),
        lambda: sensor(5, 2, seed=0.5),  # type: ignore[arg-type]
        lambda: ring(5, kind="circle"),
    ],
)
def test_bad_sizes(make: Callable[[], Any]) -> None:
    with pytest.raises(ArmagnnError):
        make()
