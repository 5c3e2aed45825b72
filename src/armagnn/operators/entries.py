"""What comes in from outside, checked and brought to (row, column, value, shape). Only here are values read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import DeviceError, DTypeError, GraphError, ShapeError, shown
from armagnn.operators.formats import Lines, as_tensor, check_ids, check_pointer, check_torch_sparse, read_scipy
from armagnn.torch_private import normal_mode, traced

CLEAN = "clean them before building"
FEW: Final = 10**7
"""Nodes, rows or columns that need no justification: a graph of so many takes a second and some hundred MB."""
INDEX: Final = (torch.int32, torch.int64)
MOST_DENSE: Final = 2**31
"""Entries of a dense matrix that are looked through for nonzeros, at most."""

SPARSEST: Final = 100
"""Nodes for each edge that a larger graph may have."""


class Entries(NamedTuple):
    """A matrix as it came in, checked: values in their own precision, and the type that they shall get."""

    row: Tensor | Lines
    col: Tensor
    value: Tensor
    shape: tuple[int, int]
    dtype: torch.dtype


def edge_index(index: Any, num_nodes: int | None, allow_isolated: bool = False) -> tuple[Tensor, int]:
    """Return the checked edge index, shape (2, E), and the number of nodes."""
    if isinstance(index, Tensor) and index.layout is not torch.strided:
        raise DTypeError("edge_index must be dense, got a sparse tensor: an adjacency goes to from_torch_sparse.")
    index = checks.dense("edge_index", index, "(2, E)")
    if index.dtype not in checks.INTEGERS:
        raise DTypeError(f"edge_index must hold integers, got {index.dtype}: use edge_index.long().")
    if index.shape[0] != 2:
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
    return index, justified(num_nodes, index.shape[1], allow_isolated)


def justified(nodes: int, edges: int, allow_isolated: bool) -> int:
    """Return a number of nodes that the edges justify, or that the user insists on.

    Memory grows with the nodes, and one wild id, a key that was never renumbered, asks for all that there is.
    """
    if not allow_isolated and nodes > max(FEW, SPARSEST * edges):
        raise GraphError(
            f"num_nodes is {nodes}, but there are {edges} edges, so that almost every node would be isolated. Number "
            "the nodes from 0 if the ids are keys (torch.unique(edge_index, return_inverse=True)), or pass "
            "allow_isolated=True if they are meant."
        )
    return nodes


def justified_shape(shape: tuple[int, int], entries: int, allow_empty: bool) -> None:
    """Raise unless a shape is justified by the entries, or the user insists on it."""
    if not allow_empty and max(shape) > max(FEW, SPARSEST * entries):
        raise ShapeError(
            f"the shape is {shape}, but there are {entries} entries: almost all rows or columns would be empty. Number "
            "them from 0, or pass allow_empty=True if they are meant."
        )


def edge_weight(weight: Any, index: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Return one checked floating-point weight per edge, ones where none are given."""
    return narrowed("edge_weight", *given_weight(weight, index, dtype))


def given_weight(weight: Any, index: Tensor, dtype: torch.dtype | None) -> tuple[Tensor, torch.dtype]:
    """Return one checked weight per edge, in its own precision, and the type that it shall get."""
    wanted = checks.dtype_option(dtype)
    if weight is None:
        return torch.ones(1, dtype=wanted, device=index.device).expand(index.shape[1]), wanted
    if isinstance(weight, Tensor) and weight.device != index.device:
        raise DeviceError(f"edge_weight is on {weight.device} and edge_index on {index.device}: move one of them.")
    if isinstance(weight, Tensor) and not weight.is_nested and weight.dim() == 2 and weight.shape[1] == 1:
        weight = weight.squeeze(1)  # PyG's edge_attr with one column
    weight = checks.dense("edge_weight", weight, "(E,)" if traced() else f"({index.shape[1]},)")
    if weight.shape != (index.shape[1],):
        raise ShapeError(f"edge_weight must have shape ({index.shape[1]},), one per edge, got {tuple(weight.shape)}.")
    if weight.is_complex():
        raise DTypeError(f"edge_weight must be real, got {weight.dtype}.")
    if not weight.is_floating_point() or (dtype is not None and weight.dtype not in checks.FLOATS):
        weight = weight.to(wanted)
    checks.floating("edge_weight", weight.dtype)
    checks.finite("edge_weight", weight, GraphError, CLEAN)
    return weight, weight.dtype if dtype is None else wanted


