"""What a set of signals on one graph is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.errors import ParameterError

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

    @classmethod
    def of(
        cls,
        edge_index: Tensor,
        x: Tensor,
        y: Tensor,
        train: Any,
        val: Any,
        test: Any,
        edge_weight: Tensor | None = None,
    ) -> SignalsDataset:
        """Make a dataset of your own: edges (2, E) and weights, signals (S, N), labels (S), ids of each split."""
        first, second, third = (torch.as_tensor(ids, dtype=torch.int64) for ids in (train, val, test))
        if x.dim() != 2 or y.shape != x.shape[:1]:
            raise ParameterError(f"x must be (S, N) and y (S,), got {tuple(x.shape)} and {tuple(y.shape)}.")
        return cls(
            "signals", edge_index, x, y.long(), int(y.max()) + 1, first, second, third, "", edge_weight=edge_weight
        )

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
        if split not in SPLITS:
            raise ParameterError(f"split must be one of {', '.join(SPLITS)}, got {split!r}.")
        ids: Tensor = getattr(self, f"{split}_idx")
        return ids

    def to(self, device: torch.device | str) -> SignalsDataset:
        """The same dataset with every tensor on `device`."""
        names = ("edge_index", "x", "y", "train_idx", "val_idx", "test_idx", "edge_weight", "table")
        tensors: dict[str, Any] = {name: getattr(self, name) for name in names}
        moved: dict[str, Any] = {name: None if t is None else t.to(device) for name, t in tensors.items()}
        return replace(self, **moved)

    def __len__(self) -> int:
        return self.num_signals

    def __repr__(self) -> str:
        split = "/".join(str(len(self.idx(part))) for part in SPLITS)
        return (
            f"SignalsDataset({self.name!r}, signals={self.num_signals}, nodes={self.num_nodes}, "
            f"edges={self.edge_index.shape[1]}, classes={self.num_classes}, split={split})"
        )
