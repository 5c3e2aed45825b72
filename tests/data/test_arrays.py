"""Arrays of files: packed and read without pickle, and checked with one kind of error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn.data import load
from armagnn.data.arrays import as_array, class_labels, digest_of, integers, on_device, pack_arrays, read_arrays, reals
from armagnn.errors import DataError, DeviceError, DTypeError, ParameterError
from armagnn.files import path_of, read_file


def test_objects_are_never_packed() -> None:
    with pytest.raises(DataError, match="Python objects"):
        pack_arrays({"y": np.array([print], dtype=object)})


def test_arrays_survive_packing_and_the_same_arrays_give_the_same_bytes() -> None:
    arrays = {"y": np.arange(3), "x": np.eye(2, dtype=np.float32), "words": np.array(["a", "bc"])}
    content = pack_arrays(arrays)
    found = read_arrays(content, ["x", "y"], "mine.npz", axes={"words": ("W",), "not_there": ("N",)})
    assert list(found) == ["x", "y", "words"]
    for name, array in found.items():
        assert array.dtype == arrays[name].dtype
        assert np.array_equal(array, arrays[name])
    assert pack_arrays({name: array.copy() for name, array in arrays.items()}) == content
    with pytest.raises(DataError, match=r"mine\.npz: not a graphs file, it lacks the arrays ptr"):
        read_arrays(content, ["y", "ptr"], "mine.npz", what="graphs")


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.zeros(3), {}, "float64 of shape .* must be integers of 1 axes"),
        (np.zeros((2, 2), np.int8), {}, "must be integers of 1 axes"),
        (np.array([2**63], np.uint64), {}, "beyond every id"),
        (np.zeros(3, np.int8), {"shape": (2,)}, r"has shape \(3,\); it must be \(2,\)"),
        (np.array([0, 5]), {"within": (0, 5)}, r"holds 0 \.\. 5; it must lie in 0 \.\. 4"),
        (np.array([-1, 4], np.int8), {"within": (0, 5)}, r"holds -1 \.\. 4"),
        (np.array([3, 4], np.uint8), {"within": (5, 9)}, r"holds 3 \.\. 4"),
    ],
)
def test_integers_that_are_wrong_are_named(array: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=rf"a\.npz: ids .*{message}"):
        integers({"ids": array}, "ids", "a.npz", **options)


def test_integers_become_those_of_64_bits() -> None:
    found = integers({"ids": np.array([0, 4], np.uint8)}, "ids", "a.npz", shape=(2,), within=(0, 5))
    assert found.dtype == np.int64
    assert found.tolist() == [0, 4]
    assert integers({"ids": np.zeros(0, np.int8)}, "ids", "a.npz", within=(0, 0)).size == 0


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_reals_are_finite_as_float32(value: float) -> None:
    assert reals({"x": np.array([1, 2])}, "x", "a.npz").dtype == np.float32
    with pytest.raises(DataError, match=r"a\.npz: x has NaN or infinite weights"):
        reals({"x": np.array([1.0, value])}, "x", "a.npz", what="weights")


@pytest.mark.parametrize(
    ("y", "message"),
    [([0, 1], "2 labels for 3 graphs"), ([0, 0, 0], "at least|C >= 2"), ([0, 2, 2], "all of 0"), ([0, 1, 3], "holds")],
)
def test_labels_are_all_of_the_classes(y: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        class_labels({"y": np.array(y)}, 3, "a.npz", of="graphs")
    assert class_labels({"y": np.array([1, -1, 0])}, 3, "a.npz")[1] == 2


def test_what_a_user_has_becomes_an_array() -> None:
    for value in ([1, 2], (1, 2), np.array([1, 2]), torch.tensor([1, 2]), torch.tensor([1, 2], dtype=torch.int8)):
        assert as_array("y", value).tolist() == [1, 2]
    assert as_array("x", torch.tensor([0.5], dtype=torch.bfloat16)).dtype == np.float32
    assert as_array("edge_index", [[], []]).dtype == np.int64
    for wrong in ("text", [[1], [2, 3]], {}, None, torch.eye(2).to_sparse()):
        with pytest.raises(DTypeError):
            as_array("y", wrong)


def test_a_digest_is_of_names_types_and_shapes_too() -> None:
    array = np.arange(6, dtype=np.int32)
    others = [{"b": array}, {"a": array.astype(np.int64)}, {"a": array.reshape(2, 3)}, {"a": array + 1}]
    assert len({digest_of(arrays) for arrays in [{"a": array}, *others]}) == 5
    assert digest_of({"a": array, "b": array}) == digest_of({"b": array, "a": array})


def test_every_tensor_moves() -> None:
    cora = load("cora")
    moved = on_device(cora, "meta")
    assert {moved.x.device.type, moved.edge_index.device.type, moved.test_idx.device.type} == {"meta"}
    assert (moved.name, moved.sha256, moved.graph) == (cora.name, cora.sha256, None)
    with pytest.raises(DeviceError):
        on_device(cora, "here")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    assert read_file(tmp_path / "a") == read_file(str(tmp_path / "a")) == b"content"
    for path in (tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(DataError, match="cannot be read"):
            read_file(path)
    with pytest.raises(ParameterError, match="by its name or by a path"):
        path_of(3)
