from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.errors import DataError, ParameterError
from armagnn.estimators import StoredFeatures, precompute_features

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
X = np.random.default_rng(0).normal(size=(4, 3))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredFeatures:
    return precompute_features(GraphOperator.from_edge_index(EDGES), X, tmp_path_factory.mktemp("s") / "bank")


def test_opening_gives_what_was_written(stored: StoredFeatures) -> None:
    again = StoredFeatures.open(str(stored.path))
    assert (again.shape, len(again)) == ((4, 12), 4)
    assert again.bank.names == ("a=0.9", "a=0.5", "a=-0.5")
    assert isinstance(again.array, np.memmap)
    np.testing.assert_array_equal(again.array, stored.array)
    np.testing.assert_allclose(again.array[:, :3], X, rtol=1e-6)
    assert repr(again).endswith("4 nodes, 12 columns, float32)")
    again.verify()


@settings(max_examples=30, deadline=None)
@given(nodes=st.lists(st.integers(0, 3), max_size=9), size=st.integers(1, 5), seed=st.none() | st.integers(0, 9))
def test_rows_and_batches(stored: StoredFeatures, nodes: list[int], size: int, seed: int | None) -> None:
    expected = np.asarray(stored.array)[nodes]
    np.testing.assert_array_equal(stored.rows(nodes), expected)
    np.testing.assert_array_equal(stored.rows(torch.tensor(nodes, dtype=torch.int64)), expected)
    parts = list(stored.batches(size, np.array(nodes, dtype=np.int64), seed))
    assert all(len(some) <= size for some, _ in parts)
    assert sorted(node for some, _ in parts for node in some) == sorted(nodes)
    for some, rows in parts:
        np.testing.assert_array_equal(rows, stored.array[some])
    whole = list(stored.batches(size, seed=seed))
    assert sorted(node for some, _ in whole for node in some) == [0, 1, 2, 3]
    for some, rows in whole:
        np.testing.assert_array_equal(rows, stored.array[some])


def test_masks_seeds_and_what_is_no_node(stored: StoredFeatures) -> None:
    np.testing.assert_array_equal(stored.rows(np.array([True, False, True, False])), stored.array[[0, 2]])
    orders = [[int(n) for some, _ in stored.batches(1, seed=seed) for n in some] for seed in (0, 0, 1, 2, 3)]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) > 1
    bad: list[Any] = [[4], [-1], [0.5], [[0]], "a"]
    for nodes in bad:
        with pytest.raises(ParameterError, match="nodes must"):
            stored.rows(nodes)
    with pytest.raises(ParameterError):
        list(stored.batches(0))


def test_what_is_no_folder_of_features(stored: StoredFeatures, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder of filtered features"):
        StoredFeatures.open(tmp_path / "none")
    for name in ("plan.json", "done.json", "features.npy"):
        for change in (lambda c: c[:-2], lambda c: b"", lambda c: c.replace(b"1", b"2", 1)):
            copy = tmp_path / f"copy of {name}"
            copy.mkdir(exist_ok=True)
            for each in ("plan.json", "done.json", "features.npy"):
                content = (stored.path / each).read_bytes()
                (copy / each).write_bytes(change(content) if each == name else content)
            with pytest.raises(DataError):
                StoredFeatures.open(copy).verify()
