"""Tables in files: CSV of any usual form, also gzipped, and Parquet, read as a whole or in batches of bounded memory.

pyarrow reads. It refuses a row with too few fields (polars fills it up without a word), streams, and is as fast. What
it finds wrong is looked for again with Python's `csv`, so that an error names the row and the column.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from armagnn.errors import DataError, ParameterError, shown

DELIMITERS: Final = (",", ";", "\t", "|", " ")
"""The delimiters that are recognised, the more usual ones first."""

MISSING: Final = (
    "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "<NA>", "NaT",
)  # fmt: skip
"""Texts of a CSV file that mean: there is no value."""

LOOKED_AT: Final = 2**18
"""Bytes of the beginning of a file by which its form is recognised."""

BLOCK: Final = 2**24
"""Bytes of CSV that are read at a time."""

ROWS_AT_ONCE: Final = 2**20
"""Rows of Parquet that are read at a time."""

SHOWN: Final = 12
"""The most names of columns that an error lists."""

INSTALL: Final = "Tables need pyarrow and a recent scikit-learn: pip install 'armagnn[tables]'."


def arrow() -> Any:
    """The module pyarrow, or an error that says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise DataError(INSTALL) from error
    return pyarrow


@dataclass(frozen=True)
class TableFile:
    """A file with a table, recognised but not read.

    Attributes:
        path: the file.
        form: "csv" or "parquet".
        names: the names of the columns.
        delimiter: between the fields of a CSV file.
        gzipped: is it a CSV file in gzip's format?
        quoted: has its beginning a quotation mark? Then a field may go over several lines.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "edges.csv")
        >>> _ = path.write_text("source;target\\na;b\\nb;c\\n")
        >>> file = TableFile.open(path)
        >>> file.names, file.delimiter, file.read().num_rows
        (('source', 'target'), ';', 2)
    """

    path: Path
    form: str
    names: tuple[str, ...]
    delimiter: str = ","
    gzipped: bool = False
    quoted: bool = False

    @classmethod
    def open(cls, path: Path) -> TableFile:
        """Recognise the form of a file; what is no table is a :class:`~armagnn.errors.DataError`."""
        arrow()
        try:
            with open(path, "rb") as file:
                magic = file.read(4)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise DataError(f"{path}: cannot be read ({why}). Check the path and its permissions.") from error
        if magic == b"PAR1":
            return _open_parquet(path)
        if magic[:2] == b"PK":
            raise DataError(f"{path}: is a zip archive (or a spreadsheet), no table. Save the table as CSV.")
        return _open_csv(path, magic[:2] == b"\x1f\x8b")

    def read(self, columns: Iterable[str] | None = None, types: Mapping[str, Any] | None = None) -> Any:
        """The whole table, a ``pyarrow.Table``; of CSV, all columns are texts but those of `types`."""
        pa = arrow()
        batches = list(self.batches(columns, types))
        wanted = list(self.names if columns is None else columns)
        if not batches:
            return pa.table({name: pa.array([], (types or {}).get(name, pa.string())) for name in wanted})
        return pa.Table.from_batches(batches).select(wanted)

    def batches(self, columns: Iterable[str] | None = None, types: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The rows of some columns, as ``pyarrow.RecordBatch``: a few MiB at a time, however large the file is."""
        wanted = list(self.names if columns is None else columns)
        for name in wanted:
            self.require(name)
        return self._parquet_batches(wanted) if self.form == "parquet" else self._csv_batches(wanted, types or {})

    def require(self, name: str) -> None:
        """Refuse a column that is not there."""
        if name not in self.names:
            raise DataError(f"{self.path}: has no column {shown(name)}. {columns_of(self.names)}")

    def _parquet_batches(self, columns: list[str]) -> Iterator[Any]:
        from pyarrow.parquet import ParquetFile

        with _read_errors(self.path), ParquetFile(self.path) as file:
            yield from file.iter_batches(ROWS_AT_ONCE, columns=columns)

    def _csv_batches(self, columns: list[str], types: Mapping[str, Any]) -> Iterator[Any]:
        pa = arrow()
        from pyarrow import csv as arrow_csv

        reading = arrow_csv.ReadOptions(block_size=BLOCK, column_names=list(self.names), skip_rows_after_names=1)
        parsing = arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=self.quoted)
        converting = arrow_csv.ConvertOptions(
            column_types={name: types.get(name, pa.string()) for name in columns},
            include_columns=columns,
            null_values=list(MISSING),
            strings_can_be_null=True,
        )
        try:
            with pa.OSFile(str(self.path)) as plain:
                stream = pa.CompressedInputStream(plain, "gzip") if self.gzipped else plain
                with arrow_csv.open_csv(stream, reading, parsing, converting) as reader:
                    yield from reader
        except StopIteration:
            return
        except (pa.ArrowException, OSError, EOFError) as error:
            self._explain(error, {name: str(types[name]) for name in columns if name in types})

    def _explain(self, error: BaseException, types: Mapping[str, str]) -> None:
        """Find what pyarrow stumbled over, and raise an error that names row and column."""
        if isinstance(error, StopIteration) or "Empty CSV file" in str(error):
            return
        for row, fields in enumerate(self._records(), 1):
            if fields and len(fields) != len(self.names):
                raise DataError(
                    f"{self.path}, row {row}: has {len(fields)} fields, but the header has {len(self.names)}. Write "
                    f"{len(self.names)} fields; a text that contains {self.delimiter!r} needs quotation marks."
                ) from error
            for name, text in zip(self.names, fields, strict=False) if row > 1 else ():
                if types.get(name) == "int64" and text not in MISSING and not _is_int64(text):
                    raise DataError(
                        f"{self.path}, row {row}, column {name!r}: {shown(text)} is no integer, as the ids of the "
                        "nodes are. Write the id of a node."
                    ) from error
        raise DataError(f"{self.path}: cannot be read as CSV ({error}). Save it again as CSV in UTF-8.") from error

    def _records(self) -> Iterator[list[str]]:
        """The rows as Python reads them, slowly; the header is the first."""
        try:
            with _plain(self.path, self.gzipped) as file:
                yield from csv.reader(_decoded(file, self), delimiter=self.delimiter)
        except (csv.Error, EOFError, OSError) as error:
            raise DataError(f"{self.path}: cannot be read ({error}). Save it again as CSV in UTF-8.") from error


def columns_of(names: Iterable[str]) -> str:
    """The names of the columns there are, as an error says them.

    Example:
        >>> columns_of(["a", "b"])
        "Its columns are 'a', 'b'."
    """
    names = list(names)
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"Its columns are {', '.join(map(repr, names[:SHOWN]))}{more}."


# -------------------------------------------------------------------------------------------------------- recognition


def _open_parquet(path: Path) -> TableFile:
    from pyarrow.parquet import ParquetFile

    with _read_errors(path), ParquetFile(path) as file:
        names = tuple(file.schema_arrow.names)
    _check_names(path, names)
    return TableFile(path, "parquet", names)


def _open_csv(path: Path, gzipped: bool) -> TableFile:
    try:
        with _plain(path, gzipped) as file:
            content = file.read(LOOKED_AT)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: cannot be read ({error}). It is damaged or truncated: copy it again.") from error
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content:
        raise DataError(f"{path}: is no CSV in UTF-8 (it holds zero bytes, as UTF-16 does). Save it as CSV in UTF-8.")
    whole = len(content) < LOOKED_AT
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if whole or error.start < len(content) - 4:
            raise _not_utf8(path, content, error.start) from error
        text = content[: error.start].decode("utf-8-sig")
    lines = text if whole else text[: text.rfind("\n") + 1] or text
    if not lines.strip():
        raise DataError(f"{path}: is empty. A table has a header, the names of its columns, and rows.")
    delimiter = _delimiter(path, lines)
    names = tuple(name.strip() for name in next(row for row in csv.reader(io.StringIO(lines), delimiter=delimiter)))
    if names and not names[0] and len(names) > 1:  # pandas writes its index so
        names = ("(unnamed)", *names[1:])
    _check_names(path, names)
    return TableFile(path, "csv", names, delimiter, gzipped, '"' in text)


def _delimiter(path: Path, text: str) -> str:
    """The delimiter that gives the first rows the most fields, and all of them equally many."""
    best, most = ",", 1
    if path.name.removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    for delimiter in DELIMITERS:
        rows = []
        try:
            for row in csv.reader(io.StringIO(text), delimiter=delimiter):
                if row:
                    rows.append(len(row))
                if len(rows) == 50:
                    break
        except csv.Error:
            continue
        even = rows.count(rows[0]) / len(rows)
        if rows[0] > most and (even == 1 or (even > 0.5 and most == 1 and delimiter != " ")):
            best, most = delimiter, rows[0]
            if even == 1:
                break
    return best


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    for place, name in enumerate(names, 1):
        if not name:
            raise DataError(f"{path}, row 1: column {place} has no name. Give it one.")
        if name in names[: place - 1]:
            raise DataError(f"{path}, row 1: two columns are called {name!r}. Rename one.")
    if all(map(_is_number, names)):
        fields = ", ".join(names[:SHOWN])
        raise DataError(
            f"{path}, row 1: has no header: all its fields are numbers ({fields}). Put the names of the columns into "
            "a first row, for edges: source,target"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_int64(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63
    except ValueError:
        return False


# --------------------------------------------------------------------------------------------------------------- files


@contextmanager
def _read_errors(path: Path) -> Iterator[None]:
    pa = arrow()
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: cannot be read as Parquet ({error}). Write it again.") from error


@contextmanager
def _plain(path: Path, gzipped: bool) -> Iterator[IO[bytes]]:
    """The bytes of a CSV file, unpacked."""
    with open(path, "rb") as file:
        yield gzip.GzipFile(fileobj=file) if gzipped else file  # type: ignore[misc]  # it is one in all but name


def _decoded(file: IO[bytes], table: TableFile) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise _not_utf8(table.path, line, error.start, number, table) from error


def _not_utf8(path: Path, content: bytes, start: int, row: int = 0, table: TableFile | None = None) -> DataError:
    row = row or content.count(b"\n", 0, start) + 1
    line = content[content.rfind(b"\n", 0, start) + 1 : start]
    delimiter = table.delimiter if table else next((d for d in DELIMITERS if d.encode() in content[:4096]), ",")
    place = line.count(delimiter.encode())
    header = content[: content.find(b"\n")].decode("latin-1").removeprefix("\xef\xbb\xbf").split(delimiter)
    names = table.names if table else tuple(name.strip(' "\r') for name in header)
    column = f", column {names[place]!r}" if place < len(names) and row > 1 else f", field {place + 1}"
    return DataError(
        f"{path}, row {row}{column}: byte 0x{content[start]:02x} is no UTF-8 (the file is probably in Latin-1 or "
        "Windows-1252). Save it as CSV in UTF-8."
    )


def table_path(name: str, value: Any) -> Path:
    """The path of a table that a user gives; anything else is a :class:`~armagnn.errors.ParameterError`."""
    from armagnn.checks import path

    found = path(name, value)
    if not str(found) or str(found) == ".":
        raise ParameterError(f"{name} must be the path of a table, got {shown(value)}.")
    return found
