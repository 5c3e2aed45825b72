"""Numbers by commas, line by line: read fast, and where something is wrong, the line is named."""

from __future__ import annotations

import codecs
import re
import warnings
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.errors import DataError

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DIGITS: Final = 40
"""Of an integer that is read at all; Python refuses very many."""


def read_table(
    content: bytes, source: str, dtype: type[np.int64] | type[np.float64], columns: int | None
) -> NDArray[Any]:
    """Return the numbers of a text file, (lines, columns); with `columns` None, as many as the first line has.

    An empty file has no lines; blank lines may be at the end only. Reals must be finite, also as float32. A byte order
    mark, as Windows writes one, is no number.

    Example:
        >>> read_table(b"1, 2\\n3, 4\\n", "A.txt", np.int64, 2)
        array([[1, 2],
               [3, 4]])
        >>> read_table(b"1\\n2.5\\n", "labels.txt", np.int64, 1)
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: labels.txt, line 2: '2.5' is not an integer.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(f"{source}, line {line}: has a character that is not of a number.") from error
    lines = re.split(r"\r\n|\n|\r", text.rstrip())
    if lines == [""]:
        return np.empty((0, columns or 1), dtype=dtype)
    width = columns or lines[0].count(",") + 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # early numpy 2 takes "1.0" for an integer, with a warning
            values = np.loadtxt(lines, dtype=dtype, delimiter=",", comments=None, ndmin=2)
        good = values.shape == (len(lines), width) and _finite(values)
    except (ValueError, OverflowError, Warning):
        good = False
    if not good:  # the slow way knows the line
        values = np.array([_row(line, f"{source}, line {i}", dtype, width) for i, line in enumerate(lines, 1)], dtype)
    return values


def _finite(values: NDArray[Any]) -> bool:
    return bool((np.abs(values) <= np.finfo(np.float32).max).all())


def _row(line: str, where: str, dtype: type, width: int) -> list[int | float]:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != width or not line.strip():
        raise DataError(f"{where}: has {len(cells) if line.strip() else 0} numbers; it must have {width}.")
    return [_number(cell, where, dtype) for cell in cells]


def _number(cell: str, where: str, dtype: type) -> int | float:
    if dtype is np.int64:
        if not _INTEGER.fullmatch(cell):
            raise DataError(f"{where}: {cell!r} is not an integer.")
        if len(cell) > _DIGITS or not -(2**63) <= int(cell) < 2**63:
            raise DataError(f"{where}: {cell[:_DIGITS]!r} is not an integer of 64 bits.")
        return int(cell)
    try:
        number = float("no" if "_" in cell else cell)  # Python takes 1_000 for a number, nobody else does
    except ValueError:
        raise DataError(f"{where}: {cell!r} is not a number.") from None
    if not _finite(np.array(number)):
        raise DataError(f"{where}: {cell!r} is not finite as float32.")
    return number
