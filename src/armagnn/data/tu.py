"""Graphs in the text files of the TU collection: a folder of your own, or a zip of the collection.

PyTorch Geometric's reader does not fit: it recodes node labels.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
import re
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from armagnn.checks import choice
from armagnn.data.arrays import Arrays, open_zip
from armagnn.data.graph_files import graphs_of
from armagnn.data.graphs import GraphsDataset
from armagnn.data.scaling import check_precision, check_varied
from armagnn.errors import DataError
from armagnn.files import path_of, read_file

Target = Literal["auto", "labels", "attributes", "none"]
TARGETS: Final = get_args(Target)
PARTS: Final = (
    "A", "graph_indicator", "graph_labels", "graph_attributes", "node_labels", "node_attributes", "edge_labels",
)  # fmt: skip
FILLED: Final = {"graph_indicator": "node", "graph_labels": "graph", "graph_attributes": "graph"}
"""What a file that must not be empty has its lines for."""


def read_tu_folder(path: str | Path, *, target: Target = "auto") -> GraphsDataset:
    """Read a folder with ``DS_A.txt``, ``DS_graph_indicator.txt`` and ``DS_graph_labels.txt``; DS is any name.

    - ``A``: a line ``i, j`` for each edge, nodes counted from 1 over all graphs. A direction that is missing is added,
      with the same label; an edge that is listed again counts once.
    - ``graph_indicator``: line i has the graph of node i, counted from 1.
    - ``graph_labels``: line g has the class of graph g, an integer; classes are numbered 0 .. C-1 in ascending order,
      and `class_values` keeps the numbers of the file. Or ``graph_attributes``: real targets, several by commas.
    - ``node_labels`` (an integer a line), ``node_attributes`` (reals by commas) and ``edge_labels`` (an integer for
      each line of ``A``) may be there. Other files of the folder (``edge_attributes``) are not read; one whose name is
      nearly that of a part which is missing is refused.

    With `target` ``"auto"`` the labels count where there are both; ``"labels"`` and ``"attributes"`` ask for one, and
    ``"none"`` for neither (new graphs, to be predicted: y is -1). Whatever is wrong is a :class:`DataError` with the
    file and its line.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "two_A.txt").write_text("1, 2\\n2, 1\\n3, 4\\n")
        >>> _ = (folder / "two_graph_indicator.txt").write_text("1\\n1\\n2\\n2\\n2\\n")
        >>> _ = (folder / "two_graph_labels.txt").write_text("-1\\n1\\n")
        >>> data = read_tu_folder(folder)
        >>> data.edge_index, data.y, data.class_values
        (tensor([[0, 1, 2, 3],
                [1, 0, 3, 2]]), tensor([0, 1]), (-1, 1))
        >>> _ = (folder / "two_graph_indicator.txt").write_text("1\\n1\\n2\\n3\\n2\\n")
        >>> read_tu_folder(folder)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        armagnn.errors.DataError: ...two_graph_indicator.txt, line 4: names graph 3; there are 2 (lines of ...).
    """
    choice("target", target, TARGETS)
    folder = _Folder.open(Path(path_of(path)), target != "none")
    y, values = _targets(folder, target)
    arrays = _tables(folder, None if y is None else len(y))
    found = graphs_of(
        arrays if y is None else arrays | {"y": y},
        name=str(path),
        source=str(path),
        sha256=folder.digest(),
        provenance=folder.prefix.rstrip("_"),
        labelled=y is not None,
    )
    return replace(found, class_values=values)


def convert_tu(name: str, content: bytes) -> Arrays:
    """Convert the zip of a TU dataset, ``NAME_A.txt`` and so on, to the arrays of our file; edges stay as listed."""
    try:
        with open_zip(content, f"{name}.zip") as archive:
            there = {Path(member).name: member for member in archive.namelist()}
            files = {part: there.get(f"{name}_{part}.txt") for part in PARTS}
            contents = {part: archive.read(file) for part, file in files.items() if file}
    except zipfile.BadZipFile as error:
        raise DataError(f"{name}.zip: is not a TU dataset ({error}).") from error
    folder = _Folder(Path(f"{name}.zip"), f"{name}_", contents, to_learn=False)
    try:
        raw = folder.integers("graph_labels")[:, 0]
        arrays = _tables(folder, len(raw))
    except DataError as error:
        raise DataError(f"{name}.zip: is not a TU dataset. {error}") from error
    y = np.unique(raw, return_inverse=True)[1]
    found = {"edge_index": arrays["edge_index"].astype(np.int32), "ptr": arrays["ptr"].astype(np.int32)}
    found |= {"y": y.reshape(-1).astype(np.int8), "y_raw": _small(raw)}
    found |= {part: _small(arrays[part]) for part in ("node_labels", "edge_labels") if part in arrays}
    return found | {part: arrays[part] for part in ("node_attr",) if part in arrays}


def _small(values: NDArray[np.int64]) -> NDArray[Any]:
    fits = values.min() >= -128 and values.max() <= 127
    return values.astype(np.int8 if fits else np.int64)


@dataclass(frozen=True)
class _Folder:
    """The files of a folder whose names have one prefix, by part, with what is in them."""

    path: Path
    prefix: str
    contents: dict[str, bytes]
    to_learn: bool
    """Are the graphs to be learnt from, so that their features must differ?"""

    @classmethod
    def open(cls, path: Path, to_learn: bool) -> _Folder:
        try:
            names = sorted(file.name for file in path.iterdir() if not file.name.startswith("."))
        except (OSError, ValueError) as error:  # of a name that no file can have: ValueError
            raise DataError(f"{path}: is not a folder that can be read.") from error
        found = [name for name in names if name.endswith("_A.txt") or name == "A.txt"]
        if len(found) != 1:
            what = f"has {', '.join(found)}" if found else "has no file that ends in _A.txt"
            raise DataError(f"{path}: {what}; a dataset in TU's format has one, DS_A.txt, with a line for each edge.")
        prefix = found[0].removesuffix("A.txt")
        _refuse_misspelt(path, prefix, names)
        files = {part: path / f"{prefix}{part}.txt" for part in PARTS}
        # what is there and no file (a link to nothing) is an error, not a part that is not there
        contents = {part: read_file(file) for part, file in files.items() if os.path.lexists(file)}
        return cls(path, prefix, contents, to_learn)

    def __contains__(self, part: str) -> bool:
        return part in self.contents

    def file(self, part: str) -> str:
        return str(self.path / f"{self.prefix}{part}.txt")

    def integers(self, part: str, columns: int = 1) -> NDArray[np.int64]:
        """Return a file of integers, (lines, columns)."""
        return read_table(self._content(part), self.file(part), np.int64, columns)

    def reals(self, part: str) -> NDArray[np.float32]:
        """Return a file of finite reals, as many on each line as on the first."""
        found = read_table(self._content(part), self.file(part), np.float64, None)
        if self.to_learn:
            check_precision(found, self.file(part))
        return found.astype(np.float32)

    def _content(self, part: str) -> bytes:
        if part not in self.contents:
            raise DataError(f"{self.file(part)}: is missing.")
        if part in FILLED and not self.contents[part].strip():
            raise DataError(f"{self.file(part)}: is empty; it must have a line for each {FILLED[part]}.")
        return self.contents[part]

    def refuse(self, part: str, wrong: NDArray[np.bool_], why: str) -> None:
        """Name the first line that is wrong, if one is."""
        if wrong.any():
            raise DataError(f"{self.file(part)}, line {int(wrong.argmax()) + 1}: {why}")

    def digest(self) -> str:
        """The checksum of all files that count, whatever their prefix."""
        each = (f"{part} {hashlib.sha256(content).hexdigest()}\n" for part, content in sorted(self.contents.items()))
        return hashlib.sha256("".join(each).encode()).hexdigest()


def _refuse_misspelt(path: Path, prefix: str, names: Sequence[str]) -> None:
    """Refuse a file that is nearly called as a part that is missing: it would not be read, without a word."""
    missing = [part for part in PARTS if f"{prefix}{part}.txt" not in names]
    for name in names:
        if not name.lower().endswith(".txt") or not name.lower().startswith(prefix.lower()):
            continue
        near = difflib.get_close_matches(name[len(prefix) : -len(".txt")].lower(), missing, n=1, cutoff=0.9)
        if near:
            raise DataError(
                f"{path / name}: is not read. Rename it if it is meant as {prefix}{near[0]}.txt, or move it away."
            )


def _targets(folder: _Folder, target: Target) -> tuple[NDArray[Any] | None, tuple[int, ...] | None]:
    """Return y, as a file of ours has it, and the raw labels of its classes."""
    if target == "none":
        return None, None
    if target == "attributes" or (target == "auto" and "graph_labels" not in folder and "graph_attributes" in folder):
        targets = folder.reals("graph_attributes")
        check_varied(targets, folder.file("graph_attributes"))
        return targets, None
    if target == "auto" and "graph_labels" not in folder:
        raise DataError(f"{folder.file('graph_labels')}: is missing, and so is {folder.file('graph_attributes')}.")
    raw = folder.integers("graph_labels")[:, 0]
    values, y = np.unique(raw, return_inverse=True)
    if values.size == 1:
        raise DataError(
            f"{folder.file('graph_labels')}: all graphs are of class {values[0]}; there must be two or more."
        )
    return y.reshape(-1), tuple(values.tolist())


def _tables(folder: _Folder, num_graphs: int | None) -> Arrays:
    """Return what there is of edges and nodes as our files have it; the nodes of one graph lie side by side."""
    graph = _indicator(folder, num_graphs)
    order = graph.argsort(kind="stable")  # as a rule they lie so already
    number = np.empty_like(order)
    number[order] = np.arange(order.size)
    arrays: Arrays = {"ptr": np.concatenate([[0], np.cumsum(np.bincount(graph))])}
    arrays["edge_index"] = number[_edges(folder, graph)]
    if "edge_labels" in folder:
        arrays["edge_labels"] = folder.integers("edge_labels")[:, 0]
        _same_length(folder, "edge_labels", arrays["edge_labels"], arrays["edge_index"].shape[1], "A")
    if "node_labels" in folder:
        labels = folder.integers("node_labels")[:, 0]
        _same_length(folder, "node_labels", labels, graph.size, "graph_indicator")
        arrays["node_labels"] = labels[order]
    if "node_attributes" in folder:
        attributes = folder.reals("node_attributes")
        _same_length(folder, "node_attributes", attributes, graph.size, "graph_indicator")
        arrays["node_attr"] = attributes[order]
    return arrays


def _indicator(folder: _Folder, num_graphs: int | None) -> NDArray[np.int64]:
    """Return the graph 0 .. G-1 of each node; each has a node."""
    graph = folder.integers("graph_indicator")[:, 0]
    folder.refuse("graph_indicator", graph < 1, "graphs are counted from 1.")
    if num_graphs is None:
        num_graphs = int(graph.max())
        where = f"by the largest number here, on line {int(graph.argmax()) + 1}"
    else:
        where = "lines of the file of labels or attributes of graphs"
    beyond = graph > num_graphs
    if beyond.any():
        first = int(graph[beyond.argmax()])
        folder.refuse("graph_indicator", beyond, f"names graph {first}; there are {num_graphs} ({where}).")
    if num_graphs > graph.size or (np.bincount(graph, minlength=num_graphs + 1)[1:] == 0).any():
        empty = int(np.setdiff1d(np.arange(1, min(num_graphs, graph.size + 1) + 1), graph)[0])
        raise DataError(
            f"{folder.file('graph_indicator')}, line {graph.size}: the file ends and graph {empty} has no node "
            f"(there are {num_graphs} graphs, {where})."
        )
    return graph - 1


def _edges(folder: _Folder, graph: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edges as they are listed, (2, E), nodes counted from 0."""
    pairs = folder.integers("A", 2)
    low, high = pairs.min(axis=1, initial=graph.size), pairs.max(axis=1, initial=1)
    folder.refuse("A", low < 1, "nodes are counted from 1.")
    folder.refuse("A", high > graph.size, f"names a node beyond the {graph.size} of graph_indicator.")
    edges = pairs.T - 1
    folder.refuse("A", graph[edges[0]] != graph[edges[1]], "joins nodes of different graphs.")
    return edges


def _same_length(folder: _Folder, part: str, values: NDArray[Any], count: int, of: str) -> None:
    """Refuse a file that has not as many lines as the file `of`."""
    lines = len(values)
    if lines != count:
        where = f", line {min(lines, count) + (lines > count)}" if lines else ""
        raise DataError(f"{folder.file(part)}{where}: the file has {lines} lines for the {count} of {folder.file(of)}.")


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
