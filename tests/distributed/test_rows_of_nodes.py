"""Features, targets and splits are cut as they are, or standardised as in one piece."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import load
from armagnn.data.scaling import standardised
from armagnn.distributed import rows_of_nodes
from armagnn.distributed.rows_of_nodes import PartRows
from armagnn.errors import DataError


def saved(folder: Path, **arrays: Any) -> dict[str, Path]:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return {name: folder / f"{name}.npy" for name in arrays}


@pytest.fixture
def x() -> Any:
    numbers = np.random.default_rng(0).normal(5.0, 3.0, (40, 4))
    numbers[:, 2] = 7.0
    return numbers


def test_files_are_standardised_as_in_one_piece(tmp_path: Path, x: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_of_nodes, "ROWS_AT_ONCE", 7)
    y, split = np.arange(40) % 3, np.arange(40) % 4
    rows = PartRows.of_arrays(**saved(tmp_path, x=x, y=y, split=split))
    truth, _ = standardised(x, np.flatnonzero(split == 0))
    nodes = np.array([39, 0, 7])
    found = rows.cut(nodes)
    np.testing.assert_allclose(found["x"], truth[nodes], rtol=1e-6)
    assert found["x"].dtype == np.float32
    assert found["y"].tolist() == y[nodes].tolist()
    assert found["split"].tolist() == [-1, 0, -1]
    as_they_are = PartRows.of_arrays(**saved(tmp_path, x=x, y=y, split=split), standardise=False)
    np.testing.assert_allclose(as_they_are.cut(nodes)["x"], x[nodes], rtol=1e-6)
    assert as_they_are.digest != rows.digest
    assert rows.described()["training_counts"] == [4, 3, 3]
    assert rows.described()["sizes"] == [10, 10, 10]


def test_kinds_of_targets(tmp_path: Path, x: Any) -> None:
    numbers = np.linspace(0, 9, 40)
    numbers[3] = np.nan
    for y, task, classes in (
        (np.arange(40) % 3 - (np.arange(40) == 5) * 9, "classes", ("0", "1", "2")),
        (np.eye(2)[np.arange(40) % 2], "labels", ("0", "1")),
        (numbers, "number", ()),
    ):
        rows = PartRows.of_arrays(**saved(tmp_path, x=x, y=y))
        assert (rows.task, rows.classes) == (task, classes)
        described = rows.described()
        assert sum(described["sizes"]) == (40 if task == "labels" else 39)
        if task == "number":
            assert rows.split[3] == -1
            chosen = numbers[rows.split == 0]
            assert described["target_mean"] == pytest.approx(chosen.mean(), rel=1e-5)
            assert described["target_deviation"] == pytest.approx(chosen.std(), rel=1e-5)


def test_a_draw_has_its_shares_and_its_seed(tmp_path: Path, x: Any) -> None:
    files = saved(tmp_path, x=x, y=np.arange(40) % 2)
    first = PartRows.of_arrays(**files, val=0.25, test=0.5)
    assert first.described()["sizes"] == [10, 10, 20]
    assert np.array_equal(first.split, PartRows.of_arrays(**files, val=0.25, test=0.5).split)
    assert not np.array_equal(first.split, PartRows.of_arrays(**files, val=0.25, test=0.5, seed=1).split)


def test_a_dataset_is_cut_as_it_is() -> None:
    cora = load("cora")
    rows = PartRows.of_dataset(cora)
    nodes = np.array([5, 2000, 140, 1800])
    found = rows.cut(nodes)
    dense = np.zeros((4, 1433), dtype=np.float32)
    for row in range(4):
        some = slice(found["x_rowptr"][row], found["x_rowptr"][row + 1])
        dense[row, found["x_col"][some]] = found["x_value"][some]
    assert np.array_equal(dense, cora.x.to_dense()[torch.from_numpy(nodes)].numpy())
    assert found["split"].tolist() == [0, 2, 1, 2]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones(40)}, r"x\.npy: must have shape \(N, F\)"),
        ({"y": np.ones(39, dtype=int)}, r"y\.npy: must have a row for each of 40 nodes"),
        ({"y": np.zeros(40, dtype=int)}, "there is 1 class"),
        ({"y": np.arange(40) % 2 * 2}, "no node has class 1"),
        ({"y": np.full((40, 2), 0.5)}, "of 0 and 1"),
        ({"y": np.full(40, np.inf)}, "infinite"),
        ({"split": np.zeros(40)}, "must be 40 integers"),
        ({"split": np.zeros(40, dtype=int)}, "no node with a target is for val"),
        ({"y": np.arange(40) % 3 - 1, "split": np.arange(40) % 3}, "node 0 is for train but has no target"),
        ({"x": np.full((40, 2), np.nan)}, "no finite numbers"),
    ],
)
def test_bad_arrays_are_refused(tmp_path: Path, x: Any, arrays: dict[str, Any], message: str) -> None:
    whole = {"x": x, "y": np.arange(40) % 3} | arrays
    with pytest.raises(DataError, match=message):
        PartRows.of_arrays(**saved(tmp_path, **whole))


def test_features_beyond_float32_are_refused_where_they_are_cut(tmp_path: Path, x: Any) -> None:
    x[30, 1] = 1e300
    rows = PartRows.of_arrays(**saved(tmp_path, x=x, y=np.arange(40) % 3, split=np.arange(40) % 3), standardise=False)
    with pytest.raises(DataError, match="features of node 30"):
        rows.cut(np.arange(40))
