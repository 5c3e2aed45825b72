"""Entries in any order to compressed rows, in place where it can be: what an operator is built with on the processor.

Two passes over the entries sort them by row, then column, then position: the first puts them into the order of their
columns, the second goes through the columns and puts each entry at the end of its row. Besides the result that takes
the memory of one more copy of it, and no permutation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.cpu.compile import Array, compiled, to_numpy
from armagnn.kernels.reference import LONG


@compiled()
def _by_column(
    row: Array, lines: bool, col: Array, value: Array, loops: int, loop: Any, ends: Array, rows: Array, values: Array
) -> None:
    # `ends` holds where each column starts, then, when it is full, where it ends
    for j in range(col.size):
        ends[col[j] + 1] += 1
    for i in range(loops):
        ends[i + 1] += 1
    for c in range(ends.size - 1):
        ends[c + 1] += ends[c]
    step = 0 if value.size == 1 else 1  # one value may stand for all
    if lines:
        for i in range(row.size - 1):
            for j in range(row[i], row[i + 1]):
                place = ends[col[j]]
                rows[place], values[place] = i, value[j * step]
                ends[col[j]] = place + 1
    else:
        for j in range(col.size):
            place = ends[col[j]]
            rows[place], values[place] = row[j], value[j * step]
            ends[col[j]] = place + 1
    for i in range(loops):
        place = ends[i]
        rows[place], values[place] = i, loop
        ends[i] = place + 1


@compiled()
def _by_row(ends: Array, rows: Array, values: Array, pointer: Array, col: Array, value: Array) -> None:
    for j in range(rows.size):
        pointer[rows[j] + 1] += 1
    for i in range(pointer.size - 1):
        pointer[i + 1] += pointer[i]
    start = 0
    for c in range(ends.size - 1):
        for j in range(start, ends[c]):
            place = pointer[rows[j]]
            col[place], value[place] = c, values[j]
            pointer[rows[j]] = place + 1
        start = ends[c]
    for i in range(pointer.size - 1, 0, -1):
        pointer[i] = pointer[i - 1]
    pointer[0] = 0


@compiled()
def _sum(value: Array, start: int, end: int, zero: Any) -> float:
    # as `gather` has it: in pieces whose sums are added up in float64
    if end - start <= LONG:
        total = zero
        for j in range(start, end):
            total += value[j]
        return float(total)
    exact = 0.0
    for begin in range(start, end, LONG):
        total = zero
        for j in range(begin, min(begin + LONG, end)):
            total += value[j]
        exact += total
    return exact


@compiled()
def _merge(pointer: Array, col: Array, value: Array, zero: Any) -> int:
    place = start = 0
    for i in range(pointer.size - 1):
        end = pointer[i + 1]
        j = start
        while j < end:
            c, stop = col[j], j + 1
            while stop < end and col[stop] == c:
                stop += 1
            value[place] = value[j] if stop == j + 1 else _sum(value, j, stop, zero)
            col[place] = c
            place, j = place + 1, stop
        pointer[i + 1] = place
        start = end
    return place


@compiled()
def _mirrored(pointer: Array, col: Array, value: Array, next_of: Array) -> bool:
    # Rows are gone through in order, so the entries of column c are met in the order of those of row c.
    for i in range(pointer.size - 1):
        for j in range(pointer[i], pointer[i + 1]):
            c = col[j]
            k = next_of[c]
            if k >= pointer[c + 1] or col[k] != i or value[k] != value[j]:
                return False
            next_of[c] = k + 1
    return True


@compiled()
def _degrees(pointer: Array, value: Array, degree: Array) -> None:
    for i in range(pointer.size - 1):
        exact = 0.0
        for begin in range(pointer[i], pointer[i + 1], LONG):
            total = 0.0
            for j in range(begin, min(begin + LONG, pointer[i + 1])):
                total += value[j]
            exact += total
        degree[i] = exact


@compiled()
def _scale(pointer: Array, col: Array, value: Array, scale: Array) -> None:
    for i in range(pointer.size - 1):
        own = scale[i]
        for j in range(pointer[i], pointer[i + 1]):
            value[j] *= own * scale[col[j]]


@compiled()
def _add_to_diagonal(pointer: Array, col: Array, value: Array, number: Any, zero: Any, negative: bool) -> None:
    for i in range(pointer.size - 1):
        for j in range(pointer[i], pointer[i + 1]):
            added = number if col[j] == i else zero
            value[j] = added - value[j] if negative else value[j] + added


@compiled()
def _transpose(rowptr: Array, col: Array, ends: Array, t_col: Array, perm: Array) -> None:
    for j in range(col.size):
        ends[col[j] + 1] += 1
    for c in range(ends.size - 1):
        ends[c + 1] += ends[c]
    for i in range(rowptr.size - 1):
        for j in range(rowptr[i], rowptr[i + 1]):
            place = ends[col[j]]
            t_col[place], perm[place] = i, j
            ends[col[j]] = place + 1
    for c in range(ends.size - 1, 0, -1):
        ends[c] = ends[c - 1]
    ends[0] = 0


class _Memory:
    """A tensor's numbers as numpy sees the memory of others.

    ``Tensor.numpy`` would mark the memory of a tensor as lent to numpy. These tensors are the user's, and are only read
    here: `armagnn.operators.kept` asks for the mark.
    """

    def __init__(self, tensor: Tensor) -> None:
        kind = {torch.int32: "i4", torch.int64: "i8", torch.float32: "f4", torch.float64: "f8"}[tensor.dtype]
        self.tensor = tensor  # it lives as long as the array
        self.__array_interface__ = {
            "data": (tensor.data_ptr(), False), "shape": tuple(tensor.shape),
            "typestr": np.dtype(kind).str, "version": 3,
        }  # fmt: skip


def _view(tensor: Tensor) -> Array:
    return np.asarray(_Memory(tensor.detach().contiguous())) if tensor.numel() else to_numpy(tensor)


def in_rows(
    row: Tensor, lines: bool, col: Tensor, value: Tensor, shape: tuple[int, int], dtype: torch.dtype,
    loop: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return (rowptr, col, value) in canonical order, entries at one place added up.

    Args:
        row: the row of each entry, or, where ``lines``, where each row starts.
        lines: which of the two it is.
        col: the column of each entry. All ids must lie within the shape.
        value: the value of each entry, or one number for all.
        shape: of the matrix.
        dtype: of the result, float32 or float64; of values that it can hold.
        loop: a value to add to each diagonal entry, stored also where it is zero; None for no such entries.
    """
    loops = 0 if loop is None else min(shape)
    count = col.shape[0] + loops
    ids = np.int32 if max(*shape, count) < 2**31 else np.int64
    kind = np.float64 if dtype == torch.float64 else np.float32
    ends, rows, values = np.zeros(shape[1] + 1, dtype=ids), np.empty(count, dtype=ids), np.empty(count, dtype=kind)
    given = _view(row), lines, _view(col), _view(value)
    _by_column(*given, loops, kind(loop or 0.0), ends, rows, values)
    pointer, columns, sums = np.zeros(shape[0] + 1, dtype=ids), np.empty_like(rows), np.empty_like(values)
    _by_row(ends, rows, values, pointer, columns, sums)
    del rows, values
    left = _merge(pointer, columns, sums, kind(0))
    if left < count:
        columns, sums = columns[:left].copy(), sums[:left].copy()
    return torch.from_numpy(pointer), torch.from_numpy(columns), torch.from_numpy(sums)


