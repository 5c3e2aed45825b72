"""A file in the format of the catalogue: its values, and everything that may be wrong with it."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import NodeDataset, load, read_node_file
from armagnn.data.node_file import ARRAYS, parse_node_file
from armagnn.errors import DataError

Arrays = dict[str, np.ndarray]


def tiny_arrays() -> Arrays:
    return {
        "x_indptr": np.array([0, 2, 3, 3, 5, 6, 7], dtype=np.int32),
        "x_indices": np.array([0, 3, 1, 0, 2, 3, 2], dtype=np.int16),
        "x_data": np.array([1.0, 3.0, 2.0, -1.0, 4.0, 1.0, 0.5], dtype=np.float32),
        "x_shape": np.array([6, 4], dtype=np.int32),
        "edge_index": np.array([[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]], dtype=np.int32),
        "y": np.array([0, 1, 2, -1, 1, 0], dtype=np.int8),
        "train_idx": np.array([0, 1], dtype=np.int32),
        "val_idx": np.array([2], dtype=np.int32),
        "test_idx": np.array([4, 5], dtype=np.int32),
    }


def pack(arrays: Arrays) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


TINY = pack(tiny_arrays())


@pytest.fixture
def arrays() -> Arrays:
    return tiny_arrays()


def parse(content: bytes, sha256: str | None = None) -> NodeDataset:
    return parse_node_file(content, name="tiny", source="tiny.npz", sha256=sha256)


def test_values(arrays: Arrays) -> None:
    data = parse_node_file(pack(arrays), name="tiny", source="tiny.npz", features="rows")
    expected = torch.zeros(6, 4)
    expected[0, 0], expected[0, 3] = 0.25, 0.75
    expected[1, 1] = 1.0
    expected[3, 0], expected[3, 2] = -0.2, 0.8  # |-1| + |4| = 5
    expected[4, 3] = 1.0
    expected[5, 2] = 1.0
    torch.testing.assert_close(data.x.to_dense(), expected)
    assert data.x.dtype == torch.float32
    assert data.y.tolist() == [0, 1, 2, -1, 1, 0]
    assert data.num_classes == 3
    assert data.edge_index.tolist() == arrays["edge_index"].tolist()
    assert data.edge_index.dtype == data.y.dtype == data.test_idx.dtype == torch.int64
    assert (data.train_idx.tolist(), data.val_idx.tolist(), data.test_idx.tolist()) == ([0, 1], [2], [4, 5])


def test_a_path_is_a_dataset_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    path.write_bytes(TINY)
    assert load(str(path)).num_nodes == read_node_file(path).num_nodes == 6
    assert load(str(path)).name == str(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load(str(tmp_path / "mine.npz"))


Change = Callable[[Arrays], object]


def put(name: str, position: object, value: object) -> Change:
    return lambda arrays: arrays[name].__setitem__(position, value)


def swap(name: str, value: object) -> Change:
    return lambda arrays: arrays.__setitem__(name, np.asarray(value))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("x_data", 0, np.nan), "NaN or infinite"),
        (put("x_data", 3, np.inf), "NaN or infinite"),
        (swap("x_data", np.full(7, 1e300)), "NaN or infinite"),  # does not fit float32
        (swap("x_data", np.ones(6, np.float32)), "x_data"),
        (swap("x_data", np.array(["a"] * 7)), "x_data"),
        (swap("x_data", np.ones(7, np.complex64)), "x_data"),
        (put("x_indices", 0, 4), "x_indices holds 0 .. 4|x_indices holds 1 .. 4"),
        (put("x_indices", 0, -1), "x_indices holds -1"),
        (put("x_indptr", 1, 4), "x_indptr"),
        (put("x_indptr", 0, 1), "x_indptr"),
        (put("x_indptr", 6, 6), "x_indptr"),
        (swap("x_indptr", np.array([], np.int32)), "x_indptr"),
        (swap("x_shape", [6, 4, 1]), "x_shape"),
        (swap("x_shape", [0, 4]), "x_shape"),
        (swap("x_shape", [6, 2**40]), "at most 16777216 features"),
        (swap("x_shape", [6.0, 4.0]), "x_shape is float64"),
        (swap("x_shape", [7, 4]), "x_indptr"),
        (put("edge_index", (0, 0), 6), "edge_index holds 0 .. 6|edge_index holds 1 .. 6"),
        (put("edge_index", (1, 2), -1), "edge_index holds -1"),
        (swap("edge_index", np.zeros((3, 2), np.int64)), r"must be \(2, E\)"),
        (swap("edge_index", np.zeros(4, np.int64)), "edge_index"),
        (swap("edge_index", np.zeros((2, 3))), "edge_index is float64"),
        (put("y", 0, -2), "y holds -2"),
        (put("y", 0, 5), "0 .. C-1"),  # classes 3 and 4 would have no node
        (put("y", 0, 100), "y holds"),
        (swap("y", np.zeros(6, np.int64)), "0 .. C-1"),  # one class only
        (swap("y", np.full(6, -1)), "0 .. C-1"),
        (swap("y", np.zeros(5, np.int64)), "one for each"),
        (swap("y", np.zeros(6)), "y is float64"),
        (put("train_idx", 0, 6), "train_idx holds 1 .. 6"),
        (put("val_idx", 0, -1), "val_idx holds -1"),
        (put("test_idx", 0, 2), "test_idx and val_idx share 1 node"),
        (put("val_idx", 0, 0), "val_idx and train_idx share 1 node"),
        (put("train_idx", 0, 1), "train_idx names a node twice"),
        (put("test_idx", 0, 3), "test_idx holds nodes without a label"),
        (swap("val_idx", np.array([], np.int32)), "val_idx is empty"),
        (swap("val_idx", np.array([True, False])), "val_idx is bool"),
    ],
)
def test_what_is_wrong_is_named(change: Change, message: str, arrays: Arrays) -> None:
    parse(pack(arrays))  # was right before
    change(arrays)
    with pytest.raises(DataError, match=message) as caught:
        parse(pack(arrays))
    assert str(caught.value).startswith("tiny.npz: ")


@pytest.mark.parametrize("name", ARRAYS)
def test_a_missing_array_is_named(name: str, arrays: Arrays) -> None:
    del arrays[name]
    with pytest.raises(DataError, match=rf"lacks the arrays {name}\."):
        parse(pack(arrays))


def test_pickled_arrays_are_never_loaded(arrays: Arrays) -> None:
    arrays["y"] = np.array([print] * 6, dtype=object)
    with pytest.raises(DataError, match="pickle"):
        parse(pack(arrays))


def single_array() -> bytes:
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return file.getvalue()


def zip_of_text() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "hello")
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04N.", single_array(), zip_of_text()])
def test_foreign_files(content: bytes) -> None:
    with pytest.raises(DataError, match=r"tiny\.npz"):
        parse(content)


def test_repeated_features_are_added(arrays: Arrays) -> None:
    arrays["x_indices"][1] = 0  # row 0 has feature 0 twice: 1 + 3
    data = parse_node_file(pack(arrays), name="tiny", source="tiny.npz", features="none")
    assert data.x.to_dense()[0].tolist() == [4.0, 0.0, 0.0, 0.0]


CORA = Path(load.__code__.co_filename).with_name("embedded").joinpath("cora.npz").read_bytes()
CORA_SHA256 = load("cora").sha256


@settings(max_examples=300, deadline=None)
@given(position=st.integers(0, len(CORA) - 1), flip=st.integers(1, 255))
def test_no_flipped_byte_of_a_known_file_passes(position: int, flip: int) -> None:
    damaged = bytearray(CORA)
    damaged[position] ^= flip
    with pytest.raises(DataError):
        parse(bytes(damaged), sha256=CORA_SHA256)


@settings(max_examples=200, deadline=None)
@given(length=st.integers(0, len(CORA) - 1))
def test_no_truncation_of_a_known_file_passes(length: int) -> None:
    with pytest.raises(DataError):
        parse(CORA[:length], sha256=CORA_SHA256)


def same(a: NodeDataset, b: NodeDataset) -> bool:
    return (
        torch.equal(a.x.to_dense(), b.x.to_dense())
        and all(
            torch.equal(getattr(a, name), getattr(b, name))
            for name in ("edge_index", "y", "train_idx", "val_idx", "test_idx")
        )
        and a.num_classes == b.num_classes
    )


@settings(max_examples=500, deadline=None)
@given(position=st.integers(0, len(TINY) - 1), flip=st.integers(1, 255))
def test_damage_to_an_unknown_file_never_changes_the_data(position: int, flip: int) -> None:
    # Without a checksum, damage to dates and the like in the zip cannot be seen; but it must not matter either.
    damaged = bytearray(TINY)
    damaged[position] ^= flip
    try:
        data = parse(bytes(damaged))
    except DataError:
        return
    assert same(data, parse(TINY))


@settings(max_examples=200, deadline=None)
@given(length=st.integers(0, len(TINY) - 1))
def test_no_truncation_of_an_unknown_file_passes(length: int) -> None:
    with pytest.raises(DataError):
        parse(TINY[:length])


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(["x_indptr", "x_indices", "x_shape", "edge_index", "y", "train_idx", "val_idx", "test_idx"]),
    position=st.integers(0, 100),
    value=st.integers(-(2**63), 2**63 - 1),
)
def test_any_number_in_any_place_is_data_or_a_data_error(name: str, position: int, value: int) -> None:
    arrays = {key: array.astype(np.int64) if array.dtype.kind == "i" else array for key, array in tiny_arrays().items()}
    arrays[name].flat[position % arrays[name].size] = value
    try:
        data = parse(pack(arrays))
    except DataError:
        return
    assert data.num_nodes == 6
    assert int(data.edge_index.min()) >= 0
    assert int(data.edge_index.max()) < 6
    ids = torch.cat([data.train_idx, data.val_idx, data.test_idx])
    assert len(ids.unique()) == len(ids)
    assert bool((data.y[ids] >= 0).all())
    assert int(data.y.max()) == data.num_classes - 1
