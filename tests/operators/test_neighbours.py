"""Nearest-neighbour graphs against a plain search over all pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError, UnknownNameError
from armagnn.operators import GraphOperator, knn_graph

GRID = np.indices((28, 28)).reshape(2, -1).T


def all_pairs(points: np.ndarray, k: int) -> set[tuple[int, int]]:
    """Return the edges by sorting all distances, and numbers where distances are equal."""
    edges = set()
    for i, p in enumerate(points):
        others = sorted((float(((p - q) ** 2).sum()), j) for j, q in enumerate(points) if j != i)
        edges |= {(i, j) for _, j in others[:k]} | {(j, i) for _, j in others[:k]}
    return edges


def as_set(edge_index: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in edge_index.t().tolist()}


@st.composite
def clouds(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Draw integer points, so that distances are exact and ties and points in one place are many."""
    count, width = draw(st.integers(2, 40)), draw(st.integers(1, 3))
    span = draw(st.integers(0, 4))
    points = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, span + 1, (count, width))
    return points.astype(float), draw(st.integers(1, count - 1))


@given(clouds())
def test_edges_are_those_of_a_search_over_all_pairs(cloud: tuple[np.ndarray, int]) -> None:
    points, k = cloud
    edge_index, weight = knn_graph(points, k)
    assert as_set(edge_index) == all_pairs(points, k)
    assert len(as_set(edge_index)) == edge_index.shape[1], "an edge is there twice"
    assert torch.equal(weight, torch.ones(edge_index.shape[1]))
    assert GraphOperator.from_edge_index(edge_index, len(points), kind="adjacency").symmetric
    assert int(torch.bincount(edge_index[1], minlength=len(points)).min()) >= k


def test_many_dimensions_take_the_other_search_and_find_the_same() -> None:
    points = np.random.default_rng(0).normal(size=(150, 40))
    points[20:80] = points[20]  # sixty in one place: more than the spare candidates
    assert as_set(knn_graph(points, 5)[0]) == all_pairs(points, 5)


@pytest.mark.parametrize("width", [2, 20])
def test_many_points_in_one_place(width: int) -> None:
    points = np.random.default_rng(5).integers(0, 3, (20_000, width)).astype(float)
    points[::2] = -0.0  # as rows of words that never occur
    points[4::8] = 0.0
    edge_index, _ = knn_graph(points, np.int64(3))  # type: ignore[arg-type]
    others = edge_index[0][edge_index[1] == 19_998]  # of the 10,000 at zero, all have the first ones
    assert others.tolist() == [0, 2, 4]
    few = np.concatenate([np.arange(0, 60), np.arange(19_940, 20_000)])
    assert as_set(knn_graph(points[few], 3)[0]) == all_pairs(points[few], 3)


def test_any_type_of_number_is_taken() -> None:
    points = torch.randint(0, 9, (30, 2), generator=torch.manual_seed(0))
    expected = knn_graph(points.numpy(), 3)[0]
    for dtype in (torch.bfloat16, torch.float16, torch.uint8):
        assert torch.equal(knn_graph(points.to(dtype), 3)[0], expected)


def test_the_weight_of_an_outlier_is_not_zero() -> None:
    points = np.concatenate([np.random.default_rng(6).random((100, 2)), [[50.0, 50.0]]])
    _, weight = knn_graph(points, 4, "gaussian")
    assert float(weight.min()) > 0
    one = knn_graph(points, 4, "gaussian", sigma=np.float32(1))[1]  # type: ignore[arg-type]
    assert torch.equal(one, knn_graph(points, 4, "gaussian", sigma=1.0)[1])


def test_a_far_centre_loses_no_digits() -> None:
    points = np.random.default_rng(1).normal(size=(100, 30))
    assert torch.equal(knn_graph(points, 4)[0], knn_graph(points + 1e6, 4)[0])


def test_renumbered_points_have_the_renumbered_graph() -> None:
    points = np.random.default_rng(2).normal(size=(60, 3))
    order = np.random.default_rng(3).permutation(60)
    place = torch.from_numpy(order.argsort())
    before, after = knn_graph(points, 6)[0], knn_graph(points[order], 6)[0]
    assert as_set(place[before]) == as_set(after)