def is_mirrored(rowptr: Tensor, col: Tensor, value: Tensor) -> bool:
    """Return whether a square matrix in canonical order is its transpose, to the last bit."""
    pointer = to_numpy(rowptr)
    return bool(_mirrored(pointer, to_numpy(col), to_numpy(value), pointer[:-1].copy()))


def degrees(rowptr: Tensor, value: Tensor) -> Tensor:
    """Return the sums of the rows in float64, shape (M, 1)."""
    found = np.empty((rowptr.shape[0] - 1, 1))
    _degrees(to_numpy(rowptr), to_numpy(value), found[:, 0])
    return torch.from_numpy(found)


def scale_in_place(rowptr: Tensor, col: Tensor, value: Tensor, scale: Tensor) -> None:
    """Multiply each value (i, j) by ``scale[i] * scale[j]``."""
    _scale(to_numpy(rowptr), to_numpy(col), value.numpy(), to_numpy(scale))


def add_to_diagonal(rowptr: Tensor, col: Tensor, value: Tensor, number: float, negative: bool = False) -> None:
    """Make ``value`` A that of A + number I, or of number I - A where ``negative``, on the same pattern."""
    array = value.numpy()
    kind = array.dtype.type
    _add_to_diagonal(to_numpy(rowptr), to_numpy(col), array, kind(number), kind(0), negative)


def transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (rowptr, col, perm) of the transposed matrix; its values are ``value[perm]``."""
    columns = to_numpy(col)
    ends = np.zeros(num_cols + 1, dtype=columns.dtype)
    t_col, perm = np.empty_like(columns), np.empty_like(columns)
    _transpose(to_numpy(rowptr), columns, ends, t_col, perm)
    return torch.from_numpy(ends), torch.from_numpy(t_col), torch.from_numpy(perm)
