from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from armagnn.errors import DataError, DTypeError
from armagnn.estimators import column_source
from armagnn.estimators.column_source import ColumnSource, release

X = np.random.default_rng(0).normal(size=(7, 4))


def sources(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The same numbers in every form; pieces of few rows."""
    monkeypatch.setattr(column_source, "PIECE", 70)
    np.save(folder / "x.npy", X)
    np.save(folder / "fortran.npy", np.asfortranarray(X))
    table = pa.table({f"x{c}": X[:, c] for c in range(4)})
    pq.write_table(table, folder / "x.parquet", row_group_size=3)
    lines = [",".join(table.column_names), *(",".join(map(repr, row)) for row in X.tolist())]
    (folder / "x.csv").write_text("\n".join(lines) + "\n")
    return {"array": X, **{name: folder / name for name in ("x.npy", "fortran.npy", "x.parquet", "x.csv")}}


def test_every_form_gives_the_same_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in sources(tmp_path, monkeypatch).values():
        source = ColumnSource.of(given)
        assert (source.rows, source.names) == (7, ("x0", "x1", "x2", "x3"))
        np.testing.assert_array_equal(source.read(1, 3, np.dtype(np.float64)), X[:, 1:3])
        assert source.read(0, 4, np.dtype(np.float32)).dtype == np.float32
        assert source.digest() == ColumnSource.of(given).digest()


def test_a_digest_sees_every_number_and_the_choice_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, given in sources(tmp_path, monkeypatch).items():
        if name == "array":
            changed = X.copy()
            changed[6, 3] = np.nextafter(changed[6, 3], 9)
            assert ColumnSource.of(changed).digest() != ColumnSource.of(X).digest()
        elif not name.endswith("npy"):
            some = ColumnSource.of(given, ["x2", "x0"])
            assert some.names == ("x2", "x0")
            assert some.digest() != ColumnSource.of(given).digest()
            np.testing.assert_array_equal(some.read(0, 1, np.dtype(np.float64))[:, 0], X[:, 2])


def test_bad_sources(tmp_path: Path) -> None:
    for bad in ([1.0, 2.0], "abc", np.array([["a"]]), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2), complex)):
        with pytest.raises((DTypeError, DataError)):
            ColumnSource.of(bad)
    np.save(tmp_path / "objects.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "gap.csv").write_text("a,b\n1,2\n3,\n")
    (tmp_path / "words.csv").write_text("a,b\n1,x\n3,y\n")
    for name in ("objects.npy", "text.npy", "missing.npy"):
        with pytest.raises(DataError, match=name):
            ColumnSource.of(tmp_path / name)
    with pytest.raises(DataError, match="row 1, column 'b': is empty"):
        ColumnSource.of(tmp_path / "gap.csv").read(1, 2, np.dtype(np.float32))
    with pytest.raises(DataError, match="'b' must hold numbers"):
        ColumnSource.of(tmp_path / "words.csv").read(0, 2, np.dtype(np.float32))
    with pytest.raises(DataError, match="no column 'c'"):
        ColumnSource.of(tmp_path / "gap.csv", ["c"])
    for value in (np.nan, np.inf, 1e300):
        with pytest.raises(DataError, match=r"row 1, column 'x0'"):
            ColumnSource.of(np.array([[1.0], [value]])).read(0, 1, np.dtype(np.float32))


def test_a_private_copy_keeps_its_changes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    private = np.load(tmp_path / "x.npy", mmap_mode="c")
    private[0, 0] = 5.0
    release(private)
    assert private[0, 0] == 5.0
