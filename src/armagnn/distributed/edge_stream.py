"""The edges of a graph, block by block, from a file or from memory, so that they need never be in memory at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from armagnn import checks
from armagnn.checks import instance
from armagnn.data.edges import edge_blocks
from armagnn.data.tables.edge_tables import EdgeColumns
from armagnn.errors import DataError, DTypeError, ShapeError, shown
from armagnn.table_files import TableFile

Integers = NDArray[np.int64]
Block = tuple[Integers, Integers, NDArray[np.float64] | None]
"""Source, target and, where there are weights, weight of some edges."""

EDGES_AT_ONCE: Final = 1 << 20
"""Edges of an array that are looked at at a time."""

MOST_NODES: Final = 1 << 40


@dataclass(frozen=True, eq=False)
class EdgeStream:
    """Edges that can be gone through any number of times.

    Attributes:
        name: what errors call them.
        weighted: do they have weights?
        mark: what tells these edges from others: of a file its path, size and time; of arrays their SHA-256.
        begin: begins from the first edge.

    Example:
        >>> stream = EdgeStream.of_arrays(np.array([[0, 1], [1, 2]]), None, "two edges")
        >>> [(source.tolist(), target.tolist()) for source, target, weight in stream]
        [([0, 1], [1, 2])]
    """

    name: str
    weighted: bool
    mark: dict[str, Any]
    begin: Callable[[], Iterator[Block]]

    @classmethod
    def of_file(cls, path: str | Path, source: str = "", dest: str = "", weight: str = "") -> EdgeStream:
        """The edges in a CSV or Parquet file with numbers as ids, or in an ``.npy`` file of shape (2, E) or (E, 2).

        Args:
            path: the file.
            source: the column of the ends that edges come from; guessed if it has a usual name.
            dest: the column of the ends that edges go to, likewise.
            weight: the column of weights, likewise.
        """
        for name, column in (("source", source), ("dest", dest), ("weight", weight)):
            instance(name, column, str, "the name of a column")
        path = checks.path("path", path)
        try:
            found = path.stat()
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}). Check the path.") from error
        mark = {"file": str(path.resolve()), "bytes": found.st_size, "time": found.st_mtime_ns}
        if path.suffix == ".npy":
            ends = array_of(path)
            if ends.ndim != 2 or 2 not in ends.shape or ends.dtype.kind not in "iu":
                raise DataError(
                    f"{path}: must have shape (2, E) and whole numbers, got {ends.dtype} {shown(ends.shape)}."
                )
            if source or dest or weight:
                raise DataError(f"{path}: an .npy file has no columns to name: leave out --source, --dest, --weight.")
            ends = ends if ends.shape[0] == 2 else ends.T
            return cls(str(path), False, mark, lambda: _of_array(ends, None))
        file = TableFile.open(path)
        columns = EdgeColumns.guess(str(path), file.names, source, dest, weight)
        mark |= {"columns": columns.names}
        named = (columns.source, columns.dest, columns.weight or None)
        return cls(str(path), bool(columns.weight), mark, lambda: _padded(edge_blocks(file, *named)))

    @classmethod
    def of_arrays(cls, index: NDArray[Any], weight: NDArray[Any] | None, name: str) -> EdgeStream:
        """Edges in memory: (2, E) whole numbers, and weights (E,)."""
        index = np.asarray(index)
        if index.dtype.kind not in "iu":
            raise DTypeError(f"{name}: the index must hold whole numbers, got {index.dtype}.")
        if index.ndim != 2 or index.shape[0] != 2:
            raise ShapeError(f"{name}: the index must have shape (2, E), got {shown(index.shape)}.")
        if weight is not None:
            weight = np.asarray(weight)
            if weight.dtype.kind not in "biuf":
                raise DTypeError(f"{name}: the weights must be real numbers, got {weight.dtype}.")
            if weight.shape != index.shape[1:]:
                raise ShapeError(f"{name}: {index.shape[1]} edges need as many weights, got {shown(weight.shape)}.")
        digest = hashlib.sha256(f"{index.shape[1]} {weight is not None}".encode())
        for block in _of_array(index, weight):
            for column in block:
                if column is not None:
                    digest.update(column.tobytes())
        mark = {"name": name, "edges": digest.hexdigest()}
        return cls(name, weight is not None, mark, lambda: _of_array(index, weight))

    def __iter__(self) -> Iterator[Block]:
        """Yield the edges, block by block; ids and weights that cannot be are refused."""
        before = 0
        for source, target, weight in self.begin():
            for column in (source, target):
                if column.size and (column.min() < 0 or column.max() >= MOST_NODES):
                    wrong = (column < 0) | (column >= MOST_NODES)
                    raise DataError(
                        f"{self.name}, edge {before + int(wrong.argmax()) + 1}: names node {column[wrong][0]}; ids are "
                        "numbers from 0 on. Renumber them."
                    )
            if weight is not None:
                fine = np.isfinite(weight) & (weight >= 0)
                if not fine.all():
                    at = int((~fine).argmax())
                    raise DataError(
                        f"{self.name}, edge {before + at + 1}: the weight is {weight[at]:g}; weights are finite and "
                        "not negative."
                    )
            before += source.size
            yield source, target, weight


def array_of(path: Path) -> NDArray[Any]:
    """The array in an ``.npy`` file, mapped into memory: what is not looked at is not read.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "y.npy")
        >>> np.save(path, np.arange(3))
        >>> array_of(path).tolist()
        [0, 1, 2]
    """
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: is no .npy file with an array of numbers ({error}).") from error
    if not isinstance(found, np.ndarray):
        found.close()
        raise DataError(f"{path}: is an archive of arrays; save one array by numpy.save.")
    return found


def _of_array(index: NDArray[Any], weight: NDArray[Any] | None) -> Iterator[Block]:
    for first in range(0, index.shape[1], EDGES_AT_ONCE):
        some = slice(first, first + EDGES_AT_ONCE)
        source, target = (np.ascontiguousarray(end[some], dtype=np.int64) for end in index)
        yield source, target, None if weight is None else weight[some].astype(np.float64)


def _padded(blocks: Iterator[tuple[NDArray[Any], ...]]) -> Iterator[Block]:
    for source, target, *weight in blocks:
        yield source, target, weight[0] if weight else None
