"""Pooling: from the features of nodes to one vector for each graph of a batch."""

from __future__ import annotations

from typing import Final, Literal

import torch
from torch import Tensor, nn

from armagnn import checks
from armagnn.errors import DeviceError, DTypeError, GraphError, ShapeError
from armagnn.kernels import cut_rows, keep_rows_whole
from armagnn.operators import CSR
from armagnn.operators.batches import GraphBatch
from armagnn.torch_private import traced

WHOLE: Final = 1 << 11
"""A GPU sums graphs (and what a batch is padded by) of at most this number of nodes node after node; in batches that
may have larger ones, in pieces, at the same time."""


class SumPool(nn.Module):
    r"""The sum of the features of each graph's nodes,

    .. math::
        z_b = \sum_{i \in \mathcal{V}_b} x_i,

    as a product :math:`S X` with the rectangular 0/1 matrix whose rows are the graphs: differentiable (twice), the same
    bits every time and on any number of threads, and one product for all leading axes and all trials of a vmap. A graph
    without nodes has the sum zero.

    Shapes:
        - ``x``: (..., n, F), the nodes of all graphs of the batch.
        - ``batch``: a `GraphBatch`; or its ``ptr``, integers of shape (B + 1), whose values are then read and checked,
          for which a GPU must be waited for.
        - output: (..., B, F).

    Example:
        >>> import torch
        >>> SumPool()(torch.tensor([[1.], [2.], [3.]]), torch.tensor([0, 2, 3]))
        tensor([[3.],
                [3.]])
    """

    def forward(self, x: Tensor, batch: GraphBatch | Tensor) -> Tensor:
        """Return one row for each graph."""
        checks.real_tensor("x", x, "(..., n, F)")
        ptr, graph = _checked(batch, x)
        matrix = self._matrix(ptr, graph, x)
        if isinstance(batch, GraphBatch) and batch.longest <= WHOLE:
            keep_rows_whole(matrix.rowptr)
        else:
            cut_rows(matrix.rowptr, matrix.nnz)
        return matrix @ x

    def _matrix(self, ptr: Tensor, graph: Tensor, x: Tensor) -> CSR:
        nodes = graph.shape[0]
        index = torch.int32 if nodes < 2**31 - 1 else torch.int64
        count = torch.arange(nodes + 1, dtype=index, device=x.device)
        value = self._weights(ptr, graph, x.dtype)
        # of the transpose, too, everything is known: node i has one entry, the i-th, in the column of its graph
        transposed, rowptr = (count, graph.to(index), count[:-1]), ptr.to(index)
        keep_rows_whole(count)
        return CSR(rowptr, count[:-1], value, (ptr.shape[0] - 1, nodes), transposed=transposed, check_invariants=False)

    def _weights(self, ptr: Tensor, graph: Tensor, dtype: torch.dtype) -> Tensor:
        """Return with which weight each node enters the sum of its graph, shape (n)."""
        return torch.ones(graph.shape[0], dtype=dtype, device=graph.device)


class AvgPool(SumPool):
    r"""The average of the features of each graph's nodes,

    .. math::
        z_b = \frac{1}{|\mathcal{V}_b|} \sum_{i \in \mathcal{V}_b} x_i
        \qquad\text{or}\qquad
        z_b = \frac{1}{S} \sum_{i \in \mathcal{V}_b} x_i .

    The first is the plain mean over a graph's own nodes, which hides its size. The second, with S ``slots``, is the
    average over a zero-padded batch in which every graph has S places: a small graph has a small average. The published
    numbers for QM9 need the second, with S = 9, the most heavy atoms of a molecule. A graph without nodes has the
    average zero. See `SumPool` for shapes and properties.

    Args:
        slots: S, at least the nodes of the largest graph; None for the plain mean.

    Example:
        >>> import torch
        >>> x, ptr = torch.tensor([[1.], [2.], [3.]]), torch.tensor([0, 2, 3])
        >>> AvgPool()(x, ptr).squeeze()
        tensor([1.5000, 3.0000])
        >>> AvgPool(slots=2)(x, ptr).squeeze()
        tensor([1.5000, 1.5000])
    """

    def __init__(self, slots: int | None = None) -> None:
        super().__init__()
        self.slots = None if slots is None else checks.integer("slots", slots, 1, extra=" (or None for the plain mean)")

    def _weights(self, ptr: Tensor, graph: Tensor, dtype: torch.dtype) -> Tensor:
        if self.slots is not None:
            return torch.full(graph.shape, 1.0 / self.slots, dtype=dtype, device=graph.device)
        return ptr.diff().to(dtype).reciprocal().index_select(0, graph)  # a graph without nodes has no entry at all

    def extra_repr(self) -> str:
        """Show the slots, if there are any."""
        return "" if self.slots is None else f"slots={self.slots}"


