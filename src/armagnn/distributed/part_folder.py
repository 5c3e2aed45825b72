"""The folder of a partition: a folder for each part, which loads alone, and a manifest of all.

=========================== ==========================================================================================
``manifest.json``           what was partitioned and how; written last, so a folder with it is complete
``part-00000/``             the first part, and so on:
``manifest.json``           facts of the whole, the part's halo, its files with their sizes and SHA-256
``rowptr.npy col.npy``      the rows of the adjacency; columns are nodes of the whole, in the new order
``weight.npy``              the weights, if edges have some
``node.npy``                the number that each node had before
``x.npy``                   features; of sparse ones ``x_rowptr.npy x_col.npy x_value.npy``
``y.npy split.npy``         targets; 0 for train, 1 for val, 2 for test, -1 for none
``ids.npy``                 the ids of the nodes, where they are not numbers from 0
=========================== ==========================================================================================

Nothing in it is pickled.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn import checks
from armagnn.checks import instance, integer
from armagnn.errors import DataError, ParameterError, RunError, shown
from armagnn.files import read_plain, write_atomic
from armagnn.operators import CSR
from armagnn.training.checkpoint import from_bytes, signed

FORMAT: Final = {"format": "armagnn-part", "version": 1}
WHOLE: Final = {"format": "armagnn-parts", "version": 1}
MANIFEST: Final = "manifest.json"
LARGEST: Final = 2**20
"""Bytes of the largest manifest of a part."""
LARGEST_WHOLE: Final = 2**26
"""Bytes of the largest manifest of a partition, which has the halo of each part with each other."""
MOST_PARTS: Final = 1024
AGAIN: Final = "Copy it again, or partition again."

KINDS: Final = {
    "rowptr": "i", "col": "i", "weight": "f", "node": "i", "x": "f", "x_rowptr": "i", "x_col": "i", "x_value": "f",
    "y": "if", "split": "i", "ids": "iU",
}  # fmt: skip
"""The arrays that a part may have, with the kinds of their numbers."""


@dataclass(frozen=True)
class Facts:
    """What every part knows of the whole.

    Attributes:
        nodes: N.
        starts: the first node of each part, and N.
        symmetric: does every edge go both ways, with one weight?
        weighted: do edges have weights?
        order: digest of the order of the nodes; partitions of one order into other numbers of parts are alike.
        edges: digest of the edges.
        rows: what is known of the nodes, as `PartRows.described` says it; nothing of a partition of edges alone.
    """

    nodes: int
    starts: tuple[int, ...]
    symmetric: bool
    weighted: bool
    order: str
    edges: str
    rows: Mapping[str, Any]

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self.starts) - 1

    @property
    def sha256(self) -> str:
        """Checksum of the data in their order, however many parts they are cut into."""
        content = {"edges": self.edges, "order": self.order, "rows": dict(self.rows), "symmetric": self.symmetric}
        return hashlib.sha256(repr(sorted(content.items(), key=str)).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The facts as plain JSON."""
        return asdict(self) | {"starts": list(self.starts), "rows": dict(self.rows)}

    @classmethod
    def from_json(cls, content: Any, path: Path) -> Facts:
        """The inverse of `to_json`."""
        if not isinstance(content, dict) or content.keys() != cls.__dataclass_fields__.keys():
            raise DataError(f"{path}: does not have the facts that this armagnn knows. Use the armagnn that wrote it.")
        starts, nodes = content["starts"], content["nodes"]
        fine = isinstance(starts, list) and len(starts) > 1 and all(type(start) is int for start in starts)
        fine = fine and type(nodes) is int and starts[0] == 0 and starts[-1] == nodes
        if not fine or any(a > b for a, b in itertools.pairwise(starts)) or not isinstance(content["rows"], dict):
            raise DataError(f"{path}: corrupt (starts do not rise from 0 to N). {AGAIN}")
        return cls(**content | {"starts": tuple(starts)})