def from_scipy(matrix: Any, dtype: torch.dtype | None = None) -> Entries:
    """Read a scipy.sparse matrix or array."""
    import scipy.sparse

    wanted = checks.dtype_option(dtype)
    if not scipy.sparse.issparse(matrix):
        raise DTypeError(f"expected a scipy.sparse matrix or array, got {type(matrix).__name__}.")
    if matrix.ndim != 2:
        raise ShapeError(f"expected a matrix with two axes, got shape {matrix.shape}.")
    row, col, value = read_scipy(matrix)
    if value.dtype.kind not in "biuf":
        raise DTypeError(f"expected a matrix of real numbers, got {value.dtype}.")
    numbers = value if value.dtype in (np.float32, np.float64) else value.astype(np.float64)
    rows = row if isinstance(row, Lines) else as_tensor(row)
    return _checked(rows, as_tensor(col), as_tensor(numbers), matrix.shape, wanted)


def from_torch_sparse(matrix: Any, dtype: torch.dtype | None = None) -> Entries:
    """Read a native torch.sparse tensor (COO, CSR, CSC, BSR, BSC)."""
    wanted = checks.dtype_option(dtype)
    if not isinstance(matrix, Tensor) or matrix.is_nested or matrix.layout is torch.strided:
        what = "a dense tensor" if isinstance(matrix, Tensor) else type(matrix).__name__
        raise DTypeError(f"expected a torch.sparse tensor, got {what}; dense matrices go to from_dense.")
    if matrix.is_meta or matrix.layout not in checks.SPARSE:
        what = (
            "one on the meta device, which has no values"
            if matrix.is_meta
            else f"a tensor of the layout {matrix.layout}"
        )
        raise DTypeError(f"expected a torch.sparse tensor, got {what}.")
    if matrix.dim() != 2 or matrix.dense_dim() != 0:
        raise ShapeError(f"expected a sparse matrix with two axes and scalar entries, got {tuple(matrix.shape)}.")
    if matrix.dtype.is_complex:
        raise DTypeError(f"expected a matrix of real numbers, got {matrix.dtype}.")
    check_torch_sparse(matrix)
    coo = matrix if matrix.layout is torch.sparse_coo else matrix.to_sparse_coo()  # type: ignore[no-untyped-call]
    if coo.requires_grad:  # only a coalesced tensor gives out differentiable values
        coo = coo.coalesce()
    (row, col), value = (coo.indices(), coo.values()) if coo.requires_grad else (coo._indices(), coo._values())
    if not value.is_floating_point() or (dtype is not None and value.dtype not in checks.FLOATS):
        value = value.to(wanted)
    return _checked(row, col, value, matrix.shape, value.dtype if dtype is None else wanted)


def from_dense(matrix: Any, dtype: torch.dtype | None) -> Entries:
    """Read a dense matrix, a tensor or anything numpy takes; zeros are not stored."""
    wanted = checks.dtype_option(dtype)
    if not isinstance(matrix, Tensor):
        try:
            array = np.asarray(matrix)
        except Exception as error:  # rows of different lengths, or whatever a foreign __array__ raises
            raise ShapeError(f"expected a dense matrix with two axes: {shown(error)}") from error
        if array.dtype.kind not in "biuf":
            raise DTypeError(f"expected a matrix of real numbers, got {array.dtype}.")
        matrix, dtype = torch.from_numpy(array.astype(np.float64)), wanted
    elif matrix.layout is not torch.strided:
        raise DTypeError("expected a dense matrix, got a sparse tensor: it goes to from_torch_sparse.")
    matrix = checks.dense("the matrix", matrix, "(N, N)")
    if matrix.is_complex():
        raise DTypeError(f"expected a matrix of real numbers, got {matrix.dtype}.")
    if matrix.numel() > MOST_DENSE:
        raise ShapeError(
            f"a dense matrix of shape {tuple(matrix.shape)} has more than {MOST_DENSE} entries: give its nonzeros, to "
            "from_coo or from_edge_index."
        )
    if not matrix.is_floating_point() or (dtype is not None and matrix.dtype not in checks.FLOATS):
        matrix = matrix.to(wanted)
    row, col = matrix.detach().nonzero(as_tuple=True)
    return _checked(row, col, matrix[row, col], matrix.shape, matrix.dtype if dtype is None else wanted)


