"""Another order of the nodes, in which neighbours have numbers near each other: products then read less memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import DTypeError, GraphError, ShapeError, shown
from armagnn.operators.csr import CSR
from armagnn.torch_private import normal_mode

if TYPE_CHECKING:
    from armagnn.operators.graph import GraphOperator


class NodeOrder(NamedTuple):
    """Takes features to another order of the nodes, and results back.

    Attributes:
        old: the old number of each node, in the new order, shape (N).
        new: the new number of each node, in the old order, shape (N): the inverse permutation.

    Example:
        >>> order = NodeOrder.of(torch.tensor([2, 0, 1]))
        >>> order.permute(torch.tensor([10, 11, 12]))
        tensor([12, 10, 11])
        >>> order.restore(order.permute(torch.tensor([10, 11, 12])))
        tensor([10, 11, 12])
    """

    old: Tensor
    new: Tensor

    @classmethod
    def of(cls, old: Tensor) -> NodeOrder:
        """Return the order in which node ``old[i]`` comes i-th; raise unless each node comes once."""
        if not isinstance(old, Tensor) or old.dtype not in (torch.int32, torch.int64) or old.dim() != 1:
            raise DTypeError(f"an order of nodes is a tensor of integers, shape (N,), got {shown(old)}.")
        old, count = old.long(), torch.arange(old.shape[0], device=old.device)
        if not torch.equal(old.sort().values, count):
            raise GraphError(f"an order of {old.shape[0]} nodes must name each of 0 to {old.shape[0] - 1} once.")
        return cls(old, torch.empty_like(old).scatter_(0, old, count))

    def permute(self, x: Any, dim: int | None = None) -> Any:
        """Return features (..., N, F), sparse features (N, F) or labels (N) in the new order.

        ``dim`` is the axis of the nodes, if it is another.
        """
        return _rows(x, self.old, dim)

    def restore(self, x: Any, dim: int | None = None) -> Any:
        """Return the same of the new order in the old one."""
        return _rows(x, self.new, dim)


def _rows(x: Any, index: Tensor, dim: int | None) -> Any:
    if isinstance(x, CSR):
        _check_nodes(x.shape[0], index)
        starts = x.rowptr[:-1].long()[index]
        counts = x.rowptr[1:].long()[index] - starts
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        shift = torch.repeat_interleave(starts - rowptr[:-1], counts, output_size=x.nnz)
        entry = torch.arange(x.nnz, device=x.device) + shift
        return CSR(rowptr.to(x.rowptr.dtype), x.col[entry], x.value[entry], x.shape, check_invariants=False)
    if not isinstance(x, Tensor) or x.dim() == 0:
        raise DTypeError(f"x must be a tensor with an axis of nodes or a CSR, got {shown(x)}.")
    axis = (0 if x.dim() == 1 else -2) if dim is None else checks.integer("dim", dim)
    if not -x.dim() <= axis < x.dim():
        raise ShapeError(f"x of shape {tuple(x.shape)} has no axis {axis}.")
    _check_nodes(x.shape[axis], index)
    return x.index_select(axis, index)


def _check_nodes(count: int, index: Tensor) -> None:
    if count != index.shape[0]:
        raise ShapeError(f"x has {count} rows, but the graph {index.shape[0]} nodes.")


def reordered(op: GraphOperator, order: Tensor | None) -> tuple[GraphOperator, NodeOrder]:
    """Return P op P^T and P; see `GraphOperator.reordered`."""
    op = op.require_whole()
    if order is None:
        found = NodeOrder.of(cuthill_mckee(op))
    else:
        found = NodeOrder.of(order.to(op.device) if isinstance(order, Tensor) else order)
        _check_nodes(op.num_nodes, found.old)
    with normal_mode():
        ids = found.new.to(op.col.dtype)
        row, col = ids[op._rows()], ids[op.col.long()]
        rowptr, place = kernels.sort_coo(row, col, *op.shape)
        place = place.long()
        col = col[place]
    value = op.value.index_select(0, place)
    return op._new(rowptr, col, value, op.shape, None, op.symmetric, same_entries=True), found


def cuthill_mckee(op: GraphOperator) -> Tensor:
    """Return the reverse Cuthill-McKee order of a graph, that of ``scipy.sparse.csgraph``; directions do not count."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    if op.nnz == 0:  # scipy's fails
        return torch.arange(op.num_nodes, device=op.device)
    col, rowptr = (part.numpy(force=True) for part in (op.col, op.rowptr))
    matrix = csr_array((np.ones(col.size, np.int8), col, rowptr), shape=op.shape)
    if not op.symmetric:
        matrix = (matrix + matrix.T).tocsr()
    order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    return torch.from_numpy(order.astype(np.int64)).to(op.device)
