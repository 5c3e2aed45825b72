from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from armagnn.bench import grid_filters as module
from armagnn.bench.grid_filters import RESPONSES, Array, GridData, exactly, filtered, grid_data, normalised, reduce_loss
from armagnn.errors import DataError, ParameterError


def grid_edges(side: int) -> Array:
    number = np.arange(side * side).reshape(side, side)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])


def small_grid(side: int = 12, images: int = 2) -> GridData:
    """Smooth random images, of which a frame of pixels does not count."""
    rng = np.random.default_rng(0)
    x = rng.random((side * side, images))
    mask = np.zeros((side, side), dtype=bool)
    mask[1:-1, 1:-1] = True
    return filtered(grid_edges(side), x, mask.ravel())


@pytest.mark.parametrize("side", [2, 5, 8])
def test_images_are_filtered_exactly(side: int) -> None:
    matrix, x = normalised(grid_edges(side), side * side), np.random.default_rng(0).normal(size=(side * side, 3))
    mu, vectors = np.linalg.eigh(matrix.toarray())
    for found, h in zip(exactly(matrix, x, list(RESPONSES.values())), RESPONSES.values(), strict=True):
        np.testing.assert_allclose(found, vectors @ (h(mu)[:, None] * (vectors.T @ x)), atol=1e-12)


def test_responses_are_those_of_the_benchmark() -> None:
    lam = np.linspace(0, 2, 9)
    low = np.exp(-10 * lam**2)
    band = np.exp(-10 * (lam - 1) ** 2)
    truth = {"low": low, "high": 1 - low, "band": band, "rejection": 1 - band, "comb": np.abs(np.sin(np.pi * lam))}
    for name, h in RESPONSES.items():
        np.testing.assert_allclose(h(1 - lam), truth[name], atol=1e-12)


def test_another_graph_is_refused() -> None:
    with pytest.raises(DataError, match="mirror"):
        filtered(grid_edges(4)[1:], np.ones((16, 1)), np.ones(16, dtype=bool))


def test_the_loss_in_few_numbers() -> None:
    rng = np.random.default_rng(1)
    columns, targets, c = rng.normal(size=(30, 4)), rng.normal(size=(30, 3)), rng.normal(size=(4, 3))
    loss = reduce_loss(columns, targets)
    truth = ((columns @ c - targets) ** 2).sum(0)
    np.testing.assert_allclose(((loss.r @ c - loss.q) ** 2).sum(0) + loss.rest, truth)


def test_fewer_images() -> None:
    data = small_grid(4, 3)
    assert data.first(2).images.shape == (16, 2)
    assert all(target.shape == (16, 2) for target in data.first(2).targets.values())


def test_a_file_that_is_missing_or_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "folders", lambda: [tmp_path])
    with pytest.raises(DataError, match="ARMAGNN_DATA"):
        grid_data()
    (tmp_path / module.FILE).write_bytes(b"nothing")
    with pytest.raises(DataError, match="grid_filters"):
        grid_data()
    with pytest.raises(ParameterError, match="images"):
        grid_data(51)
