r"""Many matrices at once: products of many trials, and block-diagonal matrices, multiplied or cut into batches.

Products of many trials, :math:`A_r B_r`, stay fast where the sums are long and the results small. Gradients of weights
are such products, :math:`X_r^\top G_r`, and so are the layers behind a flattened graph. Those with a dense
block-diagonal matrix, :math:`Y_b = U_b X_b`, are the frequencies of a batch of small graphs.

A batch of graphs is assembled of blocks of a sparse block-diagonal matrix, put side by side. Block b of the batch is
block ``ids[b]`` of the matrix. All that changes is where things start, so nothing is sorted and nothing is computed
with the values: the processor copies runs of memory in one pass (numba), a GPU (and a machine without numba) does the
same with a few torch operations that know the sizes beforehand and never wait for the device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn.kernels.backends import backend, compiled_or_plain, cut_rows, keep_rows_whole
from armagnn.kernels.reference import LONG
from armagnn.torch_private import forwards, gradients_by_vmap, learned, primals, traced, transforms_active

Array = npt.NDArray[Any]
Structure = tuple[Tensor, Tensor, Tensor]


class _Product(torch.autograd.Function):
    """The products (R, I, J) of (R, I, M) and (R, M, J)."""

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        return backend(a.device).trial_products(a, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        (a, b), need = inputs, ctx.needs_input_grad
        ctx.save_for_backward(a if need[1] else None, b if need[0] else None)
        ctx.save_for_forward(a, b)

    @staticmethod
    @forwards
    def jvp(ctx: Any, by_a: Tensor | None, by_b: Tensor | None) -> Tensor | None:
        a, b = primals(ctx)
        parts = [_apply(by_a, b)] if by_a is not None else []
        parts += [_apply(a, by_b)] if by_b is not None else []
        return sum(parts[1:], parts[0])

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (g,), (a, b) = grads, ctx.saved_tensors
        by_a = _apply(g, b.transpose(1, 2)) if ctx.needs_input_grad[0] else None
        by_b = _apply(a.transpose(1, 2), g) if ctx.needs_input_grad[1] else None
        return by_a, by_b

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, int | None], a: Tensor, b: Tensor) -> tuple[Tensor, int]:
        # one factor for all trials: those of the other stand side by side, in one product
        if dims[0] is None:
            b = b.movedim(dims[1] or 0, 2)
            return split(_apply(a, b.flatten(2)), 2, info.batch_size), 2
        if dims[1] is None:
            return split(_apply(a.movedim(dims[0], 1).flatten(1, 2), b), 1, info.batch_size), 1
        a, b = a.movedim(dims[0], 0), b.movedim(dims[1], 0)
        return split(_apply(a.flatten(0, 1), b.flatten(0, 1)), 0, info.batch_size), 0


def split(x: Tensor, dim: int, parts: int, each: int = -1) -> Tensor:
    """Return x with one axis split into ``(parts, each)``; torch finds an ``each`` of -1, unless there are no parts."""
    return x.unflatten(dim, (parts, each))  # type: ignore[no-any-return,no-untyped-call]


def _apply(a: Tensor, b: Tensor) -> Tensor:
    """Return the products of matrices with three axes, in their own type."""
    return _Product.apply(a, b)  # type: ignore[no-any-return,no-untyped-call]


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of a, shape (I, M), and b, shape (M, J), or the products of R trials, (R, I, M) and (R, M, J).

    Example:
        >>> product(torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]))
        tensor([[1., 3., 5.]])
    """
    device = b.device.type
    alone = device != "cuda" and not transforms_active()
    if alone or traced():  # there is nothing that torch would not do as well
        return a @ b
    if torch.is_autocast_enabled(device) and b.dtype != torch.float64:
        # here, and not inside: the backward pass must see the same types
        a, b = (tensor.to(torch.get_autocast_dtype(device)) for tensor in (a, b))
    return _apply(a, b) if a.dim() == 3 else _apply(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0)


# ------------------------------------------------------------------------------------------- products with dense blocks


@dataclass(frozen=True, eq=False, slots=True)
class DenseBlocks:
    """B square blocks along a diagonal, taken from a store of many.

    Attributes:
        store: the numbers of all blocks that there are, each row by row, one block after the other.
        first: (B,) int64, where each block starts in the store; -1 for one of zeros.
        ptr: (B + 1,) int64, where the rows of each block start.
        longest: rows that a block may have, at most.
        known: what kernels have worked out for these blocks.
    """

    store: Tensor
    first: Tensor
    ptr: Tensor
    longest: int
    known: dict[Any, Any] = field(default_factory=dict, repr=False)


