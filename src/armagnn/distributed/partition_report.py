"""What a partition is worth: how evenly it shares out the work, and what its ranks send each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from armagnn import checks
from armagnn.checks import instance, integer
from armagnn.distributed.part_folder import MANIFEST, WHOLE, Facts, read_signed


@dataclass(frozen=True)
class PartitionReport:
    """Sizes of the parts and of what is exchanged between them.

    Attributes:
        facts: of the whole.
        nonzeros: of each part.
        halo: rows that each part needs of each other, ``halo[part][owner]``.
    """

    facts: Facts
    nonzeros: tuple[int, ...]
    halo: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, folder: Path) -> PartitionReport:
        """The report of a finished partition."""
        path = checks.path("folder", folder) / MANIFEST
        found = read_signed(path, WHOLE)
        facts = Facts.from_json(found.get("facts"), path)
        return cls(facts, tuple(found["nonzeros"]), tuple(tuple(row) for row in found["halo"]))

    @property
    def nodes(self) -> tuple[int, ...]:
        """Nodes of each part."""
        return tuple(np.diff(self.facts.starts).tolist())

    @property
    def halo_rows(self) -> tuple[int, ...]:
        """Rows that each part receives in a product."""
        return tuple(sum(row) for row in self.halo)

    @property
    def rows_sent(self) -> tuple[int, ...]:
        """Rows that each part sends in a product."""
        return tuple(sum(column) for column in zip(*self.halo, strict=True))

    @property
    def balance(self) -> float:
        """The most nonzeros of a part over their mean: 1 is best."""
        return max(self.nonzeros) * len(self.nonzeros) / max(sum(self.nonzeros), 1)

    @property
    def halo_share(self) -> float:
        """Halo rows per own row, over all parts."""
        return sum(self.halo_rows) / max(self.facts.nodes, 1)

    def bytes_sent(self, widths: Sequence[int], dtype: torch.dtype = torch.float32) -> tuple[int, ...]:
        """Return the bytes that each part sends in exchanges of so many columns each.

        A product sends the rows that others need. Its gradient goes the other way: a part sends what it received.

        Args:
            widths: columns of every exchange; those of gradients are negative.
            dtype: of the numbers.
        """
        instance("dtype", dtype, torch.dtype, "a torch.dtype")
        instance("widths", widths, (list, tuple), "a list of numbers of columns")
        widths = [integer("each of widths", width, -(2**31), 2**31) for width in widths]
        forth, back = sum(w for w in widths if w > 0), -sum(w for w in widths if w < 0)
        both = zip(self.rows_sent, self.halo_rows, strict=True)
        return tuple((sent * forth + received * back) * dtype.itemsize for sent, received in both)


def widths_of_arma(
    features: int, outputs: int, *, hidden: int = 32, stacks: int = 2, layers: int = 1, sparse: bool = False
) -> list[int]:
    """Return the columns of the exchanges of a training step of two ARMA layers; those of gradients are negative.

    A step of a layer multiplies K F_out columns by the operator, forth and back. Where that is cheaper, the first
    multiplies dense features as they are, and needs no gradient of them.

    Example:
        >>> widths_of_arma(1433, 7, hidden=16, sparse=True)
        [32, -32, 14, -14]
        >>> widths_of_arma(10, 7, hidden=16)
        [10, 14, -14]
    """
    found = []
    for layer, width in enumerate((stacks * hidden, stacks * outputs)):
        for step in range(layers):
            first = layer == step == 0 and not sparse and features < 2 * width
            found += [features] if first else [width, -width]
    return found
