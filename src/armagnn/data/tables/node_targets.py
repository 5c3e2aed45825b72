"""What is learnt of nodes, recognised from the column (or columns) of the target: classes, labels or a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import choice
from armagnn.data.arrays import NO_LABEL
from armagnn.data.scaling import check_precision
from armagnn.data.tables.column_kinds import kind_of, numbers_of, texts_of, to_number, unique_texts
from armagnn.data.tables.frame import Frame
from armagnn.errors import DataError, ParameterError
from armagnn.table_files import arrow

TASKS: Final = ("auto", "classes", "labels", "number")
"""What may be learnt: one of several classes, several labels of each node, or a number."""

USUAL: Final = ("label", "target", "class", "y")
"""Usual names of the target, the most usual first."""

FEW: Final = 20
"""Up to so many different whole numbers are taken for classes."""

MOST_CLASSES: Final = 1000
"""The most classes; more are ids, or numbers."""

SEPARATORS: Final = ("|", ";")
"""What stands between the labels of a node in CSV."""


@dataclass(frozen=True, eq=False)
class NodeTarget:
    """The target of every node.

    Attributes:
        columns: the column, or the columns of several labels.
        task: "classes", "labels" or "number".
        y: as `NodeDataset` has it: (N,) int64 with -1, (N, C) float32, or (N,) float32 with NaN.
        known: (N,) bool, the nodes that have a target.
        classes: the names of the classes or labels; none of a number.
        notes: what was recognised, in sentences.
    """

    columns: tuple[str, ...]
    task: str
    y: Tensor
    known: NDArray[np.bool_]
    classes: tuple[str, ...]
    notes: tuple[str, ...]


def guess_target(table: Frame) -> str:
    """The column with a usual name for a target.

    Example:
        >>> guess_target(Frame.of({"id": [1], "Label": ["a"]}, "nodes"))
        'Label'
    """
    lower = {name.lower(): name for name in reversed(table.names)}
    found = next((lower[name] for name in USUAL if name in lower), None)
    if found is None:
        names = ", ".join(map(repr, table.names[:12]))
        raise DataError(
            f"{table.source}: which column shall be learnt? Name it with --target. Its columns are {names}."
        )
    return found


def target_of(table: Frame, columns: Sequence[str], task: str = "auto") -> NodeTarget:
    """Recognise what is learnt; see :data:`TASKS`.

    Example:
        >>> target = target_of(Frame.of({"y": ["b", "a", None, "b", "a"]}, "nodes"), ["y"])
        >>> target.task, target.classes, target.y.tolist()
        ('classes', ('a', 'b'), [1, 0, -1, 1, 0])
        >>> target_of(Frame.of({"y": [0.5, 1.5, None]}, "nodes"), ["y"]).task
        'number'
    """
    choice("task", task, TASKS)
    for name in columns:
        table.require(name, "target")
    if len(columns) > 1:
        if task not in ("auto", "labels"):
            raise ParameterError(f"task is {task!r}, but there are {len(columns)} targets: they are labels of 0 and 1.")
        return _flags(table, columns)
    name = columns[0]
    column = table.column(name)
    if column.null_count == len(column):
        raise DataError(f"{table.source}, column {name!r}: no node has a target. Name another column with --target.")
    if arrow().types.is_list(column.type) or arrow().types.is_large_list(column.type):
        return _labels(table, name, column.to_pylist())
    if task == "labels" or (task == "auto" and _looks_like_lists(table, name)):
        return _labels(table, name, _split(texts_of(table, name).to_pylist()))
    kind = kind_of(table, name) if task == "auto" else {"number": "number"}.get(task, "category")
    if kind == "number" and (task == "number" or not _few_integers(numbers_of(table, name))):
        return _number(table, name)
    if kind == "date":
        raise DataError(
            f"{table.source}, column {name!r}: holds dates. Write what shall be learnt as numbers or classes."
        )
    return _classes(table, name)


# ------------------------------------------------------------------------------------------------------------- classes


def _classes(table: Frame, name: str) -> NodeTarget:
    import pyarrow.compute as pc

    pa = arrow()
    texts = texts_of(table, name)
    counts = Counter(texts.to_pylist())
    counts.pop("", None)
    classes = _in_order(counts)
    known, where = sum(counts.values()), f"{table.source}, column {name!r}"
    if len(classes) == 1:
        raise DataError(f"{where}: all {known} nodes that have a target are {classes[0]!r}; there is nothing to learn.")
    if len(classes) == known and known > 2:
        raise DataError(
            f"{where}: every node has a target of its own, such as {classes[0]!r}: an id, or a number (--task number)? "
            "Name another column with --target."
        )
    if len(classes) > MOST_CLASSES:
        raise DataError(
            f"{where}: has {len(classes)} classes, of at most {MOST_CLASSES}. Is it an id? Learn fewer, or a number "
            "with --task number."
        )
    code = pc.index_in(texts, value_set=pa.array(classes, pa.string())).fill_null(NO_LABEL)
    y = torch.from_numpy(code.to_numpy(zero_copy_only=False).astype(np.int64))
    sizes = ", ".join(f"{each!r} ({counts[each]})" for each in classes[:6])
    more = f" and {len(classes) - 6} more" if len(classes) > 6 else ""
    notes = [f"target: column {name!r} has {len(classes)} classes: {sizes}{more}{_unknown(len(texts) - known)}."]
    return NodeTarget((name,), "classes", y, (y != NO_LABEL).numpy(), tuple(classes), tuple(notes))


def _in_order(counts: Counter[str]) -> list[str]:
    """The classes: numbers by size, texts by the alphabet."""
    numbers = {text: to_number(text) for text in counts}
    if all(number is not None for number in numbers.values()):
        return sorted(counts, key=lambda text: (numbers[text], text))
    return sorted(counts)


def _few_integers(values: NDArray[np.float64]) -> bool:
    known = values[~np.isnan(values)]
    if (known != np.round(known)).any():
        return False
    distinct = len(np.unique(known))
    return distinct <= FEW and distinct < max(3, len(known) / 2)


def _unknown(count: int) -> str:
    return f"; {count} nodes have no target" if count else ""


# --------------------------------------------------------------------------------------------------------------- labels


def _looks_like_lists(table: Frame, name: str) -> bool:
    """Are there values such as "a|b" whose parts are used again and again?"""
    column = table.column(name)
    if not (arrow().types.is_string(column.type) or arrow().types.is_large_string(column.type)):
        return False
    values = unique_texts(column)
    for separator in SEPARATORS:
        parts = {part.strip() for value in values for part in value.split(separator)}
        if any(separator in value for value in values) and len(parts) <= max(2, len(values)):
            return True
    return False


def _split(texts: list[str]) -> list[list[str] | None]:
    separator = next((s for s in SEPARATORS if any(s in text for text in texts)), SEPARATORS[0])
    return [[part.strip() for part in text.split(separator) if part.strip()] if text else None for text in texts]


def _labels(table: Frame, name: str, rows: list[Any]) -> NodeTarget:
    lists = [None if row is None else [str(each) for each in row if each is not None] for row in rows]
    counts = Counter(label for row in lists if row for label in set(row))
    labels, where = _in_order(counts), f"{table.source}, column {name!r}"
    if not 2 <= len(labels) <= MOST_CLASSES:
        raise DataError(f"{where}: the nodes have {len(labels)} different labels; there must be 2 to {MOST_CLASSES}.")
    place = {label: number for number, label in enumerate(labels)}
    y = torch.zeros(len(lists), len(labels))
    for node, row in enumerate(lists):
        for label in row or ():
            y[node, place[label]] = 1
    return _multilabel(table, (name,), y, np.array([row is not None for row in lists]), labels)


def _flags(table: Frame, columns: Sequence[str]) -> NodeTarget:
    """Several columns of 0 and 1."""
    values = np.stack([numbers_of(table, name) for name in columns], axis=1)
    for place, name in enumerate(columns):
        column = values[:, place]
        wrong = ~(np.isnan(column) | (column == 0) | (column == 1))
        if wrong.any():
            row = int(wrong.argmax())
            raise DataError(
                f"{table.where(row, name)}: {column[row]:g} is neither 0 nor 1. Several targets are labels that a node "
                "has or has not; name a single column with --target to learn a number."
            )
    known = np.asarray((~np.isnan(values)).any(axis=1))
    y = torch.from_numpy(np.nan_to_num(values).astype(np.float32))
    return _multilabel(table, tuple(columns), y, known, list(columns))


def _multilabel(
    table: Frame, columns: tuple[str, ...], y: Tensor, known: NDArray[np.bool_], labels: list[str]
) -> NodeTarget:
    share = y[torch.from_numpy(known)].mean(0)
    same = (share == 0) | (share == 1)
    if bool(same.all()) or not known.any():
        raise DataError(f"{table.source}: all nodes have the same labels; there is nothing to learn.")
    if len(columns) > 1 and bool(same.any()):
        name = columns[int(same.nonzero()[0])]
        raise DataError(f"{table.source}, column {name!r}: is the same for all nodes; take it out of --target.")
    some = ", ".join(map(repr, labels[:6])) + (f" and {len(labels) - 6} more" if len(labels) > 6 else "")
    note = f"target: every node may have several of {len(labels)} labels: {some}{_unknown(int((~known).sum()))}."
    return NodeTarget(columns, "labels", y, known, tuple(labels), (note,))


# --------------------------------------------------------------------------------------------------------------- number


def _number(table: Frame, name: str) -> NodeTarget:
    values, where = numbers_of(table, name), f"{table.source}, column {name!r}"
    known = ~np.isnan(values)
    some = values[known]
    if len(some) and (some == some[0]).all():
        raise DataError(f"{where}: all nodes that have a target have {some[0]:g}; there is nothing to learn.")
    ordered = np.sort(some)
    if len(some) > FEW and (np.diff(ordered) == 1).all() and (some == np.round(some)).all():
        raise DataError(
            f"{where}: holds every number from {ordered[0]:g} to {ordered[-1]:g} once, as an id does. Name another "
            "column with --target."
        )
    check_precision(some, where)
    note = (
        f"target: column {name!r} is a number (regression), {some.min():g} to {some.max():g}, mean {some.mean():.4g}"
        f"{_unknown(int((~known).sum()))}."
    )
    advice = " Take it as classes with --task classes." if _few_values(some) else ""
    return NodeTarget((name,), "number", torch.from_numpy(values.astype(np.float32)), known, (), (note + advice,))


def _few_values(some: NDArray[np.float64]) -> bool:
    return len(np.unique(some)) <= 2 * FEW < len(some)


# -------------------------------------------------------------------------------------------------------------- leakage


def check_leakage(table: Frame, names: Sequence[str], target: NodeTarget) -> None:
    """Refuse columns that say what the target says: with them a network learns to copy.

    Example:
        >>> table = Frame.of({"y": ["a", "b"] * 4, "code": [1, 2] * 4}, "nodes")
        >>> check_leakage(table, ["code"], target_of(table, ["y"]))
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: nodes, column 'code': says the same as the target 'y' for all 8 nodes that have one,
        so a network would only learn to copy it. Leave it out with --ignore code
    """
    if target.task == "labels" or int(target.known.sum()) < 6:
        return
    rows = np.flatnonzero(target.known)
    y = target.y.numpy()[rows]
    for name in names:
        if not _same(table, name, rows, y, target):
            continue
        raise DataError(
            f"{table.source}, column {name!r}: says the same as the target {target.columns[0]!r} for all {len(rows)} "
            f"nodes that have one, so a network would only learn to copy it. Leave it out with --ignore {name}"
        )


def _same(table: Frame, name: str, rows: NDArray[np.int64], y: NDArray[Any], target: NodeTarget) -> bool:
    column = table.column(name)
    if target.task == "classes":
        if len(column.unique()) > 2 * len(target.classes) + 2:
            return False
        codes = column.dictionary_encode() if not arrow().types.is_dictionary(column.type) else column
        value = codes.indices.fill_null(-1).to_numpy(zero_copy_only=False)[rows].astype(np.int64)
        pairs = len(np.unique(value * (len(target.classes) + 1) + y))
        return pairs == len(np.unique(value)) == len(np.unique(y))
    if not isinstance(column, arrow().Array) or kind_of(table, name) != "number":
        return False
    value = numbers_of(table, name)[rows]
    if np.isnan(value).any() or value.std() == 0:
        return False
    with np.errstate(all="ignore"):
        return bool(abs(np.corrcoef(value, y)[0, 1]) > 1 - 1e-9)
