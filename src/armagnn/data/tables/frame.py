"""A table that was read: its columns, and how an error names a place in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from armagnn.errors import DataError, DTypeError, shown
from armagnn.table_files import TableFile, arrow, columns_of

FORMS: Final = (
    "the path of a CSV or Parquet file, a DataFrame of pandas or polars, a pyarrow.Table, or a dict of arrays"
)


@dataclass(frozen=True)
class Frame:
    """Columns of one length, with names.

    Attributes:
        source: what errors call the table: its path, or "nodes".
        columns: a ``pyarrow.Table``.
        first: the number of the first row of values, as errors count: 2 in a file with a header, 0 in memory.
        texts: was it read from CSV, where every value is a text?
        path: the file, if it was one.

    Example:
        >>> table = Frame.of({"id": ["a", "b"], "age": [3, 4]}, "nodes")
        >>> table.names, len(table), table.where(1, "age")
        (('id', 'age'), 2, "nodes, row 1, column 'age'")
    """

    source: str
    columns: Any
    first: int = 0
    texts: bool = False
    path: Path | None = None

    @classmethod
    def of(cls, value: Any, name: str) -> Frame:
        """The table that a user gives in any of :data:`FORMS`; `name` is what errors call one in memory."""
        if isinstance(value, Frame):
            return value
        if isinstance(value, str | os.PathLike):
            return cls.read(Path(value))
        pa = arrow()
        if isinstance(value, Mapping):
            return cls(name, _of_arrays(value, name))
        try:
            columns = value if isinstance(value, pa.Table) else pa.table(value)
        except Exception as error:  # of what is no table: TypeError; of mixed columns, what pandas and arrow raise
            known = hasattr(value, "columns") or hasattr(value, "__arrow_c_stream__")
            if known:
                raise DataError(f"{name}: {str(error).splitlines()[0]}. A column has values of one kind.") from error
            raise DTypeError(f"{name} must be {FORMS}, got {shown(value)}.") from error
        index = "__index_level_0__"  # the index of pandas
        return cls(name, _plain(columns.drop_columns([index]) if index in columns.column_names else columns))

    @classmethod
    def read(cls, path: Path) -> Frame:
        """The table in a file."""
        file = TableFile.open(path)
        csv = file.form == "csv"
        return cls(str(path), _plain(file.read()), 2 if csv else 1, csv, path)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.columns.column_names)

    def __len__(self) -> int:
        return int(self.columns.num_rows)

    def require(self, name: str, option: str = "") -> None:
        """Refuse a column that is not there."""
        if name not in self.names:
            asked = f" (--{option})" if option else ""
            raise DataError(f"{self.source}: has no column {name!r}{asked}. {columns_of(self.names)}")

    def column(self, name: str) -> Any:
        """A column, as one ``pyarrow.Array``."""
        found = self.columns.column(name)
        return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)

    def where(self, row: int, column: str = "") -> str:
        """The place of a value, as an error says it."""
        place = f"{self.source}, row {row + self.first}"
        return f"{place}, column {column!r}" if column else place


def _plain(columns: Any) -> Any:
    """The same table with one type of text: other libraries have three of them."""
    pa = arrow()
    kinds = pa.types
    for place, each in enumerate(columns.schema):
        if kinds.is_large_string(each.type) or kinds.is_string_view(each.type):
            columns = columns.set_column(place, each.name, columns.column(place).cast(pa.string()))
    return columns


def _of_arrays(value: Mapping[Any, Any], name: str) -> Any:
    pa = arrow()
    columns = {}
    for key, each in value.items():
        plain = each.numpy(force=True) if isinstance(each, torch.Tensor) else each
        try:
            columns[str(key)] = pa.array(list(plain) if getattr(plain, "ndim", 1) == 2 else plain)
        except Exception as error:  # whatever arrow and foreign arrays raise
            why = str(error).splitlines()[0]
            raise DataError(f"{name}, column {str(key)!r}: is no array of one kind of values ({why}).") from error
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"{name}: its columns have different lengths: {shown(lengths)}.")
    if not columns:
        raise DataError(f"{name}: has no columns.")
    return pa.table(columns)
