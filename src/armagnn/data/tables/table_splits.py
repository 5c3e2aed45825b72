"""Which nodes are for training, validation and test: by a column, drawn by class, or one of k folds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armagnn.checks import integer, real
from armagnn.data.splits import check_seed, shuffled
from armagnn.data.tables.column_kinds import texts_of
from armagnn.data.tables.frame import Frame
from armagnn.data.tables.node_targets import NodeTarget
from armagnn.errors import DataError, ParameterError, shown

PURPOSE: Final = 123
"""Of the draw of a split; see :mod:`armagnn.randomness`."""

NAMES: Final = {
    "train": "train", "training": "train", "tr": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val",
    "test": "test", "testing": "test", "te": "test",
}  # fmt: skip
"""What the values of a column of splits mean."""


@dataclass(frozen=True, eq=False)
class SplitWish:
    """How nodes shall be split.

    Attributes:
        column: of the table of nodes, with train, val and test; empty: they are drawn.
        val: the share of nodes with a target for validation; from 1 on, their number.
        test: likewise for the test.
        seed: of the draw.
        folds: number of folds; 0: a single split by `val` and `test`.
        fold: which of the folds is the test, from 0.
    """

    column: str = ""
    val: float = 0.2
    test: float = 0.2
    seed: int = 0
    folds: int = 0
    fold: int = 0

    def __post_init__(self) -> None:
        for name in ("val", "test"):
            object.__setattr__(self, name, real(name, getattr(self, name), least=0))
        check_seed(self.seed)
        integer("folds", self.folds, 0)
        if self.folds:
            integer("folds", self.folds, 2)
            integer("fold", self.fold, 0, self.folds - 1)
        if self.column and self.folds:
            raise ParameterError("a column of splits and folds exclude each other: take one of them.")


@dataclass(frozen=True, eq=False)
class NodeSplit:
    """The nodes for training, validation and test, ascending; and how they came, in a sentence."""

    train: NDArray[np.int64]
    val: NDArray[np.int64]
    test: NDArray[np.int64]
    note: str


def split_nodes(table: Frame, target: NodeTarget, wish: SplitWish) -> NodeSplit:
    """Split the nodes that have a target.

    Example:
        >>> from armagnn.data.tables.node_targets import target_of
        >>> table = Frame.of({"y": ["a", "b"] * 10, "part": ["train"] * 12 + ["test"] * 4 + ["val"] * 4}, "nodes")
        >>> split = split_nodes(table, target_of(table, ["y"]), SplitWish("part"))
        >>> len(split.train), split.val.tolist(), split.test.tolist()
        (12, [16, 17, 18, 19], [12, 13, 14, 15])
    """
    if wish.column:
        return _by_column(table, target, wish)
    return draw_split(target, wish, table.source)


def draw_split(target: NodeTarget, wish: SplitWish, source: str) -> NodeSplit:
    """Draw a split of the nodes that have a target, by class where there are classes."""
    known = np.flatnonzero(target.known)
    if len(known) < 3:
        raise DataError(f"{source}: {len(known)} nodes have a target; training, validation and test need 3.")
    groups = _groups(target)[known]
    order = shuffled(wish.seed, PURPOSE, len(target.y)).numpy()
    order = order[target.known[order]]
    group = np.zeros(len(target.y), dtype=np.int64)
    group[known] = groups
    if wish.folds:
        return _fold(order, group, wish, len(known))
    val, test = (_count(name, getattr(wish, name), len(known)) for name in ("val", "test"))
    if val + test >= len(known):
        raise ParameterError(
            f"val and test take {val} and {test} of the {len(known)} nodes that have a target; none is left to learn "
            "from. Choose less."
        )
    rank = _dealt(order, group)
    parts = rank[:val], rank[val : val + test], rank[val + test :]
    how = "by class, " if target.task == "classes" else ""
    note = (
        f"split: {len(parts[2])} nodes for training, {val} for validation, {test} for the test, drawn {how}seed "
        f"{wish.seed}."
    )
    return NodeSplit(np.sort(parts[2]), np.sort(parts[0]), np.sort(parts[1]), note)


def _groups(target: NodeTarget) -> NDArray[np.int64]:
    y: Tensor = target.y
    return y.numpy() if target.task == "classes" else np.zeros(len(y), dtype=np.int64)


def _dealt(order: NDArray[np.int64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nodes of `order` such that every beginning of them has about its share of each group.

    The j-th of n nodes of a group stands at (j + 1/2) / n, and the only one of a group at the end, where training is.
    """
    sizes = np.bincount(group[order])
    place = np.empty(len(order))
    for each in np.unique(group[order]):
        members = group[order] == each
        place[members] = (np.arange(sizes[each]) + 0.5 + (sizes[each] == 1)) / sizes[each]
    return order[np.argsort(place, kind="stable")]


