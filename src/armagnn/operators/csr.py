"""`CSR`: an immutable sparse matrix with its transpose, the plain thing underneath every graph operator."""

from __future__ import annotations

import math
import operator
from typing import Any, Final, Self

import torch
from torch import Tensor

from armagnn import checks, kernels
from armagnn.errors import DeviceError, DTypeError, ShapeError
from armagnn.operators import entries
from armagnn.operators.operator_card import operator_card
from armagnn.torch_private import is_wrapped, lasting, learned, normal_mode, register_tree, traced

Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None]
"""A matrix as the kernels take it; see `armagnn.kernels.ops`."""


class CSR:
    r"""An immutable sparse matrix :math:`A` of shape (M, N), in compressed rows, with its transpose.

    ``A @ x`` takes ``x`` of shape (..., N, F) and returns (..., M, F): all leading axes are folded into the features,
    so that one kernel call serves them. It is differentiable in ``x`` and in the values, any number of times, backwards
    and forwards (``torch.func.jvp``; not in compiled or exported code), and in batches (``is_grads_batched``). It works
    under ``torch.compile(fullgraph=True)``, ``torch.func.vmap``, ``torch.export`` and autocast, and gives the same bits
    every time and for every number of threads.

    Build it with one of the ``from_*`` methods, which sort the entries, add up duplicates and check the values.

    Args:
        rowptr: where each row starts, shape (M + 1).
        col: the column of each nonzero, shape (nnz), ascending within a row.
        value: the nonzeros, shape (nnz).
        shape: (M, N).
        transposed: ``(rowptr, col, perm)`` of the transpose, whose values are ``value[perm]``; computed if not given.
        symmetric: the matrix equals its transpose, which then costs nothing. Nothing checks that.
        check_invariants: raise unless pointers and columns stay within the matrix. Without the check, wrong ones make a
            kernel read foreign memory.

    Example:
        >>> import torch
        >>> a = CSR.from_dense(torch.tensor([[0., 2., 0.], [1., 0., 3.]]))
        >>> a @ torch.ones(3, 1)
        tensor([[2.],
                [4.]])
        >>> a.T
        CSR(3 × 2, nnz=3, float32)
    """

    rowptr: Tensor
    col: Tensor
    value: Tensor
    shape: tuple[int, int]
    symmetric: bool

    def __init__(
        self,
        rowptr: Tensor,
        col: Tensor,
        value: Tensor,
        shape: tuple[int, int],
        *,
        transposed: tuple[Tensor, Tensor, Tensor] | None = None,
        symmetric: bool = False,
        check_invariants: bool = True,
    ) -> None:
        if check_invariants and not traced():
            entries.check_compressed(rowptr, col, value, shape, transposed, symmetric)
        self.rowptr, self.col, self.value = rowptr, col, value
        self.shape = (_size(shape[0]), _size(shape[1]))
        self.symmetric = symmetric
        if transposed is None and not symmetric:
            with normal_mode():
                transposed = kernels.transpose(rowptr, col, shape[1])
        self._transposed = transposed
        self._t_value: Tensor | None = None

    # ------------------------------------------------------------------------------------------------------- builders

    @classmethod
    def from_coo(
        cls, row: Tensor, col: Tensor, value: Tensor, shape: tuple[int, int], *, allow_empty: bool = False
    ) -> CSR:
        """Build from the row, column and value of each entry; entries at one place are added up.

        A shape of more than ten million, and of more than a hundred times the entries, is refused as a slip, here and
        in the other builders: memory grows with it. ``allow_empty=True`` insists.
        """
        return _from_entries(entries.from_coo(row, col, value, shape), allow_empty)

    @classmethod
    def from_scipy(cls, matrix: Any, dtype: torch.dtype | None = None, *, allow_empty: bool = False) -> CSR:
        """Build from any ``scipy.sparse`` matrix or array; ``dtype`` defaults to torch's default."""
        return _from_entries(entries.from_scipy(matrix, dtype), allow_empty)

    @classmethod
    def from_torch_sparse(cls, matrix: Tensor, dtype: torch.dtype | None = None, *, allow_empty: bool = False) -> CSR:
        """Build from a native ``torch.sparse`` tensor in any of its layouts."""
        return _from_entries(entries.from_torch_sparse(matrix, dtype), allow_empty)

    @classmethod
    def from_dense(cls, matrix: Any, dtype: torch.dtype | None = None) -> CSR:
        """Build from the nonzeros of a dense matrix (tensor or array)."""
        return _from_entries(entries.from_dense(matrix, dtype), allow_empty=True)

    def to_scipy(self) -> Any:
        """Return the matrix as a ``scipy.sparse.csr_array``, a copy without gradient; bfloat16 becomes float32.

        `from_scipy` undoes it, but reads numbers in torch's default type unless it is given another.

        Example:
            >>> import torch
            >>> a = CSR.from_dense(torch.tensor([[0., 2.], [1., 0.]], dtype=torch.float64))
            >>> a.to_scipy().toarray()
            array([[0., 2.],
                   [1., 0.]])
            >>> CSR.from_scipy(a.to_scipy(), dtype=a.dtype)
            CSR(2 × 2, nnz=2, float64)
        """
        import scipy.sparse

        value = self.value.detach().float() if self.dtype == torch.bfloat16 else self.value.detach()
        arrays = tuple(tensor.numpy(force=True) for tensor in (value, self.col, self.rowptr))
        return scipy.sparse.csr_array(arrays, shape=self.shape, copy=True)

    # ----------------------------------------------------------------------------------------------------- properties

    @property
    def nnz(self) -> int:
        """The number of stored entries."""
        return self.col.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        """The type of the values."""
        return self.value.dtype

    @property
    def device(self) -> torch.device:
        """Where the matrix lives."""
        return self.value.device

    @property
    def T(self) -> Self:
        """The transpose; it shares its memory with this matrix."""
        if self.symmetric and not learned(self.value):
            return self
        rowptr, col, value, t_rowptr, t_col, t_value, _, inverse = self._arguments(with_perm=True)
        assert inverse is not None
        twin = self._new(t_rowptr, t_col, t_value, (self.shape[1], self.shape[0]), (rowptr, col, inverse), False)
        twin._t_value = value
        return twin

    # ---------------------------------------------------------------------------------------------------- new matrices

    def _new(
        self,
        rowptr: Tensor,
        col: Tensor,
        value: Tensor,
        shape: tuple[int, int],
        transposed: tuple[Tensor, Tensor, Tensor] | None,
        symmetric: bool,
        same_entries: bool = False,
    ) -> Self:
        """Make a matrix of the same class, which has the fields of this one."""
        own = self._fields(same_entries)
        return type(self)(
            rowptr, col, value, shape, transposed=transposed, symmetric=symmetric, check_invariants=False, **own
        )

    def _fields(self, same_entries: bool) -> dict[str, Any]:
        """Return what a subclass hands on to a matrix made of this one, perhaps with the same entries."""
        return {}

    def with_value(self, value: Tensor) -> Self:
        """Return the matrix with the same pattern and other values (shape (nnz)), differentiable in them.

        The values are not copied: do not change them in place while the matrix is in use.
        """
        if isinstance(value, Tensor) and value.device != self.device:
            raise DeviceError(f"value is on {value.device}, the operator on {self.device}: move one with .to(device).")
        value = checks.real_tensor("value", value, "(nnz,)" if traced() else f"({self.nnz},)")
        if value.shape != self.value.shape:
            raise ShapeError(f"value must have shape ({self.nnz},), one number per nonzero, got {tuple(value.shape)}.")
        return self._new(self.rowptr, self.col, value, self.shape, self._structure(), False)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device and/or convert the values, as ``Tensor.to``: ``to("cuda")``, ``to(torch.float64)``."""
        try:
            value = self.value.to(*args, **kwargs)
        except torch.OutOfMemoryError:
            raise
        except (TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError) as error:
            why = (str(error).splitlines() or [""])[0][:80]
            raise DeviceError(f"to() takes a device that is here or a type of floats: {why}") from error
        if value is self.value:
            return self
        if value.dtype not in checks.FLOATS:
            raise DTypeError(f"the values must be float32, float64 or bfloat16, not {value.dtype}.")
        device, moved = value.device, self._transposed
        if moved is not None:
            moved = (moved[0].to(device), moved[1].to(device), moved[2].to(device))
        rowptr, col = self.rowptr.to(device), self.col.to(device)
        return self._new(rowptr, col, value, self.shape, moved, self.symmetric, same_entries=True)

    def detach(self) -> Self:
        """Return the matrix with values that need no gradient."""
        if not learned(self.value):
            return self
        value = self.value.detach()
        return self._new(self.rowptr, self.col, value, self.shape, self._transposed, self.symmetric, same_entries=True)

    # -------------------------------------------------------------------------------------------------------- products

    def _structure(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return (rowptr, col, perm) of the transpose; a symmetric matrix finds its permutation when first asked."""
        if self._transposed is not None:
            return self._transposed
        with normal_mode():
            found: tuple[Tensor, Tensor, Tensor] = kernels.transpose(self.rowptr, self.col, self.shape[1])
        if lasting() and (traced() or not is_wrapped(found[2])):
            self._transposed = found
        return found

    def _arguments(self, with_perm: bool = False) -> Arguments:
        """Return the matrix as the kernels take it: itself, its transpose, and the permutation between them."""
        with_gradient = learned(self.value)
        if self.symmetric and not with_gradient and not with_perm:
            return self.rowptr, self.col, self.value, self.rowptr, self.col, self.value, None, None
        t_rowptr, t_col, perm = self._structure()
        if with_gradient:
            t_value = self.value.index_select(0, perm)
        else:
            cached = self._t_value
            if cached is None:
                with normal_mode():
                    cached = self.value.index_select(0, perm)
                if lasting() and (traced() or not is_wrapped(cached)):  # what a transform made must not outlive it
                    self._t_value = cached
            t_value = cached
        if not (with_gradient or with_perm):
            return self.rowptr, self.col, self.value, t_rowptr, t_col, t_value, None, None
        count = torch.arange(perm.shape[0], dtype=perm.dtype, device=perm.device)
        inverse = torch.empty_like(perm).scatter_(0, perm.long(), count)
        return self.rowptr, self.col, self.value, t_rowptr, t_col, t_value, perm, inverse

    def check_operand(self, x: Tensor) -> None:
        """Raise a typed error unless ``self @ x`` is defined: shape, kind of numbers and device; no values are read."""
        if isinstance(x, Tensor) and x.device != self.device:
            raise DeviceError(f"x is on {x.device} and the operator on {self.device}: move one with .to(device).")
        if isinstance(x, Tensor) and x.layout in checks.SPARSE:
            raise DTypeError("x must be dense here; build a CSR from it with CSR.from_torch_sparse(x).")
        # a compiler knows no text of a size that may change
        x = checks.dense("x", x, "(..., N, F)" if traced() else f"(..., {self.shape[1]}, F)")
        if x.shape[-2] != self.shape[1]:
            raise ShapeError(f"x must have shape (..., {self.shape[1]}, F), one row per node, got {tuple(x.shape)}.")
        checks.floating("x", x.dtype)
        if x.dtype != self.dtype and not torch.is_autocast_enabled(x.device.type):
            raise DTypeError(
                f"x is {x.dtype} and the operator {self.dtype}: convert one of them, e.g. op.to({x.dtype})."
            )

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let ``torch.matmul(A, x)`` mean ``A @ x``; it is also the way by which the compiler finds ``@``."""
        products = (torch.matmul, torch.mm, torch.sparse.mm, operator.matmul, Tensor.matmul, Tensor.__matmul__)
        if function in products and len(args) == 2:
            left, right = args
            if not isinstance(left, CSR) and torch.compiler.is_compiling():
                # torch's tracer hands over `A @ x` with its operands swapped; an `x @ A`, which looks the same to it,
                # is refused below when the code runs without the compiler
                left, right = right, left
            return left._product(right) if isinstance(left, CSR) else right.__rmatmul__(left)
        return NotImplemented

    __array_ufunc__ = None  # numpy leaves `array @ A` to __rmatmul__

    def __matmul__(self, x: Tensor) -> Tensor:
        return self._product(x)

    def __rmatmul__(self, x: Any) -> Tensor:
        raise DTypeError(
            f"a {type(self).__name__} multiplies a tensor from the left, A @ x; for x A take (A.T @ x.T).T."
        )

    def _product(self, x: Tensor) -> Tensor:
        self.check_operand(x)
        if torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64:  # float64 is left alone, as in torch
            x = x.to(torch.get_autocast_dtype(x.device.type))
        flat = fold(x)
        out: Tensor = kernels.spmm(*self._arguments(), flat)
        return unfold(out, x.shape)

    def to_dense(self) -> Tensor:
        """Return the dense matrix, shape (M, N); differentiable in the values."""
        index = self._rows() * self.shape[1] + self.col
        flat = torch.zeros(self.shape[0] * self.shape[1], dtype=self.dtype, device=self.device)
        return flat.index_add(0, index, self.value).view(self.shape)

    def _rows(self) -> Tensor:
        """Return the row of each nonzero, shape (nnz), int64; no device is waited for."""
        counts = (self.rowptr[1:] - self.rowptr[:-1]).long()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.device), counts, output_size=self.nnz)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self._describe()})"

    def _repr_html_(self) -> str:
        return operator_card(self)

    def _describe(self) -> str:
        place = "" if self.device.type == "cpu" else f", {self.device}"
        return f"nnz={self.nnz}, {str(self.dtype).removeprefix('torch.')}{place}"

    def _context(self) -> list[Any]:
        """What is not a tensor, for the pytree; of a form that JSON keeps, so that exported programs can be saved."""
        return [*self.shape, self.symmetric]

    def _restore(self, context: list[Any]) -> None:
        *shape, self.symmetric = context
        self.shape = (shape[0], shape[1])

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable: a copied model may share it


def _size(number: Any) -> Any:
    """Return a plain integer; of an export, which leaves sizes open, the open size itself."""
    return number if isinstance(number, torch.SymInt) else int(number)


def fold(x: Tensor) -> Tensor:
    """Return (N, batch × F), contiguous, from (..., N, F): the layout in which one kernel call serves all."""
    if x.dim() == 2:
        return x.contiguous()
    batch, nodes, width = math.prod(x.shape[:-2]), x.shape[-2], x.shape[-1]
    return x.reshape(batch, nodes, width).transpose(0, 1).reshape(nodes, batch * width).contiguous()


def unfold(flat: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Undo `fold`: return (..., N', F) for the leading axes and the width of ``shape``."""
    if len(shape) == 2:
        return flat
    nodes, batch, width = flat.shape[0], math.prod(shape[:-2]), shape[-1]
    return flat.view(nodes, batch, width).transpose(0, 1).reshape(*shape[:-2], nodes, width)


