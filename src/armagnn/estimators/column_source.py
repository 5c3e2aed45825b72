"""Columns of features that may be larger than memory: of an array, an .npy file or a table, read a few at a time."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.checks import path as check_path
from armagnn.errors import DataError, DTypeError, shown
from armagnn.table_files import TableFile, arrow

PIECE: Final = 2**25
"""Bytes of a file that are read or written at a time."""

Array = NDArray[Any]


class ColumnSource(ABC):
    """A matrix (N, F) of real numbers, of which some columns are read at a time.

    Attributes:
        source: what errors call it.
        rows: N.
        names: of the F columns.
    """

    source: str
    rows: int
    names: tuple[str, ...]

    @staticmethod
    def of(value: Any, columns: Sequence[str] = ()) -> ColumnSource:
        """Return the source of an array (N, F), of an .npy file with one, or of a CSV or Parquet file.

        Args:
            value: the array or the path.
            columns: of a table, which; all of them by default.

        Example:
            >>> source = ColumnSource.of(np.arange(6.0).reshape(3, 2))
            >>> source.names, source.read(1, 2, np.dtype(np.float32)).tolist()
            (('x0', 'x1'), [[1.0], [3.0], [5.0]])
        """
        if isinstance(value, ColumnSource):
            return value
        if isinstance(value, str | os.PathLike):
            path = check_path("features", value)
            if path.suffix != ".npy":
                return TableColumns(path, columns)
            value, source = _mapped(path), str(path)
        else:
            source = "features"
            try:
                value = np.asarray(value)
            except Exception as error:  # whatever a foreign __array__ raises
                raise DTypeError(f"features must be an array (N, F) or a file, got {shown(value)}.") from error
        return ArrayColumns(value, source)

    @abstractmethod
    def read(self, first: int, stop: int, dtype: np.dtype[Any]) -> Array:
        """Return the columns first .. stop - 1, shape (N, stop - first), all of them finite."""

    @abstractmethod
    def digest(self) -> str:
        """Return a SHA-256 of the whole content."""

    def _checked(self, found: Array, first: int) -> Array:
        for place in range(found.shape[1]):
            bad = ~np.isfinite(found[:, place])
            if bad.any():
                raise DataError(
                    f"{self.source}, row {int(bad.argmax())}, column {self.names[first + place]!r}: is not finite (or "
                    "too large for the type). Fill in or leave out what is missing."
                )
        return found


class ArrayColumns(ColumnSource):
    """The columns of an array, which may be mapped from a file."""

    def __init__(self, array: Array, source: str) -> None:
        if array.ndim != 2 or array.dtype.kind not in "fiub" or not array.shape[0] or not array.shape[1]:
            raise DTypeError(
                f"{source} must be a matrix (N, F) of real numbers, got {array.dtype} of shape {array.shape}."
            )
        self.array, self.source, self.rows = array, source, array.shape[0]
        self.names = tuple(f"x{column}" for column in range(array.shape[1]))

    def read(self, first: int, stop: int, dtype: np.dtype[Any]) -> Array:
        """Return some columns."""
        found = np.empty((self.rows, stop - first), dtype=dtype)
        for low, high, piece in self._pieces():
            with np.errstate(over="ignore"):
                found[low:high] = piece[:, first:stop]
        return self._checked(found, first)

    def digest(self) -> str:
        """Return a SHA-256 of type, shape and numbers, row by row."""
        found = hashlib.sha256(f"{self.array.dtype.str} {self.array.shape}".encode())
        for _, _, piece in self._pieces():
            found.update(np.ascontiguousarray(piece).data)
        return found.hexdigest()

    def _pieces(self) -> Any:
        step = max(1, PIECE // (self.array.shape[1] * self.array.itemsize))
        for low in range(0, self.rows, step):
            yield low, min(low + step, self.rows), self.array[low : low + step]
            release(self.array)


class TableColumns(ColumnSource):
    """Numeric columns of a CSV or Parquet file; one pass over the file for each call of `read`."""

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        self.file, self.source = TableFile.open(path), str(path)
        self.names = tuple(columns) or self.file.names
        for name in self.names:
            self.file.require(name)
        self.rows = sum(batch.num_rows for batch in self.file.batches(self.names[:1]))
        if not self.rows:
            raise DataError(f"{path}: has no rows.")

    def read(self, first: int, stop: int, dtype: np.dtype[Any]) -> Array:
        """Return some columns."""
        pa, names = arrow(), self.names[first:stop]
        found, row = np.empty((self.rows, stop - first), dtype=dtype), 0
        for batch in self.file.batches(names):
            for place, name in enumerate(names):
                column = batch.column(name)
                if column.null_count:
                    bad = row + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                    raise DataError(f"{self.source}, row {bad}, column {name!r}: is empty. Fill it in.")
                try:
                    numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
                except pa.ArrowException as error:
                    raise DataError(
                        f"{self.source}: column {name!r} must hold numbers: {error}. Encode it, or name the columns "
                        "that are features."
                    ) from error
                with np.errstate(over="ignore"):
                    found[row : row + batch.num_rows, place] = numbers
            row += batch.num_rows
        return self._checked(found, first)

    def digest(self) -> str:
        """Return a SHA-256 of the file and of the names."""
        with open(self.file.path, "rb") as file:
            found = hashlib.file_digest(file, "sha256")
        found.update(repr(self.names).encode())
        return found.hexdigest()


def _mapped(path: Path) -> Array:
    """Return the array in an .npy file, mapped and not read; objects are refused."""
    try:
        found: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(
            f"{path}: is no .npy file with an array of numbers ({error}). Write it with numpy.save."
        ) from error
    return found


def release(array: Array) -> None:
    """Let go of the pages of an array that is mapped from a file: they count as memory in use, and are on the disk."""
    mapped: Any = getattr(array, "_mmap", None)
    if hasattr(mapped, "madvise") and getattr(array, "mode", "c") != "c":  # changes to a private copy are nowhere else
        import mmap

        mapped.madvise(mmap.MADV_DONTNEED)
