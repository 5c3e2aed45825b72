"""What depends on all rows of an operator at once: `AllRows` for one process; a `PartitionedOperator` has its own."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor

from armagnn import kernels
from armagnn.kernels.backends import Matrix, Plan


class AllRows:
    """An operator that has all rows of its graph.

    Layers, filters and solvers ask for sums over nodes, random numbers of nodes and GCS steps here, so that an operator
    whose rows lie on many ranks can answer for all of them.
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

    def _for_layer(self) -> tuple[Matrix, Plan | None] | None:
        """Return the operator as `kernels.arma_layer` takes it and the plan it needs; None for the composition."""
        return self._arguments(), None  # type: ignore[attr-defined]

    def _step(
        self,
        h: Tensor,
        skip: Tensor,
        bias: Tensor | None,
        seed: Tensor | None,
        p: float | Tensor,
        t: int,
        act: str,
        slope: float,
    ) -> Tensor:
        """Return a GCS step (Eq. 14), σ(L h + dropout(skip) + bias), of h and skip of shape (N, F)."""
        arguments: Any = self._arguments()  # type: ignore[attr-defined]
        return kernels.gcs(*arguments, h, skip, bias, seed, p, t, act, slope)

    def _dropout(self, x: Tensor, seed: Tensor, p: float | Tensor, step: int) -> Tensor:
        """Return features with each entry zeroed with probability p, the mask a function of the seed and the step."""
        return kernels.dropout(x, seed, p, step)

    def _entry_dropout(self, value: Tensor, seed: Tensor, p: float | Tensor) -> Tensor:
        """Return the stored entries of sparse features of these nodes, each zeroed with probability p."""
        return kernels.dropout(value, seed, p, 0)
