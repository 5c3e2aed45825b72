"""From the columns of a table to the features of nodes, by scikit-learn; what is fitted is plain JSON.

====================  ================================================================================================
a column of           becomes
====================  ================================================================================================
numbers, true/false   (x - mean) / deviation of the training nodes; a missing one is the mean, and a column says so
dates                 the time as a number, and season and weekday as points on a circle, all of them standardised
categories            a column for each that three training nodes have, and one for those that fewer or none have
free text             hashed words, or tf-idf, where it is asked for
====================  ================================================================================================

`TableEncoder.fit` writes what scikit-learn learnt into plain fields, and `transform` builds scikit-learn's
`ColumnTransformer` from these fields alone. So new nodes, for whom a run reads the fields from JSON, are encoded as its
training nodes were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from armagnn.checks import choice
from armagnn.data.node_files import row_normalised
from armagnn.data.tables.column_kinds import KINDS, Kind, kind_of
from armagnn.data.tables.encoded_column import (
    MOST_WORDS,
    EncodedColumn,
    column_of,
    fit_categories,
    fit_numbers,
    fit_text,
    prepared,
)
from armagnn.data.tables.frame import Frame
from armagnn.errors import DataError
from armagnn.table_files import arrow, columns_of

FEW: Final = 256
"""Up to so many features are dense."""

DENSE: Final = 0.3
"""The share of numbers other than zero from which on features are dense."""

TEXT_BY: Final = ("hashing", "tfidf")
SCALINGS: Final = ("standardise", "rows", "none")
ONE: Final = "(one)"
"""The name of the only feature of nodes of which nothing is known."""


@dataclass(frozen=True)
class TableEncoder:
    """How the columns of a table of nodes become features.

    Attributes:
        columns: the columns that become features.
        scaling: of numbers: "standardise", "rows" (each row of features is divided by its sum) or "none".
        notes: what was done, in sentences.

    Example:
        >>> nodes = Frame.of({"age": [1.0, 3.0, None], "red": ["yes", "no", "no"]}, "nodes")
        >>> encoder = TableEncoder.fit(nodes, ["age", "red"], np.array([0, 1, 2]))
        >>> encoder.features
        ['age', 'red', 'age (missing)']
        >>> encoder.transform(nodes).round(2)
        array([[-1.  ,  1.41,  0.  ],
               [ 1.  , -0.71,  0.  ],
               [ 0.  , -0.71,  1.  ]], dtype=float32)
        >>> TableEncoder.from_json(encoder.to_json()) == encoder
        True
    """

    columns: tuple[EncodedColumn, ...]
    scaling: str = "standardise"
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def fit(
        cls,
        table: Frame,
        names: Sequence[str],
        train: NDArray[np.int64],
        *,
        text: Sequence[str] = (),
        categories: Sequence[str] = (),
        text_by: str = "hashing",
        scaling: str = "standardise",
    ) -> TableEncoder:
        """Learn the encoding of some columns from the rows `train`.

        Args:
            table: the nodes.
            names: the columns.
            train: the rows to learn from.
            text: the columns of free text.
            categories: the columns that are categories, whatever they look like.
            text_by: "hashing" or "tfidf", for free text.
            scaling: of numbers; see the class.
        """
        choice("way to encode text", text_by, TEXT_BY)
        choice("scaling of features", scaling, SCALINGS)
        found: list[EncodedColumn] = []
        said_of: dict[str, list[str]] = {}
        column: EncodedColumn | None
        for name in names:
            kind: Kind = "text" if name in text else "category" if name in categories else kind_of(table, name)
            if kind == "text":
                column, said = fit_text(table, name, train, text_by), ""
            elif kind == "category":
                column, said = fit_categories(table, name, train)
            else:
                column, said = fit_numbers(table, name, kind, train, scaling)
            said_of.setdefault(said, []).append(name)
            found += [] if column is None else [column]
        notes = [f"features: {_columns(each)} {said}" for said, each in said_of.items() if said]
        return cls(tuple(found), scaling, (_summary(found, scaling), *notes))

    @property
    def features(self) -> list[str]:
        """The names of the features, in their order: numbers, whether they are missing, categories, words."""
        numbers = [part for column in self.columns for part in column.parts]
        missing = [f"{column.name} (missing)" for column in self.columns if column.missing]
        chosen = [
            f"{column.name}={value or '(missing)'}" for column in self._of("category") for value in column.choices
        ]
        words = [f"{c.name}:{word}" for c in self._of("text") for word in c.words or map(str, range(MOST_WORDS))]
        return [*numbers, *missing, *chosen, *words] or [ONE]

    def _of(self, kind: Kind) -> list[EncodedColumn]:
        return [column for column in self.columns if column.kind == kind]

    def transform(self, table: Frame) -> NDArray[np.float32] | sp.csr_array:
        """The features (N, F) of the nodes of a table, dense or sparse."""
        for column in self.columns:
            if column.name not in table.names:
                raise DataError(
                    f"{table.source}: has no column {column.name!r}, which features are made of. "
                    f"{columns_of(table.names)}"
                )
        if not self.columns:
            return np.ones((len(table), 1), dtype=np.float32)
        columns: dict[str, Any] = {}
        for column in self.columns:
            columns |= prepared(table, column)
        found = self._transformer().transform(arrow().table(columns))
        if self.scaling == "rows":
            found = row_normalised(sp.csr_array(found) if sp.issparse(found) else np.asarray(found))
        return self._checked(found, table)

    def _checked(self, found: Any, table: Frame) -> NDArray[np.float32] | sp.csr_array:
        """The features as float32, sparse if that is worth it."""
        rows, columns = found.shape
        nonzero = found.nnz if sp.issparse(found) else np.count_nonzero(found)
        sparse = columns > FEW and nonzero < DENSE * rows * columns
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
            x: Any = sp.csr_array(found, dtype=np.float32) if sparse else found
            if not sparse:
                x = np.ascontiguousarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)
        if not np.isfinite(x.data if sparse else x).all():
            row, place = np.argwhere(~np.isfinite(x.toarray() if sparse else x))[0]
            name = self.features[place]
            raise DataError(f"{table.where(int(row), name)}: the value is too far beyond those of the training nodes.")
        return x

    def _transformer(self) -> Any:
        """scikit-learn's transformer of the prepared columns, with the numbers that were learnt."""
        from sklearn.compose import ColumnTransformer
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
        from sklearn.impute import SimpleImputer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        numbers = [column for column in self.columns if column.mean]
        parts: list[tuple[str, Any, Any]] = []
        sample: dict[str, Any] = {}
        if numbers:
            sample |= {part: [fill] for c in numbers for part, fill in zip(c.parts, c.fill, strict=True)}
            parts.append(("numbers", make_pipeline(SimpleImputer(), StandardScaler()), list(sample)))
        missing = [f"{column.name} (missing)" for column in self.columns if column.missing]
        if missing:
            sample |= {name: [0.0] for name in missing}
            parts.append(
                ("missing", SimpleImputer(), missing)
            )  # there is nothing to impute; "passthrough" knows no pyarrow
        chosen = self._of("category")
        if chosen:
            known = [np.array(column.choices, dtype=object) for column in chosen]
            sample |= {column.name: [column.choices[0]] for column in chosen}
            encoder = OneHotEncoder(categories=known, handle_unknown="ignore", dtype=np.float32)
            parts.append(("categories", encoder, [column.name for column in chosen]))
        for place, column in enumerate(self._of("text")):
            vocabulary = {word: number for number, word in enumerate(column.words)}
            kind = TfidfVectorizer if vocabulary else HashingVectorizer
            size = {"vocabulary": vocabulary} if vocabulary else {"n_features": MOST_WORDS}
            words = kind(preprocessor=_lower, **size)
            sample[column.name] = ["word"]
            parts.append((f"text {place}", words, column.name))
        whole = ColumnTransformer(parts, sparse_threshold=1.0, verbose_feature_names_out=False)
        whole.fit(arrow().table(sample))
        if numbers:
            scaler = whole.named_transformers_["numbers"][-1]
            scaler.mean_ = np.array([mean for column in numbers for mean in column.mean])
            scaler.scale_ = np.array([deviation for column in numbers for deviation in column.deviation])
            scaler.var_ = scaler.scale_**2
        for place, column in enumerate(self._of("text")):
            if column.words:
                whole.named_transformers_[f"text {place}"].idf_ = np.array(column.idf)
        return whole

    # ----------------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> dict[str, Any]:
        """The encoding as plain JSON."""
        return {"scaling": self.scaling, "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_json(cls, content: Any) -> TableEncoder:
        """The inverse of :meth:`to_json`; anything else is a DataError that says why."""
        if not isinstance(content, dict) or content.keys() != {"scaling", "columns"}:
            raise DataError("the encoding is no scaling and columns")
        if content["scaling"] not in SCALINGS or not isinstance(content["columns"], list):
            raise DataError("the encoding has no scaling that is known, or no list of columns")
        columns = tuple(map(column_of, content["columns"]))
        names = [name for column in columns for name in {column.name, *column.parts}]
        if len(set(names)) < len(names):
            raise DataError("a column is encoded twice")
        return cls(columns, content["scaling"])


def _lower(text: Any) -> str:
    """A text in lower case; scikit-learn is given scalars of pyarrow, which are no ``str``."""
    return str(text).lower()


def _columns(names: Sequence[str]) -> str:
    """Some columns in words.

    Example:
        >>> _columns(["a"]), _columns(["a", "b"])
        ("column 'a'", '2 columns (a, b)')
    """
    if len(names) == 1:
        return f"column {names[0]!r}"
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{len(names)} columns ({', '.join(names[:4])}{more})"


def _summary(columns: Sequence[EncodedColumn], scaling: str) -> str:
    """What the columns are, in a sentence."""
    numbers = {
        "standardise": "standardised on the training nodes",
        "rows": "each row divided by its sum",
        "none": "as they are",
    }
    words = {
        "number": f"of numbers, {numbers[scaling]}", "boolean": "of true and false", "date": "of dates",
        "category": "of categories, one feature each", "text": "of free text",
    }  # fmt: skip
    said = []
    for kind in KINDS:
        names = [column.name for column in columns if column.kind == kind]
        if names:
            some = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
            said.append(f"{len(names)} column{'s' if len(names) > 1 else ''} {words[kind]} ({some})")
    return f"features: {'; '.join(said)}." if said else "features: none; every node has the number 1."