class _BlockProduct(torch.autograd.Function):
    """The product (N, F) of the blocks, or of their transposes, with X (N, F)."""

    @staticmethod
    def forward(blocks: DenseBlocks, transposed: bool, x: Tensor) -> Tensor:
        return backend(x.device).block_product(blocks, x, transposed)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.blocks, ctx.transposed, _ = inputs

    @staticmethod
    @forwards
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        return None if tangents[-1] is None else _apply_blocks(ctx.blocks, ctx.transposed, tangents[-1])

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, _apply_blocks(ctx.blocks, not ctx.transposed, grads[0])

    @staticmethod
    def vmap(info: Any, dims: tuple[Any, ...], blocks: DenseBlocks, transposed: bool, x: Tensor) -> tuple[Tensor, int]:
        x = x.movedim(dims[-1], 1)  # the columns of all trials side by side
        return split(_apply_blocks(blocks, transposed, x.flatten(1)), 1, info.batch_size), 1


def _apply_blocks(blocks: DenseBlocks, transposed: bool, x: Tensor) -> Tensor:
    return _BlockProduct.apply(blocks, transposed, x)  # type: ignore[no-any-return,no-untyped-call]


def block_product(blocks: DenseBlocks, x: Tensor, *, transposed: bool = False) -> Tensor:
    r"""Return :math:`U_b X_b`, or :math:`U_b^\top X_b`, of all blocks, shape (N, F), from X, shape (N, F).

    The blocks must have the type of X and are not differentiated; X is, any number of times.

    Example:
        >>> store = torch.tensor([2.0, 0.0, 1.0, 1.0, 1.0])  # a block of one row, and one of two
        >>> blocks = DenseBlocks(store, torch.tensor([1, 0]), torch.tensor([0, 2, 3]), longest=2)
        >>> block_product(blocks, torch.tensor([[1.0], [3.0], [5.0]])).flatten()
        tensor([ 3.,  4., 10.])
    """
    return _apply_blocks(blocks, transposed, x)


# --------------------------------------------------------------------------------------------- batches of sparse blocks


class Blocks(NamedTuple):
    """A block-diagonal matrix (G blocks, N rows), or one made of some of its blocks.

    ``starts``, int64, shape (2, G + 1), says where the rows and where the nonzeros of every block start.
    ``transposed`` is ``(rowptr, col, perm)`` of the transpose, or None where that is the matrix itself.
    """

    starts: Tensor
    rowptr: Tensor
    col: Tensor
    value: Tensor
    transposed: Structure | None


class Taken(NamedTuple):
    """What `Slicer.take` gives: the new matrix, which row of the old one each row is, and in which block it lies."""

    blocks: Blocks
    rows: Tensor
    block: Tensor


