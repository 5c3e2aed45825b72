"""What a set of signals on one graph is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn.checks import choice, dense, tensor
from armagnn.checks import ids as checks_ids
from armagnn.data.arrays import on_device
from armagnn.errors import DataError, DTypeError, ParameterError
from armagnn.operators import entries

SPLITS: Final = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class SignalsDataset:
    """S signals on one graph of N nodes, with one class each: graph-signal classification.

    Attributes:
        name: the name it was loaded by.
        edge_index: (2, E) int64, both directions of every edge.
        x: (S, N), one number for each signal and node, of the narrowest type that holds them: pixels, counts of words.
        y: (S,) int64 labels 0 .. C-1.
        num_classes: C.
        train_idx: (n,) int64, the signals to learn from; so ``val_idx`` and ``test_idx``.
        sha256: checksum of the file; two datasets with one checksum are the same.
        scale: what a number of x is to be divided by, for numbers of the order of 1.
        edge_weight: (E,) weights of the edges, where they have any.
        table: (N, F) float32, features that the nodes have in all signals, where there are such: embeddings of words.
        words: the names of the nodes, where they have any.
        provenance: what to call the data in results.

    Example:
        >>> x, y = torch.eye(4), torch.tensor([0, 1, 0, 1])
        >>> SignalsDataset.of(torch.tensor([[0, 1], [1, 0]]), torch.zeros(4, 2), y, [0, 1], [2], [3])
        SignalsDataset('signals', signals=4, nodes=2, edges=2, classes=2, split=2/1/1)
    """

    name: str
    edge_index: Tensor
    x: Tensor
    y: Tensor
    num_classes: int
    train_idx: Tensor
    val_idx: Tensor
    test_idx: Tensor
    sha256: str
    scale: float = 1.0
    edge_weight: Tensor | None = None
    table: Tensor | None = None
    words: tuple[str, ...] = ()
    provenance: str = ""

    def __post_init__(self) -> None:
        tensor("edge_index", self.edge_index, 2)
        tensor("x", self.x, 2)
        for name in ("y", "train_idx", "val_idx", "test_idx"):
            tensor(name, getattr(self, name), 1)

    @classmethod
    def of(
        cls,
        edge_index: Any,
        x: Any,
        y: Any,
        train: Any,
        val: Any,
        test: Any,
        edge_weight: Any = None,
    ) -> SignalsDataset:
        """Make a dataset of your own, from tensors, arrays or lists; whatever is wrong with them is said here.

        Args:
            edge_index: (2, E), both directions of every edge.
            x: (S, N) finite numbers, one for each signal and node.
            y: (S,) the classes, integers 0 .. C-1.
            train: the signals to learn from, by their numbers or as a mask (S,); none is also in another split.
            val: those to stop and choose by.
            test: those to judge by.
            edge_weight: (E,), where the edges have weights.
        """
        x, y = _tensor("x", x), _tensor("y", y)
        if x.dim() != 2 or y.shape != x.shape[:1] or not x.numel():
            raise ParameterError(
                f"x must be (S, N) with at least one signal and node, and y (S,), got {tuple(x.shape)} and "
                f"{tuple(y.shape)}."
            )
        if x.is_complex() or not bool(torch.isfinite(x).all()):
            raise DataError(
                "x must hold finite real numbers; replace NaN and infinite ones, or leave out such signals."
            )
        classes = 0 if y.is_floating_point() or y.is_complex() else int(y.long().max()) + 1
        if not 0 < classes <= max(len(y), 2) or int(y.long().min()) < 0:
            raise DataError(
                f"y must hold integers 0 .. C-1, one class for each signal; it has {y.dtype}, {y.tolist()[:5]}."
            )
        edges = _tensor("edge_index", edge_index)
        edges, _ = entries.edge_index(edges if edges.numel() else edges.long(), x.shape[1])
        weight = None
        if edge_weight is not None:
            weight = entries.edge_weight(_tensor("edge_weight", edge_weight), edges, None)
        splits = {name: _ids(name, ids, len(x)) for name, ids in zip(SPLITS, (train, val, test), strict=True)}
        for one, other in combinations(SPLITS, 2):
            shared = int(torch.isin(splits[one], splits[other]).sum())
            if shared:
                raise DataError(f"{one} and {other} share {shared} signals; every signal belongs to one split at most.")
        first, second, third = splits.values()
        return cls("signals", edges, x, y.long(), classes, first, second, third, "", edge_weight=weight)

    @property
    def num_signals(self) -> int:
        """S."""
        return self.x.shape[0]

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.x.shape[1]

    def idx(self, split: str) -> Tensor:
        """The signals of "train", "val" or "test"."""
        ids: Tensor = getattr(self, f"{choice('split', split, SPLITS)}_idx")
        return ids

    def to(self, device: torch.device | str) -> SignalsDataset:
        """The same dataset with every tensor on `device`."""
        return on_device(self, device)

    def __len__(self) -> int:
        return self.num_signals

    def __repr__(self) -> str:
        split = "/".join(str(len(self.idx(part))) for part in SPLITS)
        return (
            f"SignalsDataset({self.name!r}, signals={self.num_signals}, nodes={self.num_nodes}, "
            f"edges={self.edge_index.shape[1]}, classes={self.num_classes}, split={split})"
        )


def _tensor(name: str, value: Any) -> Tensor:
    """Return a dense tensor of numbers; integers are of a type that torch can compare."""
    if isinstance(value, range):
        raise DTypeError(f"{name} must be a tensor, array or list of numbers, got {value}.")
    try:
        if isinstance(value, np.ndarray):  # torch takes no views backwards, and no foreign order of bytes
            value = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
        found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        raise DTypeError(f"{name} must be a tensor, array or list of numbers: {error}") from error
    dense(name, found, "(...)")
    return found.long() if found.dtype in (torch.uint16, torch.uint32, torch.uint64) else found


def _ids(name: str, value: Any, count: int) -> Tensor:
    """Return the signals of a split, of `count` in all, by their numbers."""
    ids = checks_ids(name, value, count) if isinstance(value, range) else _tensor(name, value)
    if ids.dtype == torch.bool and ids.shape == (count,):
        ids = ids.nonzero().squeeze(1)
    if ids.dim() != 1 or not ids.numel():
        raise ParameterError(f"{name} must name one signal or more, or be a mask ({count},), got {tuple(ids.shape)}.")
    if ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex():
        raise DTypeError(f"{name} must hold integers, or be a mask ({count},), got {ids.dtype} of {tuple(ids.shape)}.")
    if int(ids.min()) < 0 or int(ids.max()) >= count:
        raise DataError(f"{name} holds {ids.min()} .. {ids.max()}; the {count} signals are 0 .. {count - 1}.")
    return ids.long()
