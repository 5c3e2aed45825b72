"""The reader of Planetoid's pickles: it reads their matrices and graphs, and runs nothing."""

from __future__ import annotations

import os
import pickle
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import CATALOGUE
from armagnn.data.arrays import Arrays, read_arrays
from armagnn.data.loading import locate
from armagnn.data.node_files import NODE_ARRAYS
from armagnn.data.sets import planetoid as reader
from armagnn.data.sets.planetoid import convert_planetoid, read_pickle
from armagnn.errors import DataError
from data.originals import planetoid, synthetic

MATRIX = sp.csr_matrix(np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.5]], dtype=np.float32))


class Call:
    """Pickles as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> Any:
        return self.reduced


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_matrices_arrays_and_graphs(protocol: int) -> None:
    found = read_pickle(pickle.dumps(MATRIX, protocol), "x")
    assert isinstance(found, sp.csr_array)
    assert found.dtype == np.float32
    assert np.array_equal(found.toarray(), MATRIX.toarray())
    for array in (np.arange(6, dtype=np.int32).reshape(2, 3), np.asfortranarray(np.eye(3))):
        assert np.array_equal(read_pickle(pickle.dumps(array, protocol), "y"), array)
    graph = defaultdict(list, {0: [1, 2], 2: []})
    assert read_pickle(pickle.dumps(graph, protocol), "graph") == {0: [1, 2], 2: []}


def test_the_form_that_python_2_wrote() -> None:
    # (csr_matrix, object, None) through copy_reg, arrays through numpy.core, strings for bytes: as in ind.cora.x
    array = (
        "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I{n}\ntcnumpy\ndtype\n"
        "(S'{code}'\nI0\nI1\ntR(I3\nS'<'\nNNNI-1\nI-1\nI0\ntbI00\nS'{raw}'\ntb"
    )

    def written(values: np.ndarray, code: str) -> str:
        raw = "".join(f"\\x{byte:02x}" for byte in values.tobytes())
        return array.format(n=values.size, code=code, raw=raw)

    content = (
        "ccopy_reg\n_reconstructor\n(cscipy.sparse.csr\ncsr_matrix\nc__builtin__\nobject\nNtR(d"
        f"S'_shape'\n(I2\nI3\ntsS'maxprint'\nI50\nsS'data'\n{written(MATRIX.data, 'f4')}s"
        f"S'indices'\n{written(MATRIX.indices, 'i4')}sS'indptr'\n{written(MATRIX.indptr, 'i4')}sb."
    )
    found = read_pickle(content.encode("latin1"), "ind.cora.x")
    assert isinstance(found, sp.csr_array)
    assert np.array_equal(found.toarray(), MATRIX.toarray())


@pytest.mark.parametrize(
    "hostile",
    [
        lambda mark: Call(os.system, f"touch {mark}"),
        lambda mark: Call(eval, f"open({str(mark)!r}, 'w')"),
        lambda mark: Call(exec, f"open({str(mark)!r}, 'w')"),
        lambda mark: Call(open, str(mark), "w"),
        lambda mark: {0: [Call(os.mkdir, str(mark))]},
        lambda mark: [MATRIX, Call(os.mkdir, str(mark))],
        lambda mark: Path(mark),
        lambda mark: np.array([Call(os.mkdir, str(mark))], dtype=object),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_hostile_pickles_are_refused_and_do_nothing(hostile: Any, protocol: int, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    content = pickle.dumps(hostile(mark), protocol)
    with pytest.raises(DataError, match=r"^ind\.x: refused, ") as caught:
        read_pickle(content, "ind.x")
    assert not mark.exists()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b".",
        b"hello",
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'true'\nios\nsystem\n.",
        b"cnumpy\nndarray.tofile\n.",
        b"cnumpy\nndarray\n.",
        b"cbuiltins\nobject\n(tR.",
        b"ccopy_reg\n_reconstructor\n(c__builtin__\nlist\nNNtR.",
        b"cnumpy\nndarray\n}(S'value'\nNub.",  # would replace an attribute of the class
        b"cnumpy\nndarray\n(N}S'value'\nNstb.",
        b"Pos.system\n.",
        pickle.dumps(7),
        pickle.dumps({"a": [0]}),
        pickle.dumps({0: [True]}),
        pickle.dumps(np.array(["text"]), 2),
    ],
)
def test_whatever_is_not_planetoids_is_refused(content: bytes) -> None:
    value = reader._Array.value
    with pytest.raises(DataError, match=r"^ind\.x: refused, "):
        read_pickle(content, "ind.x")
    assert reader._Array.value is value


def test_a_matrix_with_ids_out_of_range_is_refused() -> None:
    bad = MATRIX.copy()
    bad.indices[0] = 99
    with pytest.raises(DataError, match="refused"):
        read_pickle(pickle.dumps(bad, 2), "x")


CONTENT = pickle.dumps(MATRIX, 2)


@settings(max_examples=300)
@given(position=st.integers(0, len(CONTENT) - 1), flip=st.integers(1, 255))
def test_damage_is_a_matrix_or_a_data_error(position: int, flip: int) -> None:
    damaged = bytearray(CONTENT)
    damaged[position] ^= flip
    try:
        read_pickle(bytes(damaged), "x")
    except DataError:
        return


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        assert np.array_equal(found[name], array), name


def test_planetoid_gives_our_arrays_also_where_test_nodes_are_missing() -> None:
    assert_same(convert_planetoid("toy", planetoid("toy", synthetic()).__getitem__), synthetic())


def test_planetoid_gives_the_embedded_cora_back() -> None:
    content = locate(CATALOGUE["cora"], "cora").content()
    arrays = read_arrays(content, NODE_ARRAYS, "cora.npz")
    converted = convert_planetoid("cora", planetoid("cora", arrays).__getitem__)
    assert_same(converted, arrays)


def test_planetoid_gives_citeseer_back(real: Callable[[str], str]) -> None:
    arrays = read_arrays(locate(CATALOGUE["citeseer"], real("citeseer")).content(), NODE_ARRAYS, "citeseer.npz")
    assert_same(convert_planetoid("citeseer", planetoid("citeseer", arrays).__getitem__), arrays)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("test.index", b""),
        ("test.index", b"601\n601\n"),
        ("test.index", b"-1\n"),
        ("test.index", b"601\nhello\n"),
        ("test.index", b"5\n601\n602\n603\n604\n605\n607\n608\n"),
        ("test.index", b"601\n602\n603\n604\n605\n607\n608\n99999999999\n"),
        ("graph", pickle.dumps({0: [610]})),
        ("graph", pickle.dumps(np.arange(3), 2)),
        ("tx", pickle.dumps(sp.csr_matrix((8, 7)), 2)),
        ("y", pickle.dumps(np.zeros((60, 3)), 2)),
        ("ally", pickle.dumps(np.zeros(4), 2)),
        ("allx", pickle.dumps(print)),
    ],
)
def test_files_that_do_not_fit(file: str, content: bytes) -> None:
    files = planetoid("toy", synthetic())
    files[f"ind.toy.{file}"] = content
    with pytest.raises(DataError, match=r"ind\.toy\."):
        convert_planetoid("toy", files.__getitem__)
