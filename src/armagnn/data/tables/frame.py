"""A table that was read: its columns, the ids of its nodes, and how an error names a place in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

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


# ------------------------------------------------------------------------------------------------------------------ ids


ID_NAMES: Final = ("id", "node", "node_id", "nodeid", "index", "key", "name", "(unnamed)")
"""Usual names of the column of ids, the most usual first."""

SPREAD: Final = 8
"""Integers that lie in a range of at most this many times their number are looked up in a table."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NodeIds:
    """The id of each node: integers if all are such, else texts.

    Attributes:
        values: (N,) int64, or a ``pyarrow.Array`` of texts.
        name: the column.

    Example:
        >>> ids = NodeIds.of(Frame.of({"id": ["7", "3", "12"]}, "nodes"), "id")
        >>> ids.find(Frame.of({"u": [12, 5]}, "edges").column("u")).tolist(), list(ids)
        ([2, -1], [7, 3, 12])
    """

    values: Any
    name: str = "node"

    @classmethod
    def of(cls, table: Frame, name: str) -> NodeIds:
        """The ids in a column, each of which must be there and be another one."""
        import pyarrow.compute as pc

        column = table.column(name)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise DataError(f"{table.where(row, name)}: the id is missing. Every node needs one.")
        values = as_ids(column)
        texts = values if isinstance(values, np.ndarray) else values.dictionary_encode().indices.to_numpy()
        unique, first = np.unique(texts, return_index=True)
        if len(unique) < len(texts):
            again = np.ones(len(texts), dtype=bool)
            again[first] = False
            row = int(again.argmax())
            before = int((texts[:row] == texts[row]).argmax())
            raise DataError(
                f"{table.where(row, name)}: the id {shown(pc.take(column, [row])[0].as_py())} was there before, in row "
                f"{before + table.first} ({int(again.sum())} ids come again). Every node needs an id of its own."
            )
        return cls(values, name)

    @classmethod
    def counted(cls, count: int, name: str = "node") -> NodeIds:
        """The ids 0 .. count - 1."""
        return cls(np.arange(count), name)

    @property
    def integers(self) -> bool:
        """Are all ids integers of 64 bits?"""
        return isinstance(self.values, np.ndarray)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return iter(self.values.tolist() if self.integers else self.values.to_pylist())

    def take(self, rows: Iterable[int]) -> list[Any]:
        """The ids of some nodes."""
        return list(self.part(rows))

    def part(self, rows: Iterable[int]) -> NodeIds:
        """The ids of some nodes, as ids."""
        chosen = np.fromiter(rows, dtype=np.int64)
        return NodeIds(self.values[chosen] if self.integers else self.values.take(arrow().array(chosen)), self.name)

    def joined(self, other: NodeIds) -> NodeIds:
        """These ids, then those of `other`."""
        if self.integers and other.integers:
            return NodeIds(np.concatenate([self.values, other.values]), self.name)
        return NodeIds(arrow().concat_arrays([_texts(self.values), _texts(other.values)]), self.name)

    def find(self, column: Any) -> Integers:
        """The number of the node that each id of a ``pyarrow.Array`` names; -1 of one that no node has."""
        import pyarrow.compute as pc

        pa = arrow()
        if not self.integers:
            found = pc.index_in(_texts(column), value_set=self.values)
            return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
        if not pa.types.is_integer(column.type):
            wanted = as_ids(column.fill_null(""))
            if not isinstance(wanted, np.ndarray):
                texts = _texts(self.values)
                found = pc.index_in(wanted, value_set=texts)
                return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
            return self._number(wanted, None)
        known = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
        wanted = as_ids(column.fill_null(0))
        return self._number(wanted, known) if isinstance(wanted, np.ndarray) else np.full(len(column), -1)

    def _number(self, wanted: Integers, known: NDArray[np.bool_] | None) -> Integers:
        low, places, order = self._index
        if order is None:
            inside = (wanted >= low) & (wanted < low + len(places))
            found = np.where(inside, places[np.where(inside, wanted - low, 0)], -1)
        else:
            at = np.minimum(np.searchsorted(places, wanted), len(places) - 1)
            found = np.where(places[at] == wanted, order[at], -1)
        return found if known is None else np.where(known, found, -1)

    @cached_property
    def _index(self) -> tuple[int, Integers, Integers | None]:
        """The smallest id and the number of the node of each id from there on; or sorted ids and their numbers."""
        ids: Integers = self.values
        low, high = int(ids.min()), int(ids.max())
        if high - low < SPREAD * len(ids) + 1024:
            places = np.full(high - low + 1, -1, dtype=np.int64)
            places[ids - low] = np.arange(len(ids))
            return low, places, None
        order = np.argsort(ids)
        return 0, ids[order], order

    def digest(self) -> str:
        """A SHA-256 of the ids."""
        found = hashlib.sha256(f"{len(self)} {self.integers}".encode())
        found.update(self.values.tobytes() if self.integers else "\0".join(self).encode())
        return found.hexdigest()


def as_column(ids: NodeIds) -> Any:
    """Ids as a ``pyarrow.Array``."""
    return arrow().array(ids.values) if ids.integers else ids.values


def as_ids(column: Any) -> Any:
    """Ids as int64, if all are integers that are written as such ("7", not "07"), else as texts.

    Example:
        >>> as_ids(arrow().array(["7", "12"])), as_ids(arrow().array([2.0])).tolist()
        (array([ 7, 12]), [2])
        >>> as_ids(arrow().array(["07", "18446744073709551616"])).to_pylist()
        ['07', '18446744073709551616']
    """
    import pyarrow.compute as pc

    pa = arrow()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    try:
        numbers = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _texts(column)
    if texts and not pc.all(pc.equal(numbers.cast(column.type), column)).as_py():
        return _texts(column)
    return numbers.to_numpy(zero_copy_only=False) if len(numbers) else np.empty(0, dtype=np.int64)


def _texts(values: Any) -> Any:
    pa = arrow()
    if isinstance(values, np.ndarray):
        values = pa.array(values)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    try:
        return values if values.type == pa.string() else values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"ids must be texts or integers, got {values.type}.") from error
