"""Tables in files: whatever form a table is written in, it is read as it was, or refused with row and column."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armagnn import table_files
from armagnn.errors import DataError
from armagnn.table_files import MISSING, TableFile

FIELD = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=("Cs",)), max_size=6)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(FIELD, FIELD, st.integers().map(str)), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t|"),
    bom=st.booleans(),
    zipped=st.booleans(),
)
def test_what_is_written_is_read(
    tmp_path: Path, rows: list[tuple[str, str, str]], delimiter: str, bom: bool, zipped: bool
) -> None:
    path = tmp_path / "table.csv"
    with open(path, "w", newline="", encoding="utf-8-sig" if bom else "utf-8") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL)
        writer.writerow(["first", "second one", "id"])
        writer.writerows(rows)
    if zipped:
        path.write_bytes(gzip.compress(path.read_bytes()))
    found = TableFile.open(path)
    assert (found.names, found.delimiter) == (("first", "second one", "id"), delimiter)
    table = found.read()
    expected = [tuple(None if text in MISSING else text for text in row) for row in rows]
    assert list(zip(*(table.column(name).to_pylist() for name in found.names), strict=True)) == expected


def test_batches_are_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "BLOCK", 1000)
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "".join(f"{n},{n % 7}\n" for n in range(2000)))
    file = TableFile.open(path)
    batches = list(file.batches(["b", "a"], {"a": pa.int64()}))
    assert len(batches) > 5
    whole = pa.Table.from_batches(batches)
    assert whole.column("a").to_pylist() == list(range(2000))
    assert whole.column("b").to_pylist() == [str(n % 7) for n in range(2000)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n1,2\n3\n", "row 3: has 1 fields, but the header has 2"),
        (b"a,b\n1,2\n3,4,5\n", "row 3: has 3 fields, but the header has 2"),
        (b"a,b\n1,2\n3,\xe9\n", "row 3, column 'b': byte 0xe9 is no UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "no CSV in UTF-8"),
        (b"PK\x03\x04rest", "zip archive"),
        (b"1,2\n3,4\n", "row 1: has no header"),
        (b"a,a\n3,4\n", "row 1: two columns are called 'a'"),
        (b"a,,c\n3,4,5\n", "row 1: column 2 has no name"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 100000, mtime=0)[:300], "cannot be read"),
        (b"PAR1 and then nothing", "cannot be read as Parquet"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        TableFile.open(path).read()


def test_a_late_mistake_is_found_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 200_000 + b"1,\xff\n")
    with pytest.raises(DataError, match="row 200002, column 'b': byte 0xff"):
        TableFile.open(path).read()
    path.write_bytes(b"a,b\n" + b"1,2\n" * 200_000 + b"x,2\n")
    with pytest.raises(DataError, match="row 200002, column 'a': 'x' is no integer"):
        TableFile.open(path).read(types={"a": pa.int64()})


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"has no column 'c'\. Its columns are 'a', 'b'\."):
        TableFile.open(path).read(["c"])


def test_without_pyarrow_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'armagnn\[tables\]'"):
        table_files.arrow()