def _checked(batch: GraphBatch | Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return where the graphs start and the graph of each node, both fitting x."""
    nodes = x.shape[-2]
    if isinstance(batch, GraphBatch):
        ptr, graph = batch.ptr, batch.graph
        if graph.shape[0] != nodes:
            raise ShapeError(f"x has {nodes} nodes, but the batch has {graph.shape[0]}.")
        if ptr.device != x.device:
            raise DeviceError(f"x is on {x.device} and the batch on {ptr.device}: move one with .to(device).")
        return ptr, graph
    if checks.dense("ptr", batch, "(B + 1,)", " (or a GraphBatch)").dtype not in checks.INTEGERS:
        raise DTypeError("batch must be a GraphBatch or its ptr, an integer torch.Tensor of shape (B + 1,).")
    if batch.shape[0] < 2:
        raise ShapeError(f"ptr must have shape (B + 1,) for at least one graph, got {tuple(batch.shape)}.")
    if batch.device != x.device:
        raise DeviceError(f"x is on {x.device} and ptr on {batch.device}: move one with .to(device).")
    with checks.room("ptr", batch.shape[0], most=checks.LARGEST):
        ptr = batch.long()
        sizes = ptr.diff()
    if not traced():
        first, last, least = torch.stack([ptr[0], ptr[-1], sizes.min()]).tolist()
        if first != 0 or last != nodes or least < 0:
            raise GraphError(f"ptr must rise from 0 to the {nodes} nodes of x, got {first} to {last}.")
    count = torch.arange(ptr.shape[0] - 1, device=x.device)
    return ptr, torch.repeat_interleave(count, sizes, output_size=nodes)


MODES: Final = ("max", "mean")


class GraclusPool(nn.Module):
    r"""Plain strided pooling along the nodes of a `Coarsening`,

    .. math::
        z_p = \max_{i \in \mathcal{C}_p} x_i \qquad\text{or}\qquad
        z_p = \frac{1}{|\mathcal{C}_p|} \sum_{i \in \mathcal{C}_p} x_i, \qquad
        \mathcal{C}_p = \{i : s p \le i < s (p + 1), \; i \text{ is real}\},

    as Defferrard et al. have it: in the order of the balanced binary tree the clusters of level l + log2(s) are s
    places of level l each, side by side. Fake places hold whatever the bias and activation of the layer before made of
    them; here they are masked: they win no maximum, of negative features neither, and count in no average. A cluster of
    fakes only is zero, and fake in the next level.

    Args:
        stride: s, a power of 2 where the order is that of a tree.
        mode: ``"max"`` or ``"mean"``.

    Shapes:
        - ``x``: (..., M, F), signals on M places; M is a multiple of s.
        - ``real``: (M,) bool, ``coarsening.real[level]``; None if all places are real.
        - output: (..., M / s, F).

    Example:
        >>> import torch
        >>> x = torch.tensor([[-3.0], [-1.0], [-2.0], [9.0]])
        >>> real = torch.tensor([True, True, True, False])
        >>> GraclusPool(2)(x, real).squeeze(), GraclusPool(2, "mean")(x, real).squeeze()
        (tensor([-1., -2.]), tensor([-2., -2.]))
    """

    def __init__(self, stride: int, mode: Literal["max", "mean"] = "max") -> None:
        super().__init__()
        self.stride, self.mode = checks.integer("stride", stride, 1), checks.choice("way to pool", mode, MODES)

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Return the pooled signals, shape (..., M / s, F)."""
        self._check(x, real)
        if real is None:
            clusters = self._clusters(x)
            return clusters.amax(-2) if self.mode == "max" else clusters.mean(-2)
        fake = ~real.unsqueeze(1)
        count = real.view(-1, self.stride).sum(1, keepdim=True)
        if self.mode == "mean":
            return self._clusters(x.masked_fill(fake, 0.0)).sum(-2) / count.clamp(min=1).to(x.dtype)
        largest = self._clusters(x.masked_fill(fake, -torch.inf)).amax(-2)
        return largest.masked_fill(count == 0, 0.0)

    def _clusters(self, x: Tensor) -> Tensor:
        """Return the places of each cluster side by side, shape (..., M / s, s, F)."""
        return x.reshape(*x.shape[:-2], x.shape[-2] // self.stride, self.stride, x.shape[-1])

    def _check(self, x: Tensor, real: Tensor | None) -> None:
        checks.real_tensor("x", x, "(..., M, F)")
        if x.shape[-2] % self.stride:
            raise ShapeError(
                f"x must have shape (..., M, F) with M a multiple of the stride {self.stride}, got {tuple(x.shape)}: "
                "bring signals into the order of the tree with coarsening.arrange(x)."
            )
        if real is None:
            return
        if checks.dense("real", real, "(M,)", " or None").dtype != torch.bool:
            raise DTypeError(f"real must hold booleans, got {real.dtype}: pass coarsening.real[level].")
        if real.shape != (x.shape[-2],):
            raise ShapeError(f"real must have shape ({x.shape[-2]},), one for each place, got {tuple(real.shape)}.")
        if real.device != x.device:
            raise DeviceError(f"x is on {x.device} and real on {real.device}: move one with .to(device).")

    def extra_repr(self) -> str:
        """Show stride and mode."""
        return f"{self.stride}, {self.mode!r}"
