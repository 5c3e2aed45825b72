"""The entries of scipy's and torch's sparse formats, read safely.

The converters of scipy and torch trust the arrays of a matrix. A pointer that falls, is too short or leads beyond the
entries makes them read foreign memory and can end the process, so everything is checked first: O(N + nnz), cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.errors import ArmagnnError, GraphError, ShapeError

Array = NDArray[Any]


class Lines(NamedTuple):
    """The rows of entries that stand row by row."""

    pointer: Tensor
    """Where each row starts."""

    def ids(self) -> Tensor:
        """Return the row of each entry.

        Example:
            >>> Lines(torch.tensor([0, 2, 3])).ids()
            tensor([0, 0, 1])
        """
        counts = self.pointer.diff()
        return torch.repeat_interleave(torch.arange(len(counts), dtype=self.pointer.dtype), counts)


Coordinates = tuple[Array | Lines, Array, Array]
"""The row, the column and the value of each entry."""

AGAIN: Final = "it is corrupt, build it again"
ROWS_FIRST: Final = (torch.sparse_csr, torch.sparse_bsr)
COMPRESSED: Final = (*ROWS_FIRST, torch.sparse_csc, torch.sparse_bsc)


def check_pointer(pointer: Tensor, lines: int, entries: int, name: str) -> None:
    """Raise unless a pointer says for each of ``lines`` rows (or columns) where its entries start and end.

    Example:
        >>> check_pointer(torch.tensor([0, 2, 1]), lines=2, entries=2, name="indptr")
        Traceback (most recent call last):
        armagnn.errors.GraphError: the matrix has an indptr that falls from 2 to 1: it is corrupt, build it again.
    """
    if pointer.dim() != 1 or len(pointer) != lines + 1:
        raise GraphError(f"the matrix has an {name} of shape {tuple(pointer.shape)}, not ({lines + 1},): {AGAIN}.")
    first, last = int(pointer[0]), int(pointer[-1])
    if first != 0 or last > entries:
        raise GraphError(
            f"the matrix has an {name} from {first} to {last}, but its {entries} entries start at 0: {AGAIN}."
        )
    falls = (pointer[1:] < pointer[:-1]).nonzero()
    if len(falls):
        place = int(falls[0])
        raise GraphError(
            f"the matrix has an {name} that falls from {int(pointer[place])} to {int(pointer[place + 1])}: {AGAIN}."
        )


def check_ids(ids: Tensor, size: int, name: str) -> None:
    """Raise unless all ids lie in 0 .. size - 1."""
    if ids.numel():
        low, high = (int(v) for v in torch.aminmax(ids))
        if low < 0 or high >= size:
            raise GraphError(f"the matrix has {name} ids outside 0 to {size - 1}, e.g. {low if low < 0 else high}: "
                             f"{AGAIN}.")  # fmt: skip


# --------------------------------------------------------------------------------------------------------------- scipy


def read_scipy(matrix: Any) -> Coordinates:
    """Return the row, the column and the value of each entry of a scipy.sparse matrix, checked and not copied.

    Example:
        >>> import scipy.sparse
        >>> row, col, value = read_scipy(scipy.sparse.csr_array([[0.0, 2.0], [3.0, 0.0]]))
        >>> row.ids().tolist(), col.tolist(), value.tolist()
        ([0, 1], [1, 0], [2.0, 3.0])
    """
    try:
        row, col, value = READERS.get(matrix.format, _converted)(matrix)
        rows = int(row.pointer[-1]) if isinstance(row, Lines) else len(row)
        sizes = {rows, len(col), len(value)}
    except ArmagnnError:
        raise
    except Exception as error:  # the attributes of a matrix can be set to anything
        raise GraphError(f"the matrix cannot be read ({type(error).__name__}: {error}): {AGAIN}.") from error
    if len(sizes) > 1:
        raise GraphError(f"the matrix has {rows} rows, {len(col)} columns and {len(value)} values: {AGAIN}.")
    for name, axis, size in (("row", row, matrix.shape[0]), ("column", col, matrix.shape[1])):
        if not isinstance(axis, Lines):
            check_ids(as_tensor(axis), size, name)
    return row, col, value


def _ids(name: str, values: Any) -> Array:
    """Return ids in int32 or int64."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise GraphError(f"the matrix has {name} of type {array.dtype}, not integers: {AGAIN}.")
    if array.ndim != 1:
        raise GraphError(f"the matrix has {name} of shape {array.shape}, not one axis: {AGAIN}.")
    return array if array.dtype in (np.int32, np.int64) else array.astype(np.int64)


def as_tensor(array: Array) -> Tensor:
    """Return an array as a tensor in the same memory, unless torch does not take that."""
    plain = np.ascontiguousarray(array)
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy())


def _compressed(matrix: Any) -> Coordinates:
    """Read csr and csc."""
    by_row = matrix.format == "csr"
    pointer, index, value = _ids("indptr", matrix.indptr), _ids("indices", matrix.indices), np.asarray(matrix.data)
    lines = Lines(as_tensor(pointer))
    check_pointer(lines.pointer, matrix.shape[0 if by_row else 1], min(len(index), len(value)), "indptr")
    used = int(pointer[-1])
    index, value = index[:used], value[:used]  # scipy allows a tail that is not in use
    return (lines, index, value) if by_row else (index, lines.ids().numpy(), value)


