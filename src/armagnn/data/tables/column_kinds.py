"""What a column of a table is (numbers, true or false, dates, categories, free text), and its values as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from armagnn.data.tables.frame import Frame
from armagnn.errors import DataError, shown
from armagnn.table_files import arrow

Kind = Literal["number", "boolean", "date", "category", "text"]
KINDS: Final = get_args(Kind)

MOSTLY: Final = 0.8
"""The share of values that are numbers (or dates) from which on the others are taken for mistakes."""

TRUE: Final = ("true", "yes", "t", "y")
FALSE: Final = ("false", "no", "f", "n")

DATES: Final = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")
"""The forms of dates that are recognised, besides those of ISO 8601 that pyarrow reads."""

Reals = NDArray[np.float64]


def kind_of(table: Frame, name: str) -> Kind:
    """The kind of a column, by its values; a few that do not fit are an error, as nobody means them.

    Example:
        >>> table = Frame.of({"a": ["1", "2.5", None], "b": ["yes", "no", "no"], "c": ["x", "1", "y"]}, "nodes")
        >>> [kind_of(table, name) for name in table.names]
        ['number', 'boolean', 'category']
    """
    import pyarrow.types as types

    column = table.column(name)
    kind = column.type
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if types.is_dictionary(kind) and types.is_integer(kind.value_type):
        return "category"
    if not (types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind)):
        raise DataError(
            f"{table.source}, column {name!r}: holds {kind}, which is no feature. Leave it out with --ignore."
        )
    if _casts_to_reals(column):
        return "number"
    values = unique_texts(column)
    if set(map(str.lower, values)) <= {*TRUE, *FALSE}:
        return "boolean"
    some: tuple[tuple[Kind, Callable[[str], Any]], ...] = (("number", to_number), ("date", to_date))
    for found, read in some:
        wrong = [value for value in values if read(value) is None]
        if not wrong:
            return found
        if len(wrong) <= (1 - MOSTLY) * len(values) and len(values) > 5:
            row = _row_of(column, wrong[0])
            raise DataError(
                f"{table.where(row, name)}: {shown(wrong[0])} is no {found}, but {len(values) - len(wrong)} of the "
                f"{len(values)} different values of the column are. Correct it, leave it empty, or take the column as "
                f"categories with --categories {name}"
            )
    return "category"


def numbers_of(table: Frame, name: str) -> Reals:
    """A column as numbers; NaN where there is none. Booleans are 0 and 1.

    Example:
        >>> numbers_of(Frame.of({"a": ["1", None, "2,5"]}, "nodes"), "a")
        array([1. , nan, 2.5])
    """
    pa = arrow()
    column = table.column(name)
    try:
        plain = column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        found = plain.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        words = {word: to_number(word) for word in unique_texts(column)}
        words |= {word: float(word.lower() in TRUE) for word in words if word.lower() in (*TRUE, *FALSE)}
        odd = next((word for word, number in words.items() if number is None), None)
        if odd is not None:
            raise DataError(f"{table.where(_row_of(column, odd), name)}: {shown(odd)} is no number.") from None
        found = _mapped(column, words)
    infinite = np.isinf(found)
    if infinite.any():
        row = int(infinite.argmax())
        raise DataError(f"{table.where(row, name)}: the number is infinite. Leave it empty, or write a number.")
    return np.array(found)


def seconds_of(table: Frame, name: str) -> Reals:
    """A column of dates as seconds since 1970; NaN where there is none.

    Example:
        >>> seconds_of(Frame.of({"a": ["1970-01-02", None]}, "nodes"), "a")
        array([86400.,    nan])
    """
    pa = arrow()
    column = table.column(name)
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        whole = column.cast(pa.timestamp("us", getattr(column.type, "tz", None))).cast(pa.int64())
        found: Reals = whole.cast(pa.float64()).to_numpy(zero_copy_only=False) / 1e6
        return found
    words = {word: to_date(word) for word in unique_texts(column)}
    odd = next((word for word, number in words.items() if number is None), None)
    if odd is not None:
        raise DataError(f"{table.where(_row_of(column, odd), name)}: {shown(odd)} is no date such as 2024-03-31.")
    return _mapped(column, words)


def texts_of(table: Frame, name: str) -> Any:
    """A column as texts, a ``pyarrow.Array``; empty where there is none. A whole number has no ".0".

    Example:
        >>> texts_of(Frame.of({"a": [1.0, None, 2.0]}, "nodes"), "a").to_pylist()
        ['1', '', '2']
    """
    import pyarrow.compute as pc

    pa = arrow()
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        plain = column.to_numpy(zero_copy_only=False)
        there = plain[~np.isnan(plain)]
        column = pc.if_else(pc.is_nan(column), None, column)
        if len(there) and (there == np.round(there)).all() and np.abs(there).max() < 2**53:
            column = column.cast(pa.int64())
    if pa.types.is_boolean(column.type):
        column = pc.if_else(column, "true", "false")
    return column.cast(pa.string()).fill_null("")


def unique_texts(column: Any) -> list[str]:
    """The different texts of a column, in the order in which they come."""
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return [value for value in column.unique().to_pylist() if value is not None and value != ""]


def to_number(text: str) -> float | None:
    """A number as people write it, with a point or a comma; None if it is none.

    Example:
        >>> to_number(" 2.5"), to_number("2,5"), to_number("1_000"), to_number("x")
        (2.5, 2.5, None, None)
    """
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    if text.count(",") != 1 or "." in text:
        return None
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def to_date(text: str) -> float | None:
    """A date, with or without a time, as seconds since 1970; None if it is none.

    Example:
        >>> to_date("1970-01-02"), to_date("02.01.1970"), to_date("2"), to_date("1970-01-01T00:01:00+00:00")
        (86400.0, 86400.0, None, 60.0)
    """
    import datetime

    text = text.strip()
    if len(text) < 8 or not text[0].isdigit():
        return None
    found = None
    try:
        found = datetime.datetime.fromisoformat(text) if not text.isdigit() else None
    except ValueError:
        for form in DATES:
            try:
                found = datetime.datetime.strptime(text, form)
                break
            except ValueError:
                continue
    if found is None:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()


def _casts_to_reals(column: Any) -> bool:
    pa = arrow()
    try:
        column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _row_of(column: Any, value: str) -> int:
    import pyarrow.compute as pc

    return int(pc.index(column.cast(arrow().string()), value).as_py())


def _mapped(column: Any, words: dict[str, float | None]) -> Reals:
    """Each text of a column replaced by its number; NaN where there is none."""
    coded = column if arrow().types.is_dictionary(column.type) else column.dictionary_encode()
    known = [words.get(word) if word is not None else None for word in coded.dictionary.to_pylist()]
    table = np.array([np.nan if number is None else number for number in (*known, None)], dtype=np.float64)
    found: Reals = table[coded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)]
    return found