class Slicer:
    """A block-diagonal matrix, ready to have blocks taken out of it.

    Example:
        >>> import torch
        >>> count = torch.arange(3, dtype=torch.int32)
        >>> diagonal = Blocks(torch.tensor([[0, 1, 2], [0, 1, 2]]), count, count[:2], torch.tensor([0.5, 0.25]), None)
        >>> slicer = Slicer(diagonal)
        >>> ids = torch.tensor([1, 1, 0])
        >>> taken = slicer.take(ids, *slicer.measure(ids.numpy()), torch.int32)
        >>> taken.blocks.value, taken.rows
        (tensor([0.2500, 0.2500, 0.5000]), tensor([1, 1, 0]))
    """

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.starts = blocks.starts.numpy(force=True)  # on the host: how large a batch is, no device need be asked
        self._padded = torch.nn.functional.pad(blocks.starts, (0, 1), mode="replicate")  # with a block of no rows
        pointers = [blocks.rowptr] + ([] if blocks.transposed is None else [blocks.transposed[0]])
        self._short = all(bool((pointer.diff() <= LONG).all()) for pointer in pointers)
        on_processor = backend(blocks.value.device).__name__.endswith(".cpu")
        self._arrays: list[Array] | None = None
        if on_processor and not learned(blocks.value):
            self._arrays = [blocks.rowptr.numpy(), blocks.col.numpy(), _bits(blocks.value)]
            self._arrays += [part.numpy() for part in blocks.transposed or ()]

    def measure(self, ids: Array) -> tuple[int, int]:
        """Return how many rows and nonzeros blocks ``ids`` (int64) have together; raise IndexError(id) without such."""
        rows, nonzeros = compiled_or_plain(_measure)(self.starts, ids)
        if rows < 0:
            raise IndexError(int(nonzeros))
        return rows, nonzeros

    def take(self, ids: Tensor, rows: int, nonzeros: int, index: torch.dtype) -> Taken:
        """Return blocks ``ids`` (B, int64, on the device of the matrix), with rows and nonzeros as measured.

        ``index`` is the type of the new pointers and columns. It is differentiable in the values.
        """
        if self._arrays is None:
            return self._marked(_take_by_torch(self.blocks, ids, rows, nonzeros, index))
        chosen, kind = ids.numpy(), np.int32 if index is torch.int32 else np.int64
        starts, origin = np.empty((2, chosen.size + 1), np.int64), np.empty((2, rows), np.int64)
        copy, rowptr, col, value = compiled_or_plain(_copy_blocks), *self._arrays[:3]
        new = np.empty(rows + 1, kind), np.empty(nonzeros, kind), np.empty(nonzeros, value.dtype)
        copy(self.starts, chosen, rowptr, col, value, False, starts, origin, *new)
        out_rowptr, out_col, out_value = map(torch.from_numpy, new)
        if self.blocks.value.dtype == torch.bfloat16:
            out_value = out_value.view(torch.bfloat16)
        transposed = None
        if self.blocks.transposed is not None:
            new = np.empty(rows + 1, kind), np.empty(nonzeros, kind), np.empty(nonzeros, kind)
            copy(self.starts, chosen, *self._arrays[3:], True, starts, origin, *new)
            transposed = (torch.from_numpy(new[0]), torch.from_numpy(new[1]), torch.from_numpy(new[2]))
        blocks = Blocks(torch.from_numpy(starts), out_rowptr, out_col, out_value, transposed)
        return Taken(blocks, torch.from_numpy(origin[0]), torch.from_numpy(origin[1]))

    def take_padded(self, ids: Tensor, rows: int, nonzeros: int, index: torch.dtype) -> Taken:
        """Return blocks ``ids``, id G being one without rows, and then a diagonal block of zeros.

        The result has ``rows`` rows and ``nonzeros`` nonzeros, which must suffice: its size depends on no id, so the
        work can be recorded and done again with other ids. What is left of both makes up the last block, whose stored
        zeros are shared out evenly among its rows (there must be one, if there are any).
        """
        given = self.blocks, self._padded, ids, rows, nonzeros, index
        return self._marked(backend(ids.device).take_padded(*given) or _take_padded(*given))

    def _marked(self, taken: Taken) -> Taken:
        pointers = [taken.blocks.rowptr] + ([] if taken.blocks.transposed is None else [taken.blocks.transposed[0]])
        for pointer in pointers:  # looking for long rows in every batch would wait for the device
            if self._short:
                keep_rows_whole(pointer)
            else:
                cut_rows(pointer, taken.blocks.col.shape[0])
        return taken


# --------------------------------------------------------------------------------------------------------- processor


def _bits(value: Tensor) -> Array:
    """Return the numbers as numpy has them; what has no such type there is only copied, so its bits will do."""
    return value.view(torch.int16).numpy() if value.dtype == torch.bfloat16 else value.numpy()


def _measure(source: Array, ids: Array) -> tuple[int, int]:
    rows, nonzeros = 0, 0
    for b in range(ids.size):
        g = ids[b]
        if g < 0 or g >= source.shape[1] - 1:
            return -1, g
        rows += source[0, g + 1] - source[0, g]
        nonzeros += source[1, g + 1] - source[1, g]
    return rows, nonzeros


def _copy_blocks(
    source: Array, ids: Array, rowptr: Array, col: Array, extra: Array, moves: bool,
    starts: Array, origin: Array, out_rowptr: Array, out_col: Array, out_extra: Array,
) -> None:  # fmt: skip
    # What goes with the nonzeros is their value, or (it moves) their position in the transpose.
    row, nonzero = 0, 0
    for b in range(ids.size):
        starts[0, b], starts[1, b] = row, nonzero
        g = ids[b]
        down, along = row - source[0, g], nonzero - source[1, g]
        for i in range(source[0, g], source[0, g + 1]):
            origin[0, row], origin[1, row] = i, b
            out_rowptr[row] = rowptr[i] + along
            row += 1
        for j in range(source[1, g], source[1, g + 1]):
            out_col[nonzero] = col[j] + down
            if moves:
                out_extra[nonzero] = extra[j] + along
            else:
                out_extra[nonzero] = extra[j]
            nonzero += 1
    starts[0, ids.size], starts[1, ids.size] = row, nonzero
    out_rowptr[row] = nonzero


