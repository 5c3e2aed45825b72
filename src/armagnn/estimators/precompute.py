"""`precompute_features`: the columns of X through a bank of filters, block by block, into a folder."""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Self

import numpy as np
import torch

from armagnn import checks
from armagnn.errors import DataError, ParameterError, ShapeError, WriteError, shown
from armagnn.estimators.column_source import PIECE, Array, ColumnSource
from armagnn.estimators.stored_features import ARRAY, DONE, FORMAT, PLAN, VERSION, StoredFeatures, read_signed
from armagnn.files import check_writable, is_draft, write_atomic
from armagnn.filters import FilterBank
from armagnn.operators import GraphOperator
from armagnn.processors import memory_limit
from armagnn.solvers import Statistics
from armagnn.training.checkpoint import from_bytes, signed

BLOCKS: Final = "blocks"
TYPES: Final = ("float32", "float64")
SHARE: Final = 0.5
"""Of the machine's memory, what is used unless somebody says how much."""

Progress = Callable[[str, int, int], None]
"""Is told what is done: a stage, and of how many columns (or rows) how many are ready."""


def precompute_features(
    graph: Any,
    x: Any,
    out: str | Path,
    *,
    filters: Any = (0.9, 0.5, -0.5),
    passthrough: bool = True,
    memory: float | None = None,
    dtype: str = "float32",
    tol: float | None = None,
    max_iter: int | None = None,
    progress: Progress | None = None,
) -> StoredFeatures:
    r"""Write :math:`[X, h_1(M) X, \dots, h_B(M) X]` to a folder, and return it as `StoredFeatures`.

    As many columns of X as ``memory`` allows are filtered at a time, all poles of all filters from one Krylov space. A
    block of columns that is finished is written as a whole file. Killed or interrupted, the same call goes on after the
    last finished block. A folder that was begun with another graph, bank or X is refused. At the end the blocks become
    one array (N, columns) with the features of a node side by side, so the disk needs room for it twice.

    Args:
        graph: a `GraphOperator` of kind ``arma``, or an undirected graph in any form that one can be built from.
        x: the features (N, F): an array, the path of an .npy file, or of a CSV or Parquet file of numbers whose rows
            are the nodes in their order. Files are read a few columns at a time.
        out: the folder.
        filters: the bank, as `FilterBank.of` takes it.
        passthrough: put X itself before the filtered columns.
        memory: bytes that the operator and the solve may take; half of the machine's by default.
        dtype: of all numbers, ``"float32"`` or ``"float64"``.
        tol: relative residual of the solves; 1e-6 in float32, 1e-12 in float64 by default.
        max_iter: the most steps of a solve.
        progress: a function of (stage, done, total), which is called now and then.

    Example:
        >>> import tempfile
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> folder = Path(tempfile.mkdtemp(), "bank")
        >>> features = precompute_features(op, np.eye(3), folder, filters=(0.5,), passthrough=False)
        >>> np.allclose(features.array, FilterBank.of([0.5]).filter(op, torch.eye(3))[0])
        True
    """
    bank, source = FilterBank.of(filters), ColumnSource.of(x)
    kind = np.dtype(checks.choice("dtype", dtype, TYPES))
    out, passthrough = checks.path("out", out), checks.flag("passthrough", passthrough)
    if tol is not None:
        checks.real("tol", tol, above=0, below=1)
    op = graph if isinstance(graph, GraphOperator) else GraphOperator.from_graph(graph, source.rows)
    op = op.to(getattr(torch, dtype)).detach()
    if op.num_nodes != source.rows:
        raise ShapeError(f"{source.source} has {source.rows} rows, but the graph {op.num_nodes} nodes: one row a node.")
    for each in bank.filters:
        each.check_operator(op)
    tell = progress or (lambda stage, done, total: None)
    width = _width(op, bank, passthrough, kind, memory)
    tell("checksums", 0, len(source.names))
    own = list(source.names) if passthrough else []
    plan = signed(
        {
            "format": FORMAT, "version": VERSION, "nodes": source.rows, "type": dtype, "passthrough": passthrough,
            "graph": _digest(op), "features": source.digest(), "filters": bank.to_json(),
            "columns": own + [f"{column} {name}" for name in bank.names for column in source.names],
            "tol": tol, "max_iter": max_iter,
        }
    )  # fmt: skip
    job = _Job.begin(out, plan, source, bank)
    if job.finished:
        job.clear()
        return StoredFeatures.open(out)
    job.check_disk()
    job.filter(lambda x, log: bank.filter(op, x, tol, max_iter, log), width, tell)
    job.join(tell)
    return StoredFeatures.open(out)