@dataclass(frozen=True, eq=False)
class GraphPart:
    """Some runs of nodes of a partition, joined: what a rank holds.

    Attributes:
        facts: of the whole.
        first: the first node, as numbered in the new order.
        arrays: what the files hold, by name; columns are nodes of the whole.
    """

    facts: Facts
    first: int
    arrays: Mapping[str, NDArray[Any]]

    @classmethod
    def load(cls, folder: str | Path, number: int | range) -> Self:
        """Read a part, or some that follow each other; every file is checked against its size and checksum.

        Args:
            folder: of the partition; only the folders of these parts need be there.
            number: which part, or ``range(2, 4)`` for parts 2 and 3 as one.
        """
        folder = checks.path("folder", folder)
        if not isinstance(number, range):
            number = integer("number", number, 0, extra=", or a range of numbers")
            number = range(number, number + 1)
        if number.step != 1:
            raise ParameterError(f"number must name parts that follow each other, got {number}.")
        found = [_read_part(folder, each) for each in number]
        if not found:
            raise ParameterError("number names no part.")
        facts = found[0][0]
        for other, (theirs, _) in zip(number, found, strict=True):
            if theirs != facts:
                raise DataError(f"{part_path(folder, other)}: is of another partition than part {number[0]}.")
        pieces = [arrays for _, arrays in found]
        joined = {name: _joined(name, [each[name] for each in pieces]) for name in pieces[0]}
        return cls(facts, facts.starts[number[0]], joined)

    @property
    def sha256(self) -> str:
        """Checksum of the whole data, in the order of their nodes."""
        return self.facts.sha256

    @property
    def regression(self) -> bool:
        """Are there real targets rather than classes?"""
        return self.facts.rows.get("task") == "number"

    @property
    def metric(self) -> str:
        """What the data are judged by."""
        return str(self.facts.rows.get("metric", "accuracy"))

    @property
    def outputs(self) -> int:
        """What a network has to put out for each node."""
        self.require_rows()
        return len(self.facts.rows["classes"]) or 1

    @property
    def nodes(self) -> int:
        """The number of nodes here."""
        return int(self.arrays["node"].size)

    def tensor(self, name: str) -> Tensor | None:
        """An array as a tensor, if it is there."""
        instance("name", name, str, "the name of an array")
        found = self.arrays.get(name)
        return None if found is None or found.dtype.kind == "U" else torch.from_numpy(found)

    @property
    def x(self) -> Tensor | CSR:
        """The features, (n, F)."""
        self.require_rows()
        dense = self.tensor("x")
        if dense is not None:
            return dense
        rowptr, col, value = (torch.from_numpy(self.arrays[f"x_{name}"]) for name in ("rowptr", "col", "value"))
        index = torch.int32 if value.shape[0] < 2**31 else torch.int64
        return CSR(rowptr.to(index), col.to(index), value, (self.nodes, int(self.facts.rows["features"])))

    def require_rows(self) -> None:
        """Refuse a partition of edges alone."""
        if not self.facts.rows:
            raise ParameterError(
                "this partition has edges alone: partition again with --dataset, --nodes, or --x and --y."
            )


def part_path(folder: Path, number: int) -> Path:
    """The folder of a part."""
    return folder / f"part-{number:05}"


def write_part(folder: Path, number: int, facts: Facts, arrays: Mapping[str, NDArray[Any]], halo: list[int]) -> None:
    """Write a part; it is there once its manifest is."""
    path = part_path(folder, number)
    files = {}
    for name, array in arrays.items():
        file = path / f"{name}.npy"
        write_atomic(file, lambda out, array=array: np.save(out, array, allow_pickle=False))  # type: ignore[misc]
        files[file.name] = {"bytes": file.stat().st_size, "sha256": _digest(file)}
    body = {"part": number, "facts": facts.to_json(), "nonzeros": int(arrays["col"].size), "halo": halo, "files": files}
    write_atomic(path / MANIFEST, signed(FORMAT | body))


def read_manifest(folder: Path, number: int) -> dict[str, Any]:
    """The manifest of a part, checked."""
    path = part_path(folder, number) / MANIFEST
    found = read_signed(path, FORMAT)
    files, halo = found.get("files"), found.get("halo")
    if found.get("part") != number or not isinstance(files, dict) or not isinstance(halo, list):
        raise DataError(f"{path}: is no manifest of part {number}. {AGAIN}")
    for name, file in files.items():
        stem = name.removesuffix(".npy") if isinstance(name, str) else ""
        if stem not in KINDS or not isinstance(file, dict) or file.keys() != {"bytes", "sha256"}:
            raise DataError(f"{path}: names a file that no part has: {shown(name)}.")
    return found | {"facts": Facts.from_json(found.get("facts"), path)}


