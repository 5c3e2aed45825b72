"""One column of a table as features: what is learnt of it on the training nodes, as plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.data.scaling import CONSTANT, SMALLEST_DEVIATION
from armagnn.data.tables.column_kinds import KINDS, Kind, Reals, numbers_of, seconds_of, texts_of
from armagnn.data.tables.frame import Frame
from armagnn.errors import DataError
from armagnn.table_files import arrow

RARE: Final = 3
"""A category that fewer training nodes have is rare."""

MOST_CATEGORIES: Final = 100
"""The most categories of a column that have a column each: the most frequent ones."""

MOST_WORDS: Final = 1024
"""The most words of tf-idf, and the number of hash values, of a column of free text."""

CIRCLES: Final = {"season": 365.2425 * 86400.0, "weekday": 7 * 86400.0}
"""The periods of dates, in seconds."""


OTHERS: Final = "(rare)"


@dataclass(frozen=True)
class EncodedColumn:
    """How one column is encoded.

    Attributes:
        name: the column.
        kind: "number", "boolean", "date", "category" or "text".
        fill: what stands for a missing value, for each number that the column becomes: one, of a date five.
        mean: what is subtracted from each number.
        deviation: what each number is divided by.
        missing: does one more feature say that a value is missing?
        categories: those that have a feature; an empty text: the value is missing.
        rare: is there a feature for rare and unseen categories?
        words: the vocabulary of tf-idf; none of hashing.
        idf: of each word.
    """

    name: str
    kind: Kind
    fill: tuple[float, ...] = ()
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()
    missing: bool = False
    categories: tuple[str, ...] = ()
    rare: bool = False
    words: tuple[str, ...] = ()
    idf: tuple[float, ...] = ()

    @property
    def parts(self) -> list[str]:
        """The numbers that the column becomes, by name."""
        if self.kind != "date":
            return [self.name] if self.mean else []
        return [self.name, *(f"{self.name} ({circle}, {f})" for circle in CIRCLES for f in ("sin", "cos"))]

    @property
    def choices(self) -> list[str]:
        """The categories that the column becomes, rare ones as one."""
        return [*self.categories, *([OTHERS] if self.rare else [])]


# ------------------------------------------------------------------------------------------------------------- fitting


def fit_numbers(
    table: Frame, name: str, kind: Kind, train: NDArray[np.int64], scaling: str
) -> tuple[EncodedColumn | None, str]:
    """The encoding of a column of numbers, None if it says nothing; and what is to be said of it."""
    from sklearn.preprocessing import StandardScaler

    seen = numbers_in(table, name, kind)[train]
    there = ~np.isnan(seen[:, 0])
    if not there.any():
        return None, "left out: no value on the training nodes."
    missing, seen = not there.all(), seen[there]
    mean = StandardScaler().fit(seen)
    distance = np.abs(seen - mean.mean_).max(axis=0)
    if not missing and scaling == "standardise" and not (distance > CONSTANT * np.abs(seen).max(axis=0)).any():
        return None, "left out: one value on all training nodes."
    # mean_ of equal numbers may differ from them by rounding
    fill = np.where(distance > CONSTANT * np.abs(seen).max(axis=0), mean.mean_, seen[0])
    if scaling == "standardise":
        deviation = np.where(distance > 0, np.maximum(mean.scale_, SMALLEST_DEVIATION * distance), 1.0)
        subtracted = fill
    else:
        subtracted, deviation = np.zeros(len(fill)), np.ones(len(fill))
    learnt = [tuple(each.tolist()) for each in (fill, subtracted, deviation)]
    return EncodedColumn(name, kind, learnt[0], learnt[1], learnt[2], missing), ""


def fit_categories(table: Frame, name: str, train: NDArray[np.int64]) -> tuple[EncodedColumn | None, str]:
    """The encoding of a column of categories, None if it says nothing; and what is to be said of it."""
    from sklearn.preprocessing import OneHotEncoder

    seen = np.array(texts_of(table, name).take(arrow().array(train)).to_pylist(), dtype=object)[:, None]
    encoder = OneHotEncoder(min_frequency=RARE, max_categories=MOST_CATEGORIES + 1).fit(seen)
    rare = encoder.infrequent_categories_[0]
    out = frozenset() if rare is None else frozenset(rare.tolist())
    kept = tuple(value for value in encoder.categories_[0].tolist() if value not in out)
    distinct = len(encoder.categories_[0])
    if distinct < 2:
        return None, "left out: one value on all training nodes."
    if not kept:
        return None, (
            f"left out: {distinct} different texts, none of them on {RARE} training nodes (--text {name} takes its "
            "words)."
        )
    said = f"with {distinct} categories: {len(kept)} frequent ones, and {len(out)} rare ones that count as one."
    return EncodedColumn(name, "category", categories=kept, rare=bool(out)), said if out else ""


def fit_text(table: Frame, name: str, train: NDArray[np.int64], text_by: str) -> EncodedColumn:
    """The encoding of a column of free text."""
    if text_by == "hashing":
        return EncodedColumn(name, "text")
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(max_features=MOST_WORDS)
    try:
        vectorizer.fit(texts_of(table, name).take(arrow().array(train)).to_pylist())
    except ValueError as error:  # no words at all
        raise DataError(
            f"{table.source}, column {name!r}: holds no words. Leave it out with --ignore {name}"
        ) from error
    words = vectorizer.get_feature_names_out().tolist()
    return EncodedColumn(name, "text", words=tuple(words), idf=tuple(vectorizer.idf_.tolist()))


# ------------------------------------------------------------------------------------------------------------ preparing


def numbers_in(table: Frame, name: str, kind: Kind) -> Reals:
    """The numbers (N, 1), or of dates (N, 5), of a column; NaN where they are missing."""
    if kind != "date":
        return numbers_of(table, name)[:, None]
    seconds = seconds_of(table, name)
    turns = [2 * np.pi * seconds / period for period in CIRCLES.values()]
    return np.stack([seconds, *(f(turn) for turn in turns for f in (np.sin, np.cos))], axis=1)


def prepared(table: Frame, column: EncodedColumn) -> Mapping[str, Any]:
    """The columns that scikit-learn is given: numbers with NaN, and texts in which rare categories are one."""
    import pyarrow.compute as pc

    pa = arrow()
    if column.mean:
        values = numbers_in(table, column.name, column.kind)
        found: dict[str, Any] = {name: values[:, place] for place, name in enumerate(column.parts)}
        return found | ({f"{column.name} (missing)": np.isnan(values[:, 0]).astype(float)} if column.missing else {})
    texts = texts_of(table, column.name)
    if column.rare:
        known = pc.is_in(texts, value_set=pa.array(column.categories, pa.string()))
        texts = pc.if_else(known, texts, OTHERS)
    return {column.name: texts}


# ----------------------------------------------------------------------------------------------------------------- JSON


def column_of(content: Any) -> EncodedColumn:
    """A column from JSON, if nothing is wrong with it."""
    names = EncodedColumn.__dataclass_fields__.keys()
    if not isinstance(content, dict) or content.keys() != names:
        raise DataError("a column of the encoding does not have the entries that this version of armagnn knows")
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    column = EncodedColumn(**values)
    if not isinstance(column.name, str) or column.kind not in KINDS:
        raise DataError("a column of the encoding has no name or no kind")
    numbers = (column.fill, column.mean, column.deviation, column.idf)
    if not all(isinstance(each, tuple) and all(type(v) is float and np.isfinite(v) for v in each) for each in numbers):
        raise DataError(f"the numbers of column {column.name!r} are no finite numbers")
    if not all(isinstance(v, tuple) and all(type(t) is str for t in v) for v in (column.categories, column.words)):
        raise DataError(f"the categories or words of column {column.name!r} are no texts")
    if type(column.missing) is not bool or type(column.rare) is not bool:
        raise DataError(f"missing and rare of column {column.name!r} are not true or false")
    size = {"date": 1 + 2 * len(CIRCLES), "category": 0, "text": 0}.get(column.kind, 1)
    if (
        not len(column.fill) == len(column.mean) == len(column.deviation) == size
        or min(column.deviation, default=1) <= 0
    ):
        raise DataError(f"the numbers of column {column.name!r} do not fit its kind")
    if bool(column.categories) != (column.kind == "category") or len(column.words) != len(column.idf):
        raise DataError(f"the categories or words of column {column.name!r} do not fit its kind")
    if len(set(column.categories)) < len(column.categories) or len(set(column.words)) < len(column.words):
        raise DataError(f"a category or a word of column {column.name!r} is there twice")
    if (column.rare and column.kind != "category") or (column.missing and not column.mean):
        raise DataError(f"column {column.name!r} has an entry that does not fit its kind")
    return column
