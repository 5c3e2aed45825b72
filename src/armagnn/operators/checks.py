"""What comes in from outside, checked and brought to (row, column, value, shape). Only here are values read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from armagnn import checks
from armagnn.errors import DeviceError, DTypeError, GraphError, ShapeError
from armagnn.kernels.transforms import traced

CLEAN = "clean them before building"
Entries = tuple[Tensor, Tensor, Tensor, tuple[int, int]]


def edge_index(index: Any, num_nodes: int | None) -> tuple[Tensor, int]:
    """Return the checked edge index, shape (2, E), and the number of nodes."""
    if not isinstance(index, Tensor):
        raise DTypeError(f"edge_index must be a torch.Tensor of shape (2, E), got {type(index).__name__}.")
    if index.layout is not torch.strided:
        raise DTypeError("edge_index must be dense, got a sparse tensor: an adjacency goes to from_torch_sparse.")
    if index.dtype not in checks.INTEGERS:
        raise DTypeError(f"edge_index must hold integers, got {index.dtype}: use edge_index.long().")
    if index.dim() != 2 or index.shape[0] != 2:
        raise ShapeError(f"edge_index must have shape (2, E), got {tuple(index.shape)}.")
    index = index.long()  # narrow ids would wrap in the arithmetic that follows
    if traced():
        if num_nodes is None:
            raise GraphError("num_nodes must be given inside compiled code.")
        return index, num_nodes
    low, high = (int(v) for v in torch.aminmax(index)) if index.numel() else (0, -1)
    if num_nodes is None:
        num_nodes = high + 1
    num_nodes = checks.integer("num_nodes", num_nodes, 0, 2**40 - 1, error=GraphError)
    if low < 0 or high >= num_nodes:
        raise GraphError(
            f"edge_index names node {low if low < 0 else high}, but ids run from 0 to {num_nodes - 1}: "
            "renumber the nodes or pass a larger num_nodes."
        )
    return index, num_nodes


def edge_weight(weight: Tensor | None, index: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return one checked floating-point weight per edge; ones where none are given."""
    wanted = checks.dtype_option(dtype)
    if weight is None:
        return torch.ones(index.shape[1], dtype=wanted, device=index.device)
    if not isinstance(weight, Tensor) or weight.layout is not torch.strided:
        what = "a sparse tensor" if isinstance(weight, Tensor) else type(weight).__name__
        raise DTypeError(f"edge_weight must be a dense torch.Tensor of shape (E,), got {what}.")
    if weight.dim() == 2 and weight.shape[1] == 1:  # PyG's edge_attr with one column
        weight = weight.squeeze(1)
    if weight.shape != (index.shape[1],):
        raise ShapeError(f"edge_weight must have shape ({index.shape[1]},), one per edge, got {tuple(weight.shape)}.")
    if weight.device != index.device:
        raise DeviceError(f"edge_weight is on {weight.device} and edge_index on {index.device}: move one of them.")
    if not weight.is_floating_point():
        if weight.is_complex():
            raise DTypeError(f"edge_weight must be real, got {weight.dtype}.")
        weight = weight.to(wanted)
    weight = weight if dtype is None else weight.to(wanted)
    checks.floating("edge_weight", weight.dtype)
    checks.finite("edge_weight", weight, GraphError, CLEAN)
    return weight


def from_scipy(matrix: Any, dtype: torch.dtype | None) -> Entries:
    """Read a scipy.sparse matrix or array."""
    import scipy.sparse

    wanted = checks.dtype_option(dtype)
    if not scipy.sparse.issparse(matrix):
        raise DTypeError(f"expected a scipy.sparse matrix or array, got {type(matrix).__name__}.")
    if matrix.ndim != 2:
        raise ShapeError(f"expected a matrix with two axes, got shape {matrix.shape}.")
    if matrix.dtype.kind not in "biuf":
        raise DTypeError(f"expected a matrix of real numbers, got {matrix.dtype}.")
    coo = matrix.tocoo()
    row, col = (np.asarray(axis, dtype=np.int64) for axis in (coo.row, coo.col))
    for name, axis, size in (("row", row, coo.shape[0]), ("column", col, coo.shape[1])):
        if axis.size and (axis.min() < 0 or axis.max() >= size):
            raise GraphError(f"the matrix has {name} ids outside 0 to {size - 1}: it is corrupt, build it again.")
    value = torch.from_numpy(np.asarray(coo.data, dtype=np.float64).copy()).to(wanted)
    return _checked(torch.from_numpy(row), torch.from_numpy(col), value, coo.shape)