# ------------------------------------------------------------------------------------------------------- plain torch


def _take_by_torch(blocks: Blocks, ids: Tensor, rows: int, nonzeros: int, index: torch.dtype) -> Taken:
    first = blocks.starts.index_select(1, ids)
    sizes = blocks.starts.index_select(1, ids + 1) - first
    starts = torch.nn.functional.pad(sizes.cumsum(1), (1, 0))
    shift = starts[:, :-1] - first  # by how much rows and nonzeros of a block move
    count = torch.arange(ids.shape[0], device=ids.device)
    block = torch.repeat_interleave(count, sizes[0], output_size=rows)
    down, along = shift.index_select(1, block)
    origin = torch.arange(rows, device=ids.device) - down
    owner = torch.repeat_interleave(count, sizes[1], output_size=nonzeros)
    col_down, nonzero_along = shift.index_select(1, owner)
    entries = torch.arange(nonzeros, device=ids.device) - nonzero_along

    def pointer(rowptr: Tensor) -> Tensor:
        return torch.cat([rowptr.index_select(0, origin) + along, starts[1, -1:]]).to(index)

    def columns(col: Tensor) -> Tensor:
        return torch.add(col.index_select(0, entries), col_down).to(index)

    transposed = None
    if blocks.transposed is not None:
        t_rowptr, t_col, perm = blocks.transposed
        moved = (perm.index_select(0, entries) + nonzero_along).to(index)
        transposed = (pointer(t_rowptr), columns(t_col), moved)
    value = blocks.value.index_select(0, entries)
    return Taken(Blocks(starts, pointer(blocks.rowptr), columns(blocks.col), value, transposed), origin, block)


def _take_padded(
    blocks: Blocks, all_starts: Tensor, ids: Tensor, rows: int, nonzeros: int, index: torch.dtype
) -> Taken:
    first = all_starts.index_select(1, ids)
    sizes = all_starts.index_select(1, ids + 1) - first
    rest = torch.stack([rows - sizes[0].sum(), nonzeros - sizes[1].sum()]).unsqueeze(1)
    sizes, first = torch.cat([sizes, rest], 1), torch.nn.functional.pad(first, (0, 1))
    starts = torch.nn.functional.pad(sizes.cumsum(1), (1, 0))
    last, (rows_left, left) = ids.shape[0], rest.clamp(min=1).squeeze(1)  # of the block behind the others
    shift = starts[:, :-1] - first
    count = torch.arange(last + 1, device=ids.device)

    def places(which: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return the block of each row (or nonzero), by how much its rows and nonzeros move, and where it was."""
        block = torch.repeat_interleave(count, sizes[which], output_size=size)
        moved = shift.index_select(1, block)
        origin = torch.arange(size, device=ids.device) - moved[which]
        return block, moved, torch.where(block == last, 0, origin)  # any row will do for those that have no meaning

    row, entry = (torch.arange(size, device=ids.device) for size in (rows, nonzeros))
    block, moved, origin = places(0, rows)
    owner, moved_entries, entries = places(1, nonzeros)
    # row i of m has the zeros floor(n i / m) ... of n; so zero j is in row floor((m (j + 1) - 1) / n)
    first_zero = starts[1, -2] + left * (row - starts[0, -2]) // rows_left
    own_row = starts[0, -2] + (rows_left * (entry - starts[1, -2] + 1) - 1) // left

    def pointer(rowptr: Tensor) -> Tensor:
        inside = torch.where(block == last, first_zero, rowptr.index_select(0, origin) + moved[1])
        return torch.cat([inside, starts[1, -1:]]).to(index)

    def taken(stored: Tensor) -> Tensor:
        return stored.index_select(0, entries) if stored.shape[0] else stored.new_zeros(nonzeros)

    def columns(col: Tensor) -> Tensor:
        return torch.where(owner == last, own_row, taken(col) + moved_entries[0]).to(index)

    transposed = None
    if blocks.transposed is not None:
        t_rowptr, t_col, perm = blocks.transposed
        across = torch.where(owner == last, entry, taken(perm) + moved_entries[1]).to(index)
        transposed = (pointer(t_rowptr), columns(t_col), across)
    value = torch.where(owner == last, 0.0, taken(blocks.value))
    return Taken(Blocks(starts, pointer(blocks.rowptr), columns(blocks.col), value, transposed), origin, block)
