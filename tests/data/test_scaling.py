"""How the features of nodes are scaled: by rows for the catalogue, on training nodes for a user's own numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as drawn_arrays

from armagnn.data import NodeDataset, load, read_node_file
from armagnn.data.arrays import pack_arrays
from armagnn.data.node_files import parse_node_file, row_normalised, scaled
from armagnn.data.scaling import Features, Scaler, standardised
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.errors import DataError, UnknownNameError
from armagnn.operators import CSR
from data.tiny import multilabel_arrays, node_arrays

X = np.array([[1.0, 7.0, 0.0], [3.0, 7.0, 0.0], [8.0, 7.0, 2.0], [5.0, 7.0, 0.0], [2.0, 7.0, 1.0], [9.0, 9.0, 0.0]])
TRAIN = np.array([0, 1])


def dense_arrays(x: np.ndarray[Any, Any] = X) -> dict[str, np.ndarray[Any, Any]]:
    arrays = {name: array for name, array in node_arrays().items() if not name.startswith("x_")}
    return {"x": x, **arrays}


def sparse_arrays(x: Any) -> dict[str, np.ndarray[Any, Any]]:
    x = sp.csr_array(x)
    parts = {"x_indptr": x.indptr, "x_indices": x.indices, "x_data": x.data, "x_shape": np.array(x.shape)}
    return {**node_arrays(), **parts}


def read(arrays: dict[str, np.ndarray[Any, Any]], **options: Any) -> NodeDataset:
    return parse_node_file(pack_arrays(arrays), name="tiny", source="tiny.npz", **options)


def dense(x: torch.Tensor | CSR) -> torch.Tensor:
    return x if isinstance(x, torch.Tensor) else x.to_dense()


def test_own_numbers_are_standardised_on_training_nodes() -> None:
    data = read(dense_arrays())
    assert dense(data.x)[:, 0].tolist() == [-1.0, 1.0, 6.0, 3.0, 0.0, 7.0]  # mean 2, deviation 1
    # a column that is constant in training is divided by its size, one of zeros is left alone
    np.testing.assert_allclose(dense(data.x)[:, 1:].numpy().T, [[0, 0, 0, 0, 0, 2 / 7], [0, 0, 2, 0, 1, 0]], rtol=1e-6)
    assert data.features == "standardise"
    assert data.notes == ("features: each of the 3 columns is standardised on the 2 training nodes.",)


def test_the_other_choices() -> None:
    assert torch.equal(dense(read(dense_arrays(), features="none").x), torch.tensor(X, dtype=torch.float32))
    rows = read(dense_arrays(), features="rows")
    np.testing.assert_allclose(dense(rows.x).numpy(), X / X.sum(axis=1, keepdims=True), rtol=1e-6)
    assert "each row is divided" in rows.notes[0]
    with pytest.raises(UnknownNameError, match="Did you mean 'standardise'"):
        read(dense_arrays(), features="standardize")


def test_sparse_features_stay_sparse() -> None:
    data = read(sparse_arrays(X))
    assert isinstance(data.x, CSR)
    assert data.x.nnz == np.count_nonzero(X)
    found = dense(data.x)
    assert found[:, 0].tolist() == [-1.0, 1.0, 6.0, 3.0, 0.0, 7.0]  # it has an entry in every row
    assert found[:, 2].tolist() == [0.0, 0.0, 2.0, 0.0, 1.0, 0.0]  # no training node has one
    assert data.notes == (
        "features: sparse; 1 of the 3 columns are divided by their deviation on the 2 training nodes and not centred, "
        "so that zeros stay zeros; the 2 that have an entry in every row are standardised.",
    )
    wide = read(sparse_arrays(X[:, ::2] * [1, 5]), features="standardise")
    assert dense(wide.x)[2, 1] == 10  # zeros in training, so the unit stays


@given(
    drawn_arrays(np.float64, (7, 3), elements=st.sampled_from([0.0, 0.0, -2.0, 1.0, 3.5, 1e6])),
    st.sets(st.integers(0, 6), min_size=1),
)
def test_sparse_and_dense_are_divided_by_the_same(x: np.ndarray[Any, Any], rows: set[int]) -> None:
    train = np.array(sorted(rows))
    scaler = Scaler.fit(torch.from_numpy(x), torch.from_numpy(train))
    found = standardised(sp.csr_array(x), train)[0].toarray()
    full = (x != 0).all(axis=0)
    expected = (x - np.where(full, scaler.mean.numpy(), 0.0)) / scaler.deviation.numpy()
    np.testing.assert_allclose(found, np.where(x == 0, 0.0, expected), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(standardised(x, train)[0], scaler(torch.from_numpy(x)).numpy(), rtol=1e-12)


@given(drawn_arrays(np.float64, (5, 4), elements=st.sampled_from([0.0, -2.0, 1.0, 3.5])))
def test_sparse_and_dense_rows(x: np.ndarray[Any, Any]) -> None:
    np.testing.assert_allclose(row_normalised(sp.csr_array(x)).toarray(), row_normalised(x))
    assert set(np.round(np.abs(row_normalised(x)).sum(axis=1), 12)) <= {0.0, 1.0}


@pytest.mark.parametrize("how", ["rows", "standardise", "none"])
def test_sparse_features_are_the_matrix_that_a_foreign_one_would_be(how: Features) -> None:
    x = sp.csr_array(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0], [-3.0, 0.0, 5.0]]))
    found, _ = scaled(x, how, TRAIN, "mine.npz")
    truth = {"rows": row_normalised, "standardise": lambda x: standardised(x, TRAIN)[0], "none": lambda x: x}[how](x)
    expected = CSR.from_scipy(truth, dtype=torch.float32)
    assert isinstance(found, CSR)
    assert found.shape == expected.shape
    for name in ("rowptr", "col", "value"):
        one, other = getattr(found, name), getattr(expected, name)
        assert one.dtype == other.dtype
        assert torch.equal(one, other)


def test_a_random_split_is_standardised_on_its_own_training_nodes() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(5, 3, (40, 4))
    y = np.arange(40) % 2
    graph = {"edge_index": np.array([[0], [1]]), "y": y, "train_idx": [0, 1], "val_idx": [2], "test_idx": [3]}
    graph = {name: np.asarray(value) for name, value in graph.items()}
    for arrays in ({"x": x}, {k: v for k, v in sparse_arrays(x).items() if k.startswith("x_")}):
        data = read({**graph, **arrays}).with_random_split(3, per_class=5, val=4, test=4)
        rows = dense(data.x)[data.train_idx].double()
        np.testing.assert_allclose(rows.mean(0).numpy(), 0, atol=1e-6)
        np.testing.assert_allclose(rows.std(0, correction=0).numpy(), 1, atol=1e-6)


def test_columns_that_float32_cannot_tell_apart_are_standardised_first() -> None:
    x = np.array([[1e10], [1e10 + 2], [1e10 + 1], [1e10], [1e10], [1e10]])
    assert dense(read(dense_arrays(x)).x)[:, 0].tolist() == [-1.0, 1.0, 0.0, -1.0, -1.0, -1.0]
    with pytest.raises(DataError, match="float32 rounds away"):
        read(dense_arrays(x), features="none")


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_refused(number: float) -> None:
    x = X.copy()
    x[4, 1] = number
    for arrays in (dense_arrays(x), sparse_arrays(x)):
        for features in ("auto", "rows", "none"):
            with pytest.raises(DataError, match="NaN or infinite"):
                read(arrays, features=features)


def test_a_value_far_beyond_training_is_refused() -> None:
    x = np.array([[0.0], [1e-30], [1e30], [0.0], [0.0], [0.0]])
    for arrays in (dense_arrays(x), sparse_arrays(x)):
        with pytest.raises(DataError, match="far beyond those of the training nodes"):
            read(arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.zeros(6)}, r"x has shape \(6,\)"),
        ({"x": np.zeros((6, 0))}, r"x has shape \(6, 0\)"),
        ({"x": np.zeros((6, 1), complex)}, "x is complex128"),
        ({"x": np.zeros((5, 1))}, "edge_index holds"),
        ({"x_shape": np.array([6, 1])}, "has both x and x_shape"),
    ],
)
def test_what_is_wrong_with_dense_features_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read({**dense_arrays(), **change})


def test_a_file_of_the_catalogue_keeps_its_rows_under_any_path(tmp_path: Path) -> None:
    embedded = Path(load.__code__.co_filename).with_name("embedded") / "cora.npz"
    (tmp_path / "mine.npz").write_bytes(embedded.read_bytes())
    cora, mine = load("cora"), load(tmp_path / "mine.npz")
    assert torch.equal(dense(cora.x), dense(mine.x))
    assert (mine.features, mine.notes, mine.sha256) == ("rows", (), cora.sha256)
    assert load("cora", features="standardise").sha256 != cora.sha256


def test_two_scalings_are_two_datasets(tmp_path: Path) -> None:
    (tmp_path / "mine.npz").write_bytes(pack_arrays(dense_arrays()))
    found = {how: read_node_file(tmp_path / "mine.npz", features=how) for how in ("rows", "standardise", "none")}
    assert len({data.sha256 for data in found.values()}) == 3
    assert read_node_file(tmp_path / "mine.npz", features="kind").sha256 == found["rows"].sha256


def test_bits_are_standardised_unless_asked() -> None:
    content = pack_arrays(multilabel_arrays())
    found = {how: parse_multilabel_file(content, name="a", source="a", features=how)  # type: ignore[arg-type]
             for how in ("auto", "kind", "standardise", "none", "rows")}  # fmt: skip
    assert len({data.sha256 for data in found.values()}) == 3
    assert found["auto"].sha256 == found["kind"].sha256 == found["standardise"].sha256
    assert set(dense(found["none"].x).unique().tolist()) == {0.0, 1.0}
    assert dense(found["rows"].x)[3].tolist() == pytest.approx([1 / 3] * 3)