def read_signed(path: Path, head: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON file that carries a checksum of itself."""
    try:
        content = read_plain(path, LARGEST_WHOLE if head is WHOLE else LARGEST)
        found = from_bytes(path, content)
    except (OSError, ValueError) as error:
        if isinstance(error, RunError):
            raise DataError(f"{path}: corrupt, truncated or not JSON. {AGAIN}") from error
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read ({why}). Check the path: armagnn partition writes it.") from error
    if any(found.get(name) != value for name, value in head.items()):
        raise DataError(f"{path}: is not what this armagnn writes. Check the path, or partition again.")
    if signed({name: value for name, value in found.items() if name != "sha256"}) != content:
        raise DataError(f"{path}: corrupt (checksum mismatch). {AGAIN}")
    return found


def facts_of(folder: str | Path) -> Facts:
    """The facts of a partition, from whichever of its parts is there.

    Example:
        >>> facts_of("parts").starts  # doctest: +SKIP
        (0, 677, 1354, 2031, 2708)
    """
    folder = checks.path("folder", folder)
    if (folder / MANIFEST).is_file():
        return Facts.from_json(read_signed(folder / MANIFEST, WHOLE).get("facts"), folder / MANIFEST)
    there = sorted(folder.glob(f"part-*/{MANIFEST}"))
    if not there:
        raise DataError(f"{folder}: holds no partition. Make one: armagnn partition EDGES --parts P --out {folder}")
    number = there[0].parent.name.removeprefix("part-")
    facts: Facts = read_manifest(folder, integer("part", int(number) if number.isdigit() else -1, 0))["facts"]
    return facts


def shares(parts: int, ranks: int) -> list[range]:
    """Which parts each rank holds: runs that are equally long, or longer by one at the first ranks.

    Example:
        >>> shares(4, 3)
        [range(0, 2), range(2, 3), range(3, 4)]
    """
    if ranks > parts:
        raise ParameterError(
            f"there are {ranks} ranks for {parts} parts: start {parts} ranks at most, or partition again with "
            f"--parts {ranks}."
        )
    each, more = divmod(parts, ranks)
    bounds = [rank * each + min(rank, more) for rank in range(ranks + 1)]
    return [range(a, b) for a, b in itertools.pairwise(bounds)]


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_part(folder: Path, number: int) -> tuple[Facts, dict[str, NDArray[Any]]]:
    path = part_path(folder, number)
    manifest = read_manifest(folder, number)
    arrays = {}
    for name, file in manifest["files"].items():
        try:
            if (path / name).stat().st_size != file["bytes"] or _digest(path / name) != file["sha256"]:
                raise DataError(f"{path / name}: corrupt or truncated (checksum mismatch). {AGAIN}")
            array = np.load(path / name, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path / name}: missing or unreadable ({error}). {AGAIN}") from error
        stem = name.removesuffix(".npy")
        if array.dtype.kind not in KINDS[stem]:
            raise DataError(f"{path / name}: holds {array.dtype}, which it cannot. {AGAIN}")
        arrays[stem] = array
    facts: Facts = manifest["facts"]
    _check(arrays, facts, number, path)
    return facts, arrays


def _check(arrays: Mapping[str, NDArray[Any]], facts: Facts, number: int, path: Path) -> None:
    """Refuse arrays that do not fit each other."""
    count = facts.starts[number + 1] - facts.starts[number]
    wanted = {"rowptr", "col", "node"} | ({"weight"} if facts.weighted else set())
    wanted |= {"y", "split"} if facts.rows else set()
    lengths: dict[str, Any] = {"rowptr": count + 1, "node": count, "y": count, "split": count, "ids": count, "x": count}
    if not wanted <= arrays.keys():
        raise DataError(f"{path}: lacks {', '.join(sorted(wanted - arrays.keys()))}. {AGAIN}")
    lengths |= {"weight": arrays["col"].size, "x_rowptr": count + 1}
    for name, length in lengths.items():
        if name in arrays and len(arrays[name]) != length:
            raise DataError(f"{path}: {name} has {len(arrays[name])} rows, of {length}. {AGAIN}")


def _joined(name: str, pieces: Iterable[NDArray[Any]]) -> NDArray[Any]:
    pieces = list(pieces)
    if len(pieces) == 1:
        return pieces[0]
    if not name.endswith("rowptr"):
        return np.concatenate(pieces)
    ends = np.cumsum([0, *(int(piece[-1]) for piece in pieces)])
    return np.concatenate([pieces[0][:1], *(piece[1:] + end for piece, end in zip(pieces, ends, strict=False))])