def _fold(order: NDArray[np.int64], group: NDArray[np.int64], wish: SplitWish, known: int) -> NodeSplit:
    if known < 2 * wish.folds:
        raise ParameterError(f"folds is {wish.folds}, but {known} nodes have a target; {2 * wish.folds} are needed.")
    by_group = order[np.argsort(group[order], kind="stable")]
    part = np.arange(len(by_group)) % wish.folds
    test, rest = by_group[part == wish.fold], by_group[part != wish.fold]
    val = _count("val", wish.val, known)
    if val >= len(rest):
        raise ParameterError(f"val is {wish.val:g}, but a fold leaves {len(rest)} nodes. Choose less.")
    inside = np.isin(order, rest)
    rank = _dealt(order[inside], group)
    val_idx, train = rank[:val], rank[val:]
    note = (
        f"split: fold {wish.fold} of {wish.folds} is the test ({len(test)} nodes); {len(train)} nodes for training, "
        f"{val} for validation, drawn with seed {wish.seed}."
    )
    return NodeSplit(np.sort(train), np.sort(val_idx), np.sort(test), note)


def _count(name: str, share: float, known: int) -> int:
    count = round(share * known) if share < 1 else round(share)
    if share >= 1 and count != share:
        raise ParameterError(f"{name} must be a share below 1, or a whole number of nodes, got {share:g}.")
    return max(1, count)


def _by_column(table: Frame, target: NodeTarget, wish: SplitWish) -> NodeSplit:
    table.require(wish.column, "split")
    texts = texts_of(table, wish.column).to_pylist()
    parts: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    unlabelled = {"train": 0, "val": 0, "test": 0}
    for row, text in enumerate(texts):
        if not text:
            continue
        part = NAMES.get(text.strip().lower())
        if part is None:
            raise DataError(
                f"{table.where(row, wish.column)}: {shown(text)} is no part of a split. Write train, val or test, or "
                "nothing for a node that belongs to none."
            )
        if target.known[row]:
            parts[part].append(row)
        else:
            unlabelled[part] += 1
    if not parts["train"] or not parts["test"]:
        empty = "train" if not parts["train"] else "test"
        raise DataError(f"{table.source}, column {wish.column!r}: no node that has a target is {empty!r}.")
    drawn = ""
    if not parts["val"]:
        drawn = f"; column {wish.column!r} has no validation nodes, so they are drawn from training, seed {wish.seed}"
        train = np.array(parts["train"])
        order = shuffled(wish.seed, PURPOSE, len(table)).numpy()
        order = order[np.isin(order, train)]
        count = _count("val", wish.val, len(train))
        if count >= len(train):
            raise ParameterError(f"val is {wish.val:g}, but {len(train)} nodes are for training. Choose less.")
        rank = _dealt(order, _groups(target))
        parts["val"], parts["train"] = rank[:count].tolist(), rank[count:].tolist()
    train_idx, val_idx, test_idx = (np.sort(np.array(parts[name], dtype=np.int64)) for name in ("train", "val", "test"))
    lost = sum(unlabelled.values())
    without = f"; {lost} nodes of the split have no target and are not used for it" if lost else ""
    note = (
        f"split: {len(train_idx)} nodes for training, {len(val_idx)} for validation, {len(test_idx)} for the test, "
        f"from column {wish.column!r}{drawn}{without}."
    )
    return NodeSplit(train_idx, val_idx, test_idx, note)


def split_ids(split: NodeSplit) -> dict[str, Any]:
    """The split as `NodeDataset` has it."""
    return {f"{name}_idx": torch.from_numpy(getattr(split, name)) for name in ("train", "val", "test")}