def from_coo(row: Any, col: Any, value: Any, shape: Any) -> Entries:
    """Check the row, column and value of each entry."""
    rows, cols = _two_sizes(shape)
    row, col, value = (checks.dense(*part, "(nnz,)") for part in (("row", row), ("col", col), ("value", value)))
    for name, axis in (("row", row), ("col", col)):
        if axis.dtype not in checks.INTEGERS:
            raise DTypeError(f"{name} must be a torch.Tensor of integers, got {axis.dtype}.")
    if col.shape != row.shape or value.shape != row.shape:
        raise ShapeError(
            "row, col and value must have one shape (nnz,), "
            f"got {tuple(row.shape)}, {tuple(col.shape)} and {tuple(value.shape)}."
        )
    if not row.device == col.device == value.device:
        raise DeviceError(f"row, col and value are on {row.device}, {col.device} and {value.device}: move them.")
    if not traced():
        for name, axis, size in (("row", row, rows), ("col", col, cols)):
            check_ids(axis, size, name)
    return _checked(row.long(), col.long(), value, (rows, cols), value.dtype)


def check_compressed(
    rowptr: Any, col: Any, value: Any, shape: Any, transposed: Any = None, symmetric: bool = False
) -> None:
    """Raise unless the arrays of a `CSR`, and those of its transpose, stay within the matrix."""
    rows, cols = _two_sizes(shape)
    checks.flag("symmetric", symmetric)
    value = checks.real_tensor("value", value, "(nnz,)")
    if symmetric and rows != cols:
        raise ShapeError(f"a symmetric matrix is square, got the shape ({rows}, {cols}).")
    _check_lines("rowptr", rowptr, rows, "col", col, cols, value)
    if transposed is None:
        return
    if not isinstance(transposed, tuple) or len(transposed) != 3:
        raise DTypeError(f"transposed must be (rowptr, col, perm) of the transpose, got {shown(transposed)}.")
    _check_lines("transposed[0]", transposed[0], cols, "transposed[1]", transposed[1], rows, value)
    _check_lines("transposed[0]", transposed[0], cols, "transposed[2]", transposed[2], len(value), value)


def _two_sizes(shape: Any) -> tuple[int, int]:
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise ShapeError(f"shape must be (rows, columns), two integers of at least 0, got {shown(shape)}.")
    rows, cols = (checks.integer("shape", size, 0, 2**40 - 1, error=ShapeError) for size in shape)
    return rows, cols


def _check_lines(name: str, pointer: Any, lines: int, other: str, ids: Any, size: int, value: Tensor) -> None:
    """Raise unless a pointer cuts one id for each value, all below ``size``, into ``lines`` parts."""
    pointer, ids = checks.dense(name, pointer, "(M + 1,)"), checks.dense(other, ids, "(nnz,)")
    if pointer.dtype not in INDEX or ids.dtype != pointer.dtype:
        raise DTypeError(f"{name} and {other} must both be int32, or both int64: got {pointer.dtype} and {ids.dtype}.")
    if not pointer.device == ids.device == value.device:
        raise DeviceError(f"{name}, {other} and value are on {pointer.device}, {ids.device} and {value.device}.")
    if ids.shape != value.shape:
        raise ShapeError(f"{other} and value must have one shape (nnz,), got {tuple(ids.shape)}, {tuple(value.shape)}.")
    check_pointer(pointer, lines, len(ids), name)
    if int(pointer[-1]) != len(ids):
        raise ShapeError(f"{name} ends at {int(pointer[-1])}, but there are {len(ids)} entries.")
    check_ids(ids, size, other)


def normal(row: Tensor | Lines, col: Tensor, value: Tensor) -> tuple[Tensor | Lines, Tensor, Tensor]:
    """Return the entries in tensors that training may save: copies of those made in ``torch.inference_mode``."""
    col, value = (t.clone() if t.is_inference() else t for t in (col, value))
    return row.clone() if isinstance(row, Tensor) and row.is_inference() else row, col, value


def compiled_for(row: Tensor | Lines, col: Tensor, value: Tensor) -> Any:
    """Return the kernels that put entries into rows, or None where that is left to torch."""
    return kernels.compiled_assembly(row.pointer if isinstance(row, Lines) else row, col, value)