def from_torch_sparse(matrix: Any, dtype: torch.dtype | None = None) -> Entries:
    """Read a native torch.sparse tensor (COO, CSR, CSC, BSR, BSC)."""
    wanted = checks.dtype_option(dtype)
    if not isinstance(matrix, Tensor) or matrix.layout is torch.strided:
        what = "a dense tensor" if isinstance(matrix, Tensor) else type(matrix).__name__
        raise DTypeError(f"expected a torch.sparse tensor, got {what}; dense matrices go to from_dense.")
    if matrix.dim() != 2 or matrix.dense_dim() != 0:
        raise ShapeError(f"expected a sparse matrix with two axes and scalar entries, got {tuple(matrix.shape)}.")
    if matrix.dtype.is_complex:
        raise DTypeError(f"expected a matrix of real numbers, got {matrix.dtype}.")
    coo = matrix if matrix.layout is torch.sparse_coo else matrix.to_sparse_coo()  # type: ignore[no-untyped-call]
    if coo.requires_grad:  # only a coalesced tensor gives out differentiable values
        coo = coo.coalesce()
    (row, col), value = (coo.indices(), coo.values()) if coo.requires_grad else (coo._indices(), coo._values())
    if dtype is not None or not value.is_floating_point():
        value = value.to(wanted)
    shape = (matrix.shape[0], matrix.shape[1])
    for axis, size in ((row, shape[0]), (col, shape[1])):
        if axis.numel() and (int(axis.min()) < 0 or int(axis.max()) >= size):
            raise GraphError(f"the sparse tensor has ids outside 0 to {size - 1}: it is corrupt, build it again.")
    return _checked(row, col, value, shape)


def from_dense(matrix: Any, dtype: torch.dtype | None) -> Entries:
    """Read a dense matrix, a tensor or anything numpy takes; zeros are not stored."""
    wanted = checks.dtype_option(dtype)
    if not isinstance(matrix, Tensor):
        try:
            array = np.asarray(matrix)
        except ValueError as error:  # rows of different lengths
            raise ShapeError(f"expected a dense matrix with two axes: {error}") from error
        if array.dtype.kind not in "biuf":
            raise DTypeError(f"expected a matrix of real numbers, got {array.dtype}.")
        matrix = torch.from_numpy(array.astype(np.float64)).to(wanted)
    if matrix.layout is not torch.strided:
        raise DTypeError("expected a dense matrix, got a sparse tensor: it goes to from_torch_sparse.")
    if matrix.dim() != 2:
        raise ShapeError(f"expected a dense matrix with two axes, got {tuple(matrix.shape)}.")
    if matrix.is_complex():
        raise DTypeError(f"expected a matrix of real numbers, got {matrix.dtype}.")
    if dtype is not None or not matrix.is_floating_point():
        matrix = matrix.to(wanted)
    row, col = matrix.detach().nonzero(as_tuple=True)
    return _checked(row, col, matrix[row, col], (matrix.shape[0], matrix.shape[1]))


def from_coo(row: Any, col: Any, value: Any, shape: Any) -> Entries:
    """Check the row, column and value of each entry."""
    if not isinstance(shape, tuple) or len(shape) != 2 or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise ShapeError(f"shape must be (rows, columns), two integers of at least 0, got {shape!r}.")
    rows, cols = shape
    for name, axis in (("row", row), ("col", col)):
        if not isinstance(axis, Tensor) or axis.dtype not in checks.INTEGERS:
            what = axis.dtype if isinstance(axis, Tensor) else type(axis).__name__
            raise DTypeError(f"{name} must be a torch.Tensor of integers, got {what}.")
    if not isinstance(value, Tensor):
        raise DTypeError(f"value must be a torch.Tensor, got {type(value).__name__}.")
    if row.dim() != 1 or col.shape != row.shape or value.shape != row.shape:
        raise ShapeError(
            "row, col and value must have one shape (nnz,), "
            f"got {tuple(row.shape)}, {tuple(col.shape)} and {tuple(value.shape)}."
        )
    for name, axis, size in (("row", row, rows), ("col", col, cols)):
        if not traced() and axis.numel() and not 0 <= int(axis.min()) <= int(axis.max()) < size:
            raise GraphError(f"{name} has ids outside 0 to {size - 1}: correct them or pass a larger shape.")
    return _checked(row.long(), col.long(), value, (rows, cols))


def _checked(row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int]) -> Entries:
    checks.floating("the matrix", value.dtype)
    checks.finite("the matrix", value, GraphError, CLEAN)
    return row, col, value, (int(shape[0]), int(shape[1]))