def _blocks(matrix: Any) -> Coordinates:
    """Read bsr."""
    pointer, index, value = _ids("indptr", matrix.indptr), _ids("indices", matrix.indices), np.asarray(matrix.data)
    if value.ndim != 3 or 0 in value.shape[1:] or matrix.shape[0] % value.shape[1] or matrix.shape[1] % value.shape[2]:
        raise GraphError(f"the matrix {matrix.shape} has blocks {value.shape} that do not fit: {AGAIN}.")
    _, high, wide = value.shape
    lines = matrix.shape[0] // high
    check_pointer(as_tensor(pointer), lines, min(len(index), len(value)), "indptr")
    line = np.repeat(np.arange(lines), np.diff(pointer))
    index, value = index[: len(line)], value[: len(line)]
    row = line[:, None, None] * high + np.arange(high)[:, None]
    col = index[:, None, None] * wide + np.arange(wide)
    row, col = np.broadcast_to(row, value.shape), np.broadcast_to(col, value.shape)
    return row.ravel(), col.ravel(), value.ravel()


def _coordinates(matrix: Any) -> Coordinates:
    """Read coo."""
    if len(matrix.coords) != 2:
        raise GraphError(f"the matrix has {len(matrix.coords)} coordinates for each entry: {AGAIN}.")
    row, col = matrix.coords
    return _ids("row ids", row), _ids("column ids", col), np.asarray(matrix.data)


def _diagonals(matrix: Any) -> Coordinates:
    """Read dia."""
    offsets, value = _ids("offsets", matrix.offsets), np.asarray(matrix.data)
    if value.ndim != 2 or len(value) != len(offsets):
        raise GraphError(f"the matrix has {len(offsets)} offsets and diagonals of shape {value.shape}: {AGAIN}.")
    rows, cols = matrix.shape
    value = value[:, :cols]
    col = np.broadcast_to(np.arange(value.shape[1]), value.shape)
    row = col - offsets[:, None]
    inside = (row >= 0) & (row < rows) & (value != 0)  # what lies outside is padding
    return row[inside], col[inside], value[inside]


def _lists(matrix: Any) -> Coordinates:
    """Read lil."""
    if len(matrix.rows) != matrix.shape[0] or len(matrix.data) != matrix.shape[0]:
        raise GraphError(f"the matrix has {len(matrix.rows)} lists for {matrix.shape[0]} rows: {AGAIN}.")
    counts = [len(ids) for ids in matrix.rows]
    if counts != [len(values) for values in matrix.data]:
        raise GraphError(f"the matrix has a row with more ids than values, or fewer: {AGAIN}.")
    col = _ids("column ids", [number for ids in matrix.rows for number in ids])
    value = np.array([number for values in matrix.data for number in values], dtype=matrix.dtype)
    return np.repeat(np.arange(len(counts)), counts), col, value


def _converted(matrix: Any) -> Coordinates:
    """Read dok, and formats of scipy's future, by scipy itself: no arrays that it would have to trust."""
    return _coordinates(matrix.tocoo())


READERS: Final[dict[str, Callable[[Any], Coordinates]]] = {
    "csr": _compressed,
    "csc": _compressed,
    "bsr": _blocks,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
}


# --------------------------------------------------------------------------------------------------------------- torch


def check_torch_sparse(matrix: Tensor) -> None:
    """Raise unless the ids and pointers of a torch.sparse matrix stay within it."""
    plain = matrix.detach()
    if plain.layout is torch.sparse_coo:
        for ids, size, name in zip(plain._indices(), plain.shape, ("row", "column"), strict=True):
            check_ids(ids, size, name)
        return
    if plain.layout not in COMPRESSED:
        raise GraphError(f"the matrix has the layout {plain.layout}: pass COO, CSR, CSC, BSR or BSC.")
    by_row = plain.layout in ROWS_FIRST
    pointer, index = (
        (plain.crow_indices(), plain.col_indices()) if by_row else (plain.ccol_indices(), plain.row_indices())
    )
    block = tuple(plain.values().shape[1:]) or (1, 1)
    if 0 in block or plain.shape[0] % block[0] or plain.shape[1] % block[1]:
        raise ShapeError(f"the matrix {tuple(plain.shape)} has blocks {block} that do not fit: {AGAIN}.")
    down, across = (plain.shape[axis] // block[axis] for axis in (0, 1))
    lines, width = (down, across) if by_row else (across, down)
    name, other = ("crow_indices", "column") if by_row else ("ccol_indices", "row")
    entries = len(plain.values())
    check_pointer(pointer, lines, entries, name)
    if int(pointer[-1]) != entries or index.shape != (entries,):
        raise GraphError(
            f"the matrix has {entries} values, {name} up to {int(pointer[-1])} and {other} ids of shape "
            f"{tuple(index.shape)}: {AGAIN}."
        )
    check_ids(index, width, other)
