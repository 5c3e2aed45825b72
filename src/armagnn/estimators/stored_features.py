"""`StoredFeatures`: filtered columns on the disk, mapped into memory, of which a model reads rows in minibatches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from armagnn import checks
from armagnn.errors import DataError, ParameterError, shown
from armagnn.estimators.column_source import PIECE, release
from armagnn.files import read_plain
from armagnn.filters import FilterBank
from armagnn.training.checkpoint import DIGEST, from_bytes, signed

FORMAT: Final = "armagnn-features"
VERSION: Final = 1
PLAN, DONE, ARRAY = "plan.json", "done.json", "features.npy"
LARGEST_PLAN: Final = 2**26
AGAIN: Final = "Precompute the features again, into another folder."

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class StoredFeatures:
    """The columns of X through a bank of filters, in a folder that `precompute_features` wrote.

    Attributes:
        path: the folder.
        plan: what determines the numbers: digests of the graph and of X, the filters, the names of the columns.
        report: how it went: steps, largest residual and seconds of each block of columns.

    Example:
        >>> import tempfile, torch
        >>> from armagnn import GraphOperator
        >>> from armagnn.estimators import precompute_features
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> folder = tempfile.mkdtemp() + "/bank"
        >>> features = precompute_features(op, np.eye(3), folder, filters=(0.9, "high-pass"))
        >>> features.shape, features.names[3:5]
        ((3, 9), ('x0 a=0.9', 'x1 a=0.9'))
        >>> [nodes.tolist() for nodes, rows in features.batches(2)]
        [[0, 1], [2]]
    """

    path: Path
    plan: dict[str, Any]
    report: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a folder; what is unfinished, damaged or none of ours is a :class:`~armagnn.errors.DataError`."""
        path = checks.path("path", path)
        plan, report = read_signed(path / PLAN), read_signed(path / DONE)
        if report is None:
            state = "not finished: give the command again that began it" if plan else "no folder of filtered features"
            raise DataError(f"{path}: is {state}.")
        if plan is None or report.get("plan") != plan["sha256"] or not DIGEST.fullmatch(str(report.get("array"))):
            raise DataError(f"{path}: corrupt ({PLAN} and {DONE} do not belong together). {AGAIN}")
        found = cls(path, plan, report)
        if found.array.shape != (plan["nodes"], len(plan["columns"])) or found.array.dtype != np.dtype(plan["type"]):
            raise DataError(f"{path / ARRAY}: is another array than {PLAN} says. {AGAIN}")
        return found

    @cached_property
    def array(self) -> Array:
        """The features (N, columns), mapped into memory and not read."""
        try:
            found: Array = np.load(self.path / ARRAY, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{self.path / ARRAY}: missing or damaged ({error}). {AGAIN}") from error
        return found

    @property
    def shape(self) -> tuple[int, int]:
        """(N, columns)."""
        rows, columns = self.array.shape
        return rows, columns

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each column: that of the column of X, and that of the filter."""
        return tuple(self.plan["columns"])

    @property
    def bank(self) -> FilterBank:
        """The filters."""
        return FilterBank.from_json(self.plan["filters"], str(self.path / PLAN))

    def verify(self) -> None:
        """Read all of it, and raise a :class:`~armagnn.errors.DataError` unless it is what was written."""
        found = hashlib.sha256()
        with open(self.path / ARRAY, "rb") as file:
            while piece := file.read(PIECE):
                found.update(piece)
        if found.hexdigest() != self.report["array"]:
            raise DataError(f"{self.path / ARRAY}: damaged (checksum mismatch). {AGAIN}")

    # ------------------------------------------------------------------------------------------------------------ rows

    def rows(self, nodes: Any) -> Array:
        """Return the features of some nodes, (n, columns), in their order, in memory."""
        chosen = self._nodes(nodes)
        order = np.argsort(chosen, kind="stable")  # the disk likes them ascending
        found = np.empty((len(chosen), self.shape[1]), dtype=self.array.dtype)
        step = max(1, PIECE // max(1, found.itemsize * self.shape[1]))
        for first in range(0, len(order), step):
            some = order[first : first + step]
            found[some] = self.array[chosen[some]]
        return found

    def batches(self, size: int, nodes: Any = None, seed: int | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield nodes (n) and their features (n, columns), at most ``size`` at a time.

        Args:
            size: of a batch.
            nodes: which; all by default.
            seed: of the order, another one for each seed; None keeps the order.
        """
        size = checks.integer("size", size, 1)
        if nodes is None and seed is None:
            for first in range(0, len(self), size):
                found = np.array(self.array[first : first + size])
                yield np.arange(first, first + len(found)), found
                release(self.array)
            return
        chosen = np.arange(len(self)) if nodes is None else self._nodes(nodes)
        if seed is not None:
            chosen = np.random.default_rng(checks.integer("seed", seed, 0)).permutation(chosen)
        for first in range(0, len(chosen), size):
            some = chosen[first : first + size]
            yield some, self.rows(some)

    def _nodes(self, nodes: Any) -> NDArray[np.int64]:
        if isinstance(nodes, Tensor):
            nodes = nodes.detach().cpu().numpy()
        found = np.asarray(nodes)
        if found.ndim == 1 and found.dtype == bool and len(found) == len(self):
            return np.flatnonzero(found)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ParameterError(f"nodes must be numbers of nodes (n) or a mask ({len(self)},), got {shown(nodes)}.")
        if found.size and (found.min() < 0 or found.max() >= len(self)):
            raise ParameterError(f"nodes must lie in 0 .. {len(self) - 1}, got {found.min()} to {found.max()}.")
        return found.astype(np.int64)

    def __repr__(self) -> str:
        nodes, columns = self.shape
        return f"StoredFeatures({str(self.path)!r}, {nodes} nodes, {columns} columns, {self.array.dtype})"


def read_signed(path: Path) -> dict[str, Any] | None:
    """Return a JSON object that carries a checksum of itself; None where there is no such file."""
    try:
        content = read_plain(path, LARGEST_PLAN)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}).") from error
    try:
        found = from_bytes(path, content)
    except ValueError as error:
        raise DataError(f"{path}: corrupt or truncated. {AGAIN}") from error
    if found.get("format") != FORMAT or found.get("version") != VERSION:
        raise DataError(f"{path}: not written by armagnn, or by another version of it. Choose another folder.")
    if signed({key: value for key, value in found.items() if key != "sha256"}) != content:
        raise DataError(f"{path}: corrupt (checksum mismatch). {AGAIN}")
    return found