def test_gaussian_weights_fall_with_the_distance() -> None:
    points = np.random.default_rng(4).normal(size=(50, 2))
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    edge_index, weight = knn_graph(torch.from_numpy(points), 3, "gaussian")
    mean = np.sort(distance, axis=1)[:, 3].mean()
    expected = np.exp(-(distance[tuple(edge_index.numpy())] ** 2) / mean**2)
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)
    _, wide = knn_graph(points, 3, "gaussian", sigma=2.0)
    np.testing.assert_allclose(wide.numpy(), np.exp(-(distance[tuple(edge_index.numpy())] ** 2) / 4), rtol=1e-6)
    assert GraphOperator.from_edge_index(edge_index, 50, weight).symmetric


def test_the_grid_of_mnist() -> None:
    edge_index, _ = knn_graph(GRID, 8)
    assert edge_index.shape[1] == 2 * 3198
    inner = (GRID > 0).all(1) & (GRID < 27).all(1)
    king = np.abs(GRID[edge_index[0]] - GRID[edge_index[1]]).max(1) == 1
    asked = torch.from_numpy(inner)[edge_index[1]] & torch.from_numpy(inner)[edge_index[0]]
    assert np.asarray(king)[asked.numpy()].sum() == sum(
        8 - 3 * (x in (1, 26)) - 3 * (y in (1, 26)) + (x in (1, 26)) * (y in (1, 26)) for x, y in GRID[inner].tolist()
    )


@pytest.mark.parametrize(
    ("points", "k", "options", "error", "message"),
    [
        (np.zeros((3, 2)), 3, {}, ParameterError, "less than the 3 points"),
        (np.zeros((3, 2)), 0, {}, ParameterError, "less than the 3 points"),
        (np.zeros((3, 2)), True, {}, ParameterError, "k must be an integer"),
        (np.zeros(3), 1, {}, ShapeError, r"\(N, D\)"),
        (np.zeros((3, 0)), 1, {}, ShapeError, r"\(N, D\)"),
        ([["a"], ["b"]], 1, {}, DTypeError, "numbers"),
        ([[1j], [2.0]], 1, {}, DTypeError, "real"),
        (torch.ones(3, 2, dtype=torch.complex64), 1, {}, DTypeError, "real"),
        (torch.ones(3, 2).to_sparse(), 1, {}, DTypeError, "dense"),
        ([[0.0], [math.nan]], 1, {}, GraphError, "NaN"),
        ([[0.0], [1e200]], 1, {}, GraphError, "squares overflow"),
        (np.zeros((1, 2)), 1, {}, ParameterError, "less than the 1 points"),
        (np.zeros((3, 2)), torch.tensor(1.5), {}, ParameterError, "k must be an integer"),
        (np.zeros((3, 2)), np.array([1, 2]), {}, ParameterError, "k must be an integer"),
        (np.zeros((3, 2)), torch.tensor(True), {}, ParameterError, "k must be an integer"),
        (np.eye(3), 1, {"weights": "gaussian", "sigma": 1e200}, ParameterError, "positive"),
        (np.zeros((3, 2)), 1, {"weights": "gaussian", "sigma": "a"}, ParameterError, "positive"),
        (np.zeros((3, 2)), 1, {"weights": "gausian"}, UnknownNameError, "gaussian"),
        (np.zeros((3, 2)), 1, {"weights": "gaussian"}, ParameterError, "pass sigma"),
        (np.zeros((3, 2)), 1, {"sigma": 1.0}, ParameterError, "weights='gaussian'"),
        (np.zeros((3, 2)), 1, {"weights": "gaussian", "sigma": -1.0}, ParameterError, "positive"),
    ],
)
def test_bad_input_is_refused(
    points: Any, k: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        knn_graph(points, k, **options)


class Hostile:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise KeyError("hostile")


@pytest.mark.parametrize(
    "points", [Hostile(), torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 2)]), torch.ones(3, 2).to("meta")]
)
def test_points_that_cannot_be_read(points: Any) -> None:
    with pytest.raises(DTypeError, match="points must be"):
        knn_graph(points, 1)


def test_a_deep_list_is_no_sigma() -> None:
    deep: list[Any] = []
    for _ in range(10**5):
        deep = [deep]
    with pytest.raises(ParameterError, match="sigma"):
        knn_graph(np.eye(3), 1, "gaussian", sigma=deep)  # type: ignore[arg-type]
