"""What depends on all rows of an operator at once: `AllRows` for one process; a `PartitionedOperator` has its own."""

from __future__ import annotations

from typing import Self

from torch import Tensor


class AllRows:
    """An operator that has all rows of its graph.

    Filters and solvers ask for sums over nodes here, so that an operator whose rows lie on many ranks can answer for
    all of them.
    """

    whole: bool = True
    """All rows are here. Kernels that take a whole matrix ask for that."""

    shape: tuple[int, int]

    def require_whole(self) -> Self:
        """Return the operator itself, or raise with advice where other ranks have some of its rows."""
        return self

    @property
    def total_nodes(self) -> int:
        """The number of nodes of the whole graph."""
        return self.shape[0]

    @property
    def first_node(self) -> int:
        """The number, in the whole graph, of the first node whose row is here."""
        return 0

    def total(self, x: Tensor) -> Tensor:
        """Return the sum over all ranks of x, which is a sum over the nodes that are here."""
        return x

    def most(self, x: Tensor) -> Tensor:
        """Return the maximum over all ranks of x, which is a maximum over the nodes that are here."""
        return x
