"""What is known of the nodes besides their edges (features, labels, splits), as rows that a partition cuts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from armagnn.checks import instance, integer
from armagnn.data import NodeDataset, Scaler
from armagnn.data.tables.frame import NodeIds
from armagnn.distributed.edge_stream import Integers, array_of
from armagnn.errors import DataError, shown
from armagnn.operators import CSR

PARTS_OF_SPLIT: Final = ("train", "val", "test")
ROWS_AT_ONCE: Final = 1 << 16
Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PartRows:
    """Features X, targets y and the split of the nodes, in memory or mapped into it.

    Attributes:
        name: of the data.
        x: (N, F) numbers, an array or a sparse `CSR`.
        y: (N,) labels, -1 where there is none; or (N, C) of 0 and 1; or (N,) real targets, NaN where there is none.
        split: (N,) int8: 0 for train, 1 for val, 2 for test, -1 for none.
        classes: the names of the classes or labels; none of a regression.
        digest: of all of it.
        scale: mean and deviation of the columns of x, by which rows are standardised when they are cut.
        ids: the ids of the nodes, where they are not 0 .. N-1.
        metric: what the data are judged by.
        closing: are macro-F1 and ROC-AUC wanted after training?
    """

    name: str
    x: Array | CSR
    y: Array
    split: NDArray[np.int8]
    classes: tuple[str, ...]
    digest: str
    scale: tuple[Array, Array] | None = None
    ids: NodeIds | None = None
    metric: str = "accuracy"
    closing: bool = False

    @property
    def task(self) -> str:
        """What is learnt: "classes", "labels" (several of them) or "number"."""
        return "labels" if self.y.ndim == 2 else "number" if self.y.dtype.kind == "f" else "classes"

    @classmethod
    def of_dataset(cls, data: NodeDataset) -> PartRows:
        """The nodes of a dataset."""
        instance("data", data, NodeDataset, "a NodeDataset")
        split = np.full(data.num_nodes, -1, dtype=np.int8)
        for number, part in enumerate(PARTS_OF_SPLIT):
            split[data.idx(part).numpy()] = number
        x = data.x if isinstance(data.x, CSR) else data.x.numpy()
        return cls(
            data.name, x, data.y.numpy(), split, data.class_names if data.num_classes else (), data.sha256,
            ids=data.ids, metric=data.metric, closing=data.schema is not None or data.metric != "accuracy",
        )  # fmt: skip

    @classmethod
    def of_arrays(
        cls, x: Path, y: Path, split: Path | None = None, *, standardise: bool = True, val: float = 0.2,
        test: float = 0.2, seed: int = 0,
    ) -> PartRows:  # fmt: skip
        """The nodes in ``.npy`` files, which are read bit by bit, not as a whole.

        Args:
            x: (N, F) numbers.
            y: (N,) classes 0 .. C-1, negative where there is none; or (N, C) of 0 and 1; or (N,) reals, NaN likewise.
            split: (N,) integers: 0 for train, 1 for val, 2 for test, others for none. By default nodes with a target
                are drawn.
            standardise: subtract the mean of each column and divide by its deviation, both of the training nodes.
            val: share of the nodes with a target that are drawn for validation.
            test: share of them for the test.
            seed: of the draw.
        """
        features, target = array_of(x), array_of(y)
        if features.ndim != 2 or features.dtype.kind not in "iuf" or not features.shape[1]:
            raise DataError(f"{x}: must have shape (N, F) and numbers, got {features.dtype} {shown(features.shape)}.")
        if target.ndim not in (1, 2) or target.dtype.kind not in "iuf" or len(target) != len(features):
            raise DataError(
                f"{y}: must have a row for each of {len(features)} nodes and one or two axes, got {target.dtype} "
                f"{shown(target.shape)}."
            )
        found, known, classes = _targets(np.array(target), str(y))
        parts = _drawn(known, val, test, seed) if split is None else _split(array_of(split), known, str(split))
        for number, part in enumerate(PARTS_OF_SPLIT):
            if not (parts == number).any():
                raise DataError(f"{split or y}: no node with a target is for {part}. All three parts need one.")
        scale = _scale(features, parts == 0, str(x)) if standardise else None
        digest = hashlib.sha256(f"{standardise} {found.dtype} {found.shape} {features.dtype} {features.shape}".encode())
        digest.update(found.tobytes())
        digest.update(parts.tobytes())
        for rows in _in_blocks(features):
            digest.update(np.ascontiguousarray(rows).tobytes())
        return cls(x.stem, features, found, parts, classes, digest.hexdigest(), scale)

    def cut(self, nodes: Integers) -> dict[str, Array]:
        """The rows of some nodes, as the arrays of a part."""
        arrays: dict[str, Array] = {"y": np.ascontiguousarray(self.y[nodes]), "split": self.split[nodes]}
        if isinstance(self.x, CSR):
            matrix = self.x.to_scipy().tocsr()[nodes]
            arrays |= {"x_rowptr": matrix.indptr.astype(np.int64), "x_col": matrix.indices.astype(np.int32)}
            return arrays | {"x_value": matrix.data.astype(np.float32)}
        rows = self.x[nodes]
        if self.scale is not None:
            rows = (rows.astype(np.float64) - self.scale[0]) / self.scale[1]
        with np.errstate(over="ignore"):
            rows = rows.astype(np.float32)
        if not np.isfinite(rows).all():
            node = nodes[~np.isfinite(rows).all(axis=1)][0]
            raise DataError(f"{self.name}: the features of node {node} are no finite numbers in float32. Mend them.")
        return arrays | {"x": rows}

    def described(self) -> dict[str, Any]:
        """What all parts must know of the whole, as plain JSON."""
        chosen = self.y[self.split == 0]
        mean, deviation, counts = 0.0, 1.0, []
        if self.task == "number":
            scaler = Scaler.fit(torch.from_numpy(chosen[:, None]), torch.arange(len(chosen)), floor=0.0)
            mean, deviation = float(scaler.mean[0]), float(scaler.deviation[0])
        elif self.task == "labels":
            counts = chosen.sum(axis=0).astype(int).tolist()
        else:
            counts = np.bincount(chosen, minlength=len(self.classes)).tolist()
        sizes = [int((self.split == number).sum()) for number in range(3)]
        return {
            "name": self.name, "task": self.task, "features": int(self.x.shape[1]), "classes": list(self.classes),
            "sparse": isinstance(self.x, CSR),
            "sizes": sizes, "training_counts": counts, "target_mean": mean, "target_deviation": deviation,
            "id": "node" if self.ids is None else self.ids.name, "data": self.digest,
            "metric": self.metric, "closing": self.closing and self.task != "number",
        }  # fmt: skip


def _in_blocks(array: Array) -> Iterator[Array]:
    for first in range(0, len(array), ROWS_AT_ONCE):
        yield array[first : first + ROWS_AT_ONCE]


def _targets(y: Array, source: str) -> tuple[Array, NDArray[np.bool_], tuple[str, ...]]:
    """Return the targets as they are kept, which of them are known, and the names of the classes."""
    if y.ndim == 2:
        if y.shape[1] < 2 or not np.isin(y, (0, 1)).all():
            raise DataError(f"{source}: several columns are labels, two or more, of 0 and 1.")
        return y.astype(np.float32), np.ones(len(y), dtype=bool), tuple(map(str, range(y.shape[1])))
    if y.dtype.kind == "f":
        found = y.astype(np.float32)
        if np.isinf(found).any():
            raise DataError(f"{source}: node {int(np.isinf(found).argmax())} has an infinite target in float32.")
        return found, ~np.isnan(found), ()
    count = int(y.max(initial=-1)) + 1
    known = y >= 0
    missing = np.setdiff1d(np.arange(min(count, len(y) + 1)), y[known])
    if count < 2 or missing.size:
        gap = f"no node has class {missing[0]}" if missing.size else f"there is {count} class"
        raise DataError(f"{source}: classes are 0 .. C-1, two or more, and negative where unknown; {gap}.")
    return np.where(known, y, -1).astype(np.int64), known, tuple(map(str, range(count)))


def _split(given: Array, known: NDArray[np.bool_], source: str) -> NDArray[np.int8]:
    if given.shape != known.shape or given.dtype.kind not in "iu":
        raise DataError(f"{source}: must be {len(known)} integers, one a node, got {given.dtype} {shown(given.shape)}.")
    inside = (given >= 0) & (given <= 2)
    lacking = inside & ~known
    if lacking.any():
        node = int(lacking.argmax())
        raise DataError(f"{source}: node {node} is for {PARTS_OF_SPLIT[given[node]]} but has no target.")
    return np.where(inside, given, -1).astype(np.int8)


def _drawn(known: NDArray[np.bool_], val: float, test: float, seed: int) -> NDArray[np.int8]:
    """Deal the nodes that have a target."""
    nodes = np.flatnonzero(known)
    nodes = np.random.default_rng(integer("split_seed", seed, 0)).permutation(nodes)
    first, second = round(val * len(nodes)), round(val * len(nodes)) + round(test * len(nodes))
    split = np.full(len(known), -1, dtype=np.int8)
    split[nodes[second:]], split[nodes[:first]], split[nodes[first:second]] = 0, 1, 2
    return split


def _scale(x: Array, chosen: NDArray[np.bool_], source: str) -> tuple[Array, Array]:
    """Return mean and deviation of each column over the chosen rows, as `Scaler.fit` does, block by block."""
    from armagnn.data.scaling import SMALLEST_DEVIATION, spread

    def blocks() -> Iterator[Array]:
        for first in range(0, len(x), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            if chosen[some].any():
                yield x[some][chosen[some]].astype(np.float64)

    count = int(chosen.sum())
    columns = x.shape[1]
    total, size = np.zeros(columns), np.zeros(columns)
    for rows in blocks():
        total += rows.sum(axis=0)
        np.maximum(size, np.abs(rows).max(axis=0), out=size)
    mean = total / count
    squares, distance = np.zeros(columns), np.zeros(columns)
    for rows in blocks():
        off = np.abs(rows - mean)
        squares += (off**2).sum(axis=0)
        np.maximum(distance, off.max(axis=0), out=distance)
    if not (np.isfinite(squares) & np.isfinite(size)).all():
        raise DataError(f"{source}: features of training nodes are no finite numbers. Mend them.")
    moments = (torch.from_numpy(each) for each in (np.sqrt(squares / count), distance, size))
    deviation = spread(*moments, floor=SMALLEST_DEVIATION).numpy()
    return mean, np.maximum(deviation, np.finfo(np.float64).tiny)