def given_rows(row: Tensor | Lines) -> tuple[Tensor, bool]:
    """Return the rows as those kernels take them: as pointers or one for each entry, and which of the two it is."""
    return (row.pointer, True) if isinstance(row, Lines) else (row, False)


def ids_of(row: Tensor | Lines) -> Tensor:
    """Return the row of each entry."""
    return row.ids() if isinstance(row, Lines) else row


def assemble(row: Tensor | Lines, col: Tensor, value: Tensor, shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Return (rowptr, col, value) in canonical order, duplicates added up, differentiable in the values.

    Inside a compiled graph, where the number of distinct entries cannot be known, duplicates stay side by side: every
    product adds them up just the same.
    """
    compiled = compiled_for(row, col, value)
    if compiled is not None:
        return compiled.in_rows(*given_rows(row), col, value, shape, value.dtype)  # type: ignore[no-any-return]
    row = ids_of(row)
    sizes = (*shape, row.shape[0])
    exported = any(isinstance(size, torch.SymInt) for size in sizes)  # the operator refuses what does not fit
    index = torch.int32 if exported or max(sizes) < 2**31 else torch.int64
    row, col = row.to(index), col.to(index)
    rowptr, perm = kernels.sort_coo(row, col, shape[0], shape[1])
    row, col = row.index_select(0, perm), col.index_select(0, perm)
    if not traced():
        first = torch.ones_like(row, dtype=torch.bool)
        torch.logical_or(row[1:] != row[:-1], col[1:] != col[:-1], out=first[1:])
        if not bool(first.all()):
            return _merge(row, col, value, perm, first, shape)
    return rowptr, col, value.index_select(0, perm)


def _merge(
    row: Tensor, col: Tensor, value: Tensor, perm: Tensor, first: Tensor, shape: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Add up entries at one place by a product with the 0/1 matrix (places × entries): deterministic everywhere."""
    starts = first.nonzero().squeeze(1)
    pointer = torch.cat([starts, starts.new_tensor([row.shape[0]])]).to(perm.dtype)
    ones = torch.ones(row.shape[0], dtype=value.dtype, device=value.device)
    with normal_mode():
        t_pointer, t_perm, _ = kernels.transpose(pointer, perm, row.shape[0])
    places = (pointer, perm, ones, t_pointer, t_perm, ones, None, None)
    total = kernels.spmm(*places, value.unsqueeze(1)).squeeze(1)
    row, col = row.index_select(0, starts), col.index_select(0, starts)
    rowptr, _ = kernels.sort_coo(row, col, shape[0], shape[1])
    return rowptr, col, total


def narrowed(name: str, value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return values in the type of an operator; raise where a number would become infinite or vanish.

    Example:
        >>> narrowed("edge_weight", torch.tensor([1e-50], dtype=torch.float64), torch.float32)
        Traceback (most recent call last):
        armagnn.errors.GraphError: edge_weight holds 1e-50, which torch.float32 cannot hold: rescale all of them, or
        pass dtype=torch.float64.
    """
    if fits(value, dtype):
        return value.to(dtype)
    lost = value.detach()[_lost(value, dtype)]
    raise GraphError(
        f"{name} holds {float(lost[0]):g}, which {dtype} cannot hold: rescale all of them, or pass dtype=torch.float64."
    )


def fits(value: Tensor, dtype: torch.dtype) -> bool:
    """Return whether no number would become infinite or vanish in that type."""
    if value.dtype == dtype or traced():
        return True
    return not any(bool(_lost(part, dtype).any()) for part in value.split(checks.AT_ONCE))  # type: ignore[no-untyped-call]


def _lost(value: Tensor, dtype: torch.dtype) -> Tensor:
    narrow = value.detach().to(dtype)
    return ~torch.isfinite(narrow) | ((narrow == 0) & (value.detach() != 0))


def _checked(row: Tensor | Lines, col: Tensor, value: Tensor, shape: Sequence[int], dtype: torch.dtype) -> Entries:
    checks.floating("the matrix", value.dtype)
    checks.finite("the matrix", value, GraphError, CLEAN)
    return Entries(row, col, value, (int(shape[0]), int(shape[1])), dtype)