def _from_entries(found: entries.Entries, allow_empty: bool) -> CSR:
    row, col, value, shape, dtype = found
    entries.justified_shape(shape, col.shape[0], allow_empty)
    value = entries.narrowed("the matrix", value, dtype)
    with normal_mode():
        if not traced():
            row, col, value = entries.normal(row, col, value)
        return CSR(*entries.assemble(row, col, value, shape), shape, check_invariants=False)


# ------------------------------------------------------------------------------------------------------------- pytree


_LEAVES: Final = ("rowptr", "col", "value", "_transposed", "_t_value")


def _leaves(matrix: CSR) -> list[Any]:
    # what a symmetric matrix finds out about its transpose when asked is no part of it: the structure stays the same
    hidden = matrix.symmetric and not getattr(matrix.value, "requires_grad", False)
    return [None if hidden and name == "_transposed" else getattr(matrix, name) for name in _LEAVES]


def _flatten(matrix: CSR) -> tuple[list[Any], list[Any]]:
    return _leaves(matrix), matrix._context()


def register(cls: type[CSR]) -> None:
    """Register a class of matrices as a pytree: its tensors are the leaves."""

    def unflatten(children: Any, context: list[Any]) -> CSR:
        matrix = object.__new__(cls)
        matrix.rowptr, matrix.col, matrix.value, transposed, matrix._t_value = children
        matrix._transposed = None if transposed is None else tuple(transposed)
        matrix._restore(context)
        return matrix

    register_tree(cls, _LEAVES, _flatten, unflatten)


register(CSR)
