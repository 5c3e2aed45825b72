"""A table of edges, read in batches: from the ids of their ends to ``edge_index``, each edge once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn.data.tables.frame import Frame, Integers, NodeIds
from armagnn.errors import DataError, shown
from armagnn.table_files import TableFile, arrow, columns_of

ENDS: Final = (
    ("source", "target"), ("src", "dst"), ("from", "to"), ("source", "dest"), ("source", "destination"),
    ("src", "dest"), ("u", "v"), ("from_id", "to_id"), ("source_id", "target_id"), ("src_id", "dst_id"),
    ("id1", "id2"), ("id_1", "id_2"), ("node1", "node2"), ("node_1", "node_2"), ("a", "b"),
)  # fmt: skip
"""Usual names of the columns of the two ends of an edge, the most usual first."""

WEIGHTS: Final = ("weight", "weights", "edge_weight", "w")
"""Usual names of the column of weights."""

ROWS: Final = 2**20
"""Rows of a table in memory that are looked at together, so that what is made of them is small."""

UNKNOWN: Final = ("error", "drop")
"""What may be done with an edge to a node that is not in the table of nodes."""


@dataclass(frozen=True)
class EdgeColumns:
    """Which columns of a table of edges mean what.

    Attributes:
        source: the ends that edges come from.
        dest: the ends that edges go to.
        weight: the weights; empty if there are none.

    Example:
        >>> EdgeColumns.guess("edges.csv", ("from", "to", "w"))
        EdgeColumns(source='from', dest='to', weight='w')
    """

    source: str
    dest: str
    weight: str = ""

    @classmethod
    def guess(
        cls, table: str, names: tuple[str, ...], source: str = "", dest: str = "", weight: str = ""
    ) -> EdgeColumns:
        """The columns that are named, and for those that are not the ones with usual names."""
        lower = {name.lower(): name for name in reversed(names)}
        for name, option in ((source, "source"), (dest, "dest"), (weight, "weight")):
            if name and name not in names:
                raise DataError(f"{table}: has no column {name!r} (--{option}). {columns_of(names)}")
        if bool(source) != bool(dest):
            raise DataError(f"{table}: name both ends of an edge (--source and --dest), or none of them.")
        if not source:
            found = next((pair for pair in ENDS if pair[0] in lower and pair[1] in lower), None)
            if found is None and len(names) == 2:
                found = (names[0].lower(), names[1].lower())
            if found is None:
                raise DataError(
                    f"{table}: which columns are the ends of an edge? {columns_of(names)} Name them with --source and "
                    "--dest. If these are values rather than names, the file has no header: put one into a first row, "
                    "such as source,target"
                )
            source, dest = lower[found[0]], lower[found[1]]
        if source == dest:
            raise DataError(f"{table}: the ends of an edge are two columns, not {source!r} twice.")
        weight = weight or next((lower[name] for name in WEIGHTS if name in lower), "")
        return cls(source, dest, weight if weight not in (source, dest) else "")

    @property
    def names(self) -> list[str]:
        """The columns, in this order."""
        return [self.source, self.dest, *([self.weight] if self.weight else [])]


@dataclass(frozen=True, eq=False)
class EdgeList:
    """The edges of a graph, each once.

    Attributes:
        index: (2, E) int64; of an undirected graph both directions.
        weight: (E,) float32, if edges have weights.
        columns: what the columns of the table mean.
        notes: what was done, in sentences.
    """

    index: Integers
    weight: NDArray[np.float32] | None
    columns: EdgeColumns
    notes: tuple[str, ...]


def read_edges(
    value: Any,
    ids: NodeIds,
    *,
    source: str = "",
    dest: str = "",
    weight: str = "",
    directed: bool = False,
    unknown: str = "error",
    nodes: str = "the table of nodes",
) -> EdgeList:
    """Read a table of edges between the nodes `ids`.

    An edge that is listed again counts once; its weights are added up. Undirected, an edge has both directions, with
    the larger of the two weights where both are listed. An edge whose end is not among `ids` is an error, or dropped.

    Args:
        value: a path, or a table in memory.
        ids: of the nodes.
        source: the column of the ends that edges come from; guessed if it has a usual name.
        dest: the column of the ends that edges go to, likewise.
        weight: the column of weights, likewise.
        directed: keep the direction.
        unknown: "error" or "drop".
        nodes: what the table of the nodes is called in errors.

    Example:
        >>> ids = NodeIds.of(Frame.of({"id": ["a", "b", "c"]}, "nodes"), "id")
        >>> edges = read_edges({"from": ["a", "b", "a"], "to": ["b", "a", "c"]}, ids)
        >>> edges.index
        array([[0, 0, 1, 2],
               [1, 2, 0, 0]])
        >>> edges.notes
        ('edges: 3 rows, 2 pairs of nodes; each edge joins its nodes in both directions (undirected).',)
    """
    table, columns, batches = _opened(value, EdgeWish(source, dest, weight))
    if table.texts and bool((ids.find(arrow().array([columns.source, columns.dest])) >= 0).all()):
        raise DataError(
            f"{table.source}, row 1: {columns.source!r} and {columns.dest!r} are ids of nodes: the file has no header. "
            "Put the names of the columns into a first row, such as source,target"
        )
    codes, weights, row, dropped = [], [], table.first, 0
    size = len(ids)
    for batch in batches:
        parts = [batch.column(name) for name in columns.names]
        ends = [ids.find(part) for part in parts[:2]]
        bad = (ends[0] < 0) | (ends[1] < 0)
        if bad.any():
            if unknown == "error" or parts[0].null_count or parts[1].null_count:
                raise _unknown(table, columns, parts, ends, row, ids, nodes, unknown)
            dropped += int(bad.sum())
            ends = [each[~bad] for each in ends]
        if columns.weight:
            found = _numbers(parts[2], table, columns.weight, row)
            weights.append(found[~bad] if bad.any() else found)
        first, second = ends if directed else (np.minimum(*ends), np.maximum(*ends))
        flipped = [] if directed or not columns.weight else [ends[0] > ends[1]]
        codes.append((first * size + second, *flipped))
        row += batch.num_rows
    listed = row - table.first - dropped
    code = np.concatenate([each[0] for each in codes]) if codes else np.empty(0, dtype=np.int64)
    flips = np.concatenate([each[1] for each in codes]) if codes and len(codes[0]) > 1 else None
    del codes
    notes = [f"edges: {dropped} rows name a node that is not in {nodes}; they are left out."] if dropped else []
    code, weight_of = _merged(code, np.concatenate([np.empty(0), *weights]) if columns.weight else None, flips)
    rows = f"{listed} row{'s' if listed != 1 else ''}"
    if directed:
        index = np.stack([code // size, code % size])
        notes.append(f"edges: {rows}, {len(code)} directed edges; the direction is kept: a node hears its sources.")
    else:
        index, weight_of = _both_directions(code, weight_of, size)
        notes.append(
            f"edges: {rows}, {len(code)} pairs of nodes; each edge joins its nodes in both directions (undirected)."
        )
    if weight_of is not None and weight_of.size:
        notes.append(f"edges: weights from column {columns.weight!r}, {weight_of.min():g} to {weight_of.max():g}.")
    return EdgeList(index, weight_of, columns, tuple(notes))


def batches_of(value: Any, source: str = "", dest: str = "", weight: str = "") -> tuple[EdgeColumns, Iterator[Any]]:
    """What the columns of a table of edges mean, and its rows in batches."""
    return _opened(value, EdgeWish(source, dest, weight))[1:]


@dataclass(frozen=True)
class EdgeWish:
    """The columns that the user named, empty where they are to be guessed."""

    source: str = ""
    dest: str = ""
    weight: str = ""


def _opened(value: Any, wish: EdgeWish) -> tuple[Frame, EdgeColumns, Iterator[Any]]:
    """The table (of a file, without rows), what its columns mean, and its batches."""
    pa = arrow()
    if not isinstance(value, str | os.PathLike):
        table = Frame.of(value, "edges")
        columns = EdgeColumns.guess(table.source, table.names, wish.source, wish.dest, wish.weight)
        rows = table.columns.select(columns.names).combine_chunks()
        return table, columns, iter(rows.to_batches(max_chunksize=ROWS))
    file = TableFile.open(Path(value))
    columns = EdgeColumns.guess(str(file.path), file.names, wish.source, wish.dest, wish.weight)
    csv = file.form == "csv"
    table = Frame(str(file.path), pa.table({}), 2 if csv else 1, csv, file.path)
    return table, columns, file.batches(columns.names)


def _numbers(column: Any, table: Frame, name: str, row: int) -> NDArray[np.float64]:
    pa = arrow()
    if column.null_count:
        at = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise DataError(f"{table.where(row - table.first + at, name)}: the weight is missing. Write a number.")
    try:
        found: NDArray[np.float64] = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for at, each in enumerate(column.to_pylist()):
            try:
                float(each)
            except (TypeError, ValueError):
                raise DataError(
                    f"{table.where(row - table.first + at, name)}: the weight {shown(each)} is no number."
                ) from None
        raise
    wrong = ~(np.isfinite(found) & (found >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise DataError(
            f"{table.where(row - table.first + at, name)}: the weight is {found[at]:g}; weights are finite and not "
            "negative."
        )
    return found


def _merged(
    code: Integers, weight: NDArray[np.float64] | None, flipped: NDArray[np.bool_] | None
) -> tuple[Integers, NDArray[np.float32] | None]:
    """Each code once, ascending; weights of one direction are added up, of two directions the larger counts."""
    if weight is None:
        code.sort()
        fresh = np.ones(len(code), dtype=bool)
        np.not_equal(code[1:], code[:-1], out=fresh[1:])
        return (code if fresh.all() else code[fresh]), None
    unique, place = np.unique(code, return_inverse=True)
    sums = np.bincount(place, weight if flipped is None else np.where(flipped, 0.0, weight), len(unique))
    if flipped is not None:
        sums = np.maximum(sums, np.bincount(place, np.where(flipped, weight, 0.0), len(unique)))
    return unique, sums.astype(np.float32)


def _both_directions(
    code: Integers, weight: NDArray[np.float32] | None, size: int
) -> tuple[Integers, NDArray[np.float32] | None]:
    """The pairs first * size + second as (2, E), then the other direction of each; written in place, as E is large."""
    loops = sum(int((part // size == part % size).sum()) for part in np.array_split(code, len(code) // ROWS + 1))
    index = np.empty((2, 2 * len(code) - loops), dtype=np.int64)
    first, second = index[:, : len(code)]
    np.divmod(code, size, out=(first, second))
    other = first != second
    np.compress(other, second, out=index[0, len(code) :])
    np.compress(other, first, out=index[1, len(code) :])
    return index, None if weight is None else np.concatenate([weight, weight[other]])


def _unknown(
    table: Frame,
    columns: EdgeColumns,
    parts: list[Any],
    ends: list[Integers],
    row: int,
    ids: NodeIds,
    nodes: str,
    unknown: str,
) -> DataError:
    """The error about the first edge whose end no node has."""
    at, end = min((int((each < 0).argmax()), end) for end, each in enumerate(ends) if (each < 0).any())
    place = table.where(row - table.first + at, (columns.source, columns.dest)[end])
    value = parts[end][at].as_py()
    if value is None:
        return DataError(f"{place}: the id is missing. An edge needs both ends.")
    some = ", ".join(map(repr, ids.take(range(min(3, len(ids))))))
    near = str(value).strip().removesuffix(".0").lstrip("0")
    alike = next(
        (each for each in ids.take(range(min(len(ids), 10**5))) if str(each).strip().lstrip("0") == near), None
    )
    hint = f" ({nodes} writes {alike!r})" if alike is not None else f" (ids there are such as {some})"
    advice = "" if unknown == "drop" else ", or leave such edges out with --unknown drop"
    return DataError(
        f"{place}: the node {value!r} is not in {nodes}{hint}. Add it to the nodes, or mend the id{advice}."
    )