@dataclass(frozen=True, eq=False)
class _Job:
    """The work on a folder.

    Attributes:
        out: the folder.
        plan: what determines the numbers.
        source: X.
        slots: how many columns there are for each column of X.
    """

    out: Path
    plan: dict[str, Any]
    source: ColumnSource
    slots: int

    @classmethod
    def begin(cls, out: Path, plan: bytes, source: ColumnSource, bank: FilterBank) -> Self:
        """Write the plan into a new folder, or find that it is the one that is there."""
        wanted, before = from_bytes(out / PLAN, plan), None
        check_writable(out / PLAN)
        try:
            before = read_signed(out / PLAN)
            left = [each for each in out.iterdir() if not is_draft(each)] if before is None and out.is_dir() else []
        except OSError as error:
            raise WriteError(f"{out}: is no folder for features ({error.strerror}). Choose another.") from error
        if left:
            raise DataError(
                f"{out}: holds files that are no filtered features, and is left alone. Choose another folder."
            )
        if before is None:
            write_atomic(out / PLAN, plan)
        elif before != wanted:
            raise DataError(
                f"{out}: was begun with {_difference(before, wanted)}. Give the same again, or choose another folder."
            )
        return cls(out, wanted, source, len(bank) + wanted["passthrough"])

    @property
    def type(self) -> np.dtype[Any]:
        """Of all numbers."""
        found: np.dtype[Any] = np.dtype(self.plan["type"])
        return found

    @property
    def finished(self) -> bool:
        """Is all of it there?"""
        return (self.out / DONE).exists()

    def records(self) -> list[dict[str, Any]]:
        """What is known of the blocks that are finished, in the order of their columns."""
        found = []
        for path in sorted((self.out / BLOCKS).glob("*.json")):
            record = read_signed(path)
            if record is None or record.get("plan") != self.plan["sha256"]:
                raise DataError(f"{path}: belongs to other features. Remove {self.out / BLOCKS} and start again.")
            array = self._array(record)
            if not array.is_file() or array.stat().st_size != record["bytes"]:
                path.unlink()  # the record of a file that is not whole any more
                continue
            found.append(record)
        return found

    def _array(self, record: dict[str, Any]) -> Path:
        return self.out / BLOCKS / f"{record['first']:06}-{record['stop']:06}.npy"

    def check_disk(self) -> None:
        """Refuse to begin what the disk has no room for."""
        size = self.source.rows * len(self.plan["columns"]) * self.type.itemsize
        there = sum(record["bytes"] for record in self.records())
        free = shutil.disk_usage(self.out).free
        if 2 * size - there > free:
            raise WriteError(
                f"{self.out}: the features have {size / 2**30:.1f} GiB and need room twice, but the disk has "
                f"{free / 2**30:.1f} GiB left. Make room, take fewer filters, or another disk."
            )

    # ---------------------------------------------------------------------------------------------------------- blocks

    def filter(self, solve: Any, width: int, tell: Progress) -> None:
        """Filter the columns that are missing, ``width`` at a time."""
        total = len(self.source.names)
        ready = {column for record in self.records() for column in range(record["first"], record["stop"])}
        tell("columns", len(ready), total)
        first = 0
        while first < total:
            if first in ready:
                first += 1
                continue
            stop = first + 1
            while stop < min(total, first + width) and stop not in ready:
                stop += 1
            self._block(solve, first, stop)
            ready.update(range(first, stop))
            tell("columns", len(ready), total)
            first = stop

    def _block(self, solve: Any, first: int, stop: int) -> None:
        began, log = time.monotonic(), list[Statistics]()
        gc.collect()  # numba, which compiles in the first block, leaves frames behind that hold that block's vectors
        x = self.source.read(first, stop, self.type)
        found = solve(torch.from_numpy(x), log).numpy()
        shape = (len(x), self.slots, stop - first)
        step = max(1, PIECE // (self.slots * (stop - first) * self.type.itemsize))

        def pieces() -> Any:
            for low in range(0, len(x), step):
                rows = slice(low, low + step)
                given = [x[rows][:, None]] if self.plan["passthrough"] else []
                yield np.concatenate([*given, found[:, rows].transpose(1, 0, 2)], axis=1)

        record: dict[str, Any] = {"first": first, "stop": stop}
        path = self._array(record)
        record["array"] = _write_array(path, shape, self.type, pieces())
        record |= {
            "format": FORMAT, "version": VERSION, "plan": self.plan["sha256"], "bytes": path.stat().st_size,
            "steps": [len(each) for how in log for each in how.residuals],
            "residual": max((how.residual for how in log), default=0.0),
            "converged": not any(how.failed for how in log), "seconds": time.monotonic() - began,
        }  # fmt: skip
        write_atomic(path.with_suffix(".json"), signed(record))

    def join(self, tell: Progress) -> None:
        """Make one array of the blocks, in which the features of a node lie side by side; then remove them."""
        records = self.records()
        nodes, columns = self.source.rows, len(self.source.names)
        step = max(1, PIECE // (self.slots * columns * self.type.itemsize))
        digests = [hashlib.sha256() for _ in records]

        def pieces() -> Any:
            for low in range(0, nodes, step):
                count = min(step, nodes - low)
                joined = np.empty((count, self.slots, columns), dtype=self.type)
                for record, digest in zip(records, digests, strict=True):
                    width = record["stop"] - record["first"]
                    row = self.slots * width * self.type.itemsize
                    header = record["bytes"] - nodes * row
                    with open(self._array(record), "rb") as file:  # one at a time: there may be thousands of blocks
                        if low == 0:
                            digest.update(file.read(header))
                        file.seek(header + low * row)
                        content = file.read(count * row)
                    digest.update(content)
                    found = np.frombuffer(content, self.type).reshape(count, self.slots, width)
                    joined[:, :, record["first"] : record["stop"]] = found
                yield joined
                tell("rows", low + count, nodes)
            for record, digest in zip(records, digests, strict=True):
                if digest.hexdigest() != record["array"]:
                    self._array(record).unlink()
                    raise DataError(
                        f"{self._array(record)}: damaged (checksum mismatch). Start again: only it is redone."
                    )

        digest = _write_array(self.out / ARRAY, (nodes, self.slots * columns), self.type, pieces())
        kept = ("first", "stop", "steps", "residual", "converged", "seconds")
        report = {
            "format": FORMAT, "version": VERSION, "plan": self.plan["sha256"], "array": digest,
            "blocks": [{key: record[key] for key in kept} for record in records],
        }  # fmt: skip
        write_atomic(self.out / DONE, signed(report))
        self.clear()

    def clear(self) -> None:
        """Remove the blocks of features that are finished."""
        folder = self.out / BLOCKS
        if folder.is_dir():
            for path in [*folder.glob("*.json"), *folder.glob("*.npy"), *filter(is_draft, folder.iterdir())]:
                path.unlink()
            if not any(folder.iterdir()):
                folder.rmdir()


class _Hashed:
    """A file that is written, and the digest of what went into it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def write(self, content: Any) -> int:
        self.digest.update(content)
        return self.file.write(content)


def _write_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], pieces: Any) -> str:
    """Write the pieces of an array, one after the other, as an .npy file, and return its SHA-256."""
    digest = ""

    def write(file: IO[bytes]) -> None:
        nonlocal digest
        hashed: Any = _Hashed(file)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(hashed, header)
        for piece in pieces:
            hashed.write(np.ascontiguousarray(piece, dtype=dtype).data.cast("B"))
        digest = hashed.digest.hexdigest()

    write_atomic(path, write)
    return digest


def _digest(op: GraphOperator) -> str:
    """Return a SHA-256 of the operator's entries."""
    found = hashlib.sha256(f"{op.kind} {op.num_nodes} {op.nnz}".encode())
    for part in (op.rowptr, op.col, op.value):
        numbers: Array = part.cpu().numpy()
        if part is not op.value:  # the same graph, whatever type its numbers have
            for low in range(0, len(numbers), PIECE // 8):
                found.update(numbers[low : low + PIECE // 8].astype(np.int64).data)
        else:
            found.update(numbers.data)
    return found.hexdigest()


def _width(op: GraphOperator, bank: FilterBank, passthrough: bool, dtype: np.dtype[Any], memory: float | None) -> int:
    """Return how many columns of X a budget of bytes allows."""
    if memory is None:
        memory = SHARE * _installed()
    budget = checks.real("memory", memory, above=0, what="number of bytes")
    operator = sum(part.numel() * part.element_size() for part in (op.rowptr, op.col, op.value))
    fixed, column = operator + 4 * PIECE, op.num_nodes * dtype.itemsize * bank.numbers_at_peak(passthrough)
    if budget < fixed + column:
        least, of_op, of_column = ((n / 2**30) for n in (fixed + column, operator, column))
        raise ParameterError(
            f"memory={budget / 2**30:.3g} GiB is too little: the operator takes {of_op:.3g} GiB and a column with "
            f"{bank.num_poles} poles {of_column:.3g} GiB, so at least {least:.3g} GiB."
        )
    return int((budget - fixed) // column)


def _installed() -> int:
    """Bytes of the machine's memory, or what a container has of it."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = 2**33
    return int(min(machine, memory_limit()))


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return what is different about two plans, in words."""
    said = {key: f"{key}={shown(before.get(key))}" for key in ("type", "tol", "max_iter", "passthrough")}
    said = {"nodes": "another number of nodes", **said, "graph": "another graph", "features": "other features"}
    said["filters"] = "another bank of filters"
    return next((text for key, text in said.items() if before.get(key) != now[key]), "other columns")
