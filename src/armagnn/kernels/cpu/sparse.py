"""Products with a sparse matrix on the processor, and its order and transpose.

A kernel takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Row
``i`` of a product is summed in the order of its nonzeros by one thread: the same bits every time and for every thread
count.

Values that differ from trial to trial do so because of dropout, mostly, and `nonzeros` leaves out what it dropped:
products then take a fraction of the time. What is left out is not multiplied, not even by NaN or infinity: a trial that
has diverged may have fewer NaNs than it would have alone.

Where x is larger than a core's caches, two things keep the memory busy. While a row of x is added, the rows of later
nonzeros are fetched already, into the second-level cache: a core waits for many more lines there than in its
first-level cache. And the result, which is written for the first time, lies in huge pages: the system then clears 2 MiB
at a time, not 4 KiB.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import ordering, threads
from armagnn.kernels.cpu.compile import (
    HUGE,
    MIN_PRODUCTS,
    Array,
    Routine,
    accumulator,
    compiled,
    empty,
    inner,
    rows,
    to_numpy,
    vector,
)
from armagnn.kernels.cpu.gather import WIDEST, gather
from armagnn.kernels.cpu.masks import dropout
from armagnn.kernels.cpu.threads import Chunk, begin

# The activations that the kernel applies itself; the others need exp, and are torch's.
_FUSED = ("none", "relu", "leaky_relu")

NARROW = 8
"""Fewer columns take as long as so many: what takes time is to load a nonzero and the row that it names."""


def _product_rows(
    rowptr: Array, col: Array, value: Array, x: Array, skip: Array, bias: Array, has_skip: bool, relu: bool,
    slope: Any, starts: Array, widths: Array, out: Array, lo: int, hi: int,
) -> None:  # fmt: skip
    # Blocks of columns outermost: the rows of x that a block touches are few enough to stay in the second-level cache.
    for block in range(starts.size):
        c, width = starts[block], widths[block]
        for i in range(lo, hi):
            k = i if has_skip else 0
            start, end = np.int64(rowptr[i]), np.int64(rowptr[i + 1])
            gather(out, i, c, width, skip, k, bias, x, col, value, start, end, relu, slope, None)


def _product_types(real: Any, given: Any, index: Any, pointer: Any) -> list[Any]:
    pattern, flag = [vector(pointer), vector(index), vector(real)], types.boolean
    places = [vector(types.int64), vector(types.int64), rows(real), types.int64, types.int64]
    return [*pattern, rows(given), rows(real), vector(real), flag, flag, real, *places]


PRODUCT: Final = Routine(_product_rows, _product_types)


@intrinsic
def product_rows(
    typingctx: Any, at: Any, rowptr: Any, col: Any, value: Any, x: Any, skip: Any, bias: Any, has_skip: Any, relu: Any,
    slope: Any, starts: Any, widths: Any, out: Any, lo: Any, hi: Any,
) -> Any:  # fmt: skip
    """Write rows lo to hi of ``act(A x + skip + bias)``; at: ``PRODUCT.address`` of out, x, col and rowptr."""
    return PRODUCT.called(out.dtype, x.dtype, col.dtype, rowptr.dtype)


@compiled()
def _product(
    chunk: Chunk, at: int, rowptr: Array, col: Array, value: Array, x: Array, skip: Array, bias: Array, has_skip: bool,
    relu: bool, slope: Any, starts: Array, widths: Array, out: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    product_rows(at, rowptr, col, value, x, skip, bias, has_skip, relu, slope, starts, widths, out, lo, hi)


@compiled()
def _trial_products(
    chunk: Chunk, at: int, rowptr: Array, col: Array, values: Array, x: Array, skip: Array, bias: Array,
    has_skip: bool, relu: bool, slope: Any, starts: Array, widths: Array, out: Array, columns: int,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    for r in range(lo, hi):  # the same product with the trial's matrix on the trial's columns
        own = starts + r * columns
        product_rows(
            at, rowptr[r], col[r], values[r], x, skip, bias, has_skip, relu, slope, own, widths, out, 0, out.shape[0]
        )


@compiled(fastmath={"reassoc", "contract"})
def _sddmm_rows(chunk: Chunk, rowptr: Array, col: Array, a: Array, b: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    for i in range(lo, hi):
        left = a[i]
        for j in range(rowptr[i], rowptr[i + 1]):
            right = b[col[j]]
            total = left[0] * right[0]
            for f in range(1, left.size):
                total += left[f] * right[f]
            out[j] = total


@compiled()
def _counting_sort(key: Array, order: Array, buckets: int, pointer: Array, perm: Array) -> None:
    # Stable: entries with one key keep the order in which `order` names them.
    pointer[:] = 0
    for j in range(key.size):
        pointer[key[j] + 1] += 1
    for b in range(buckets):
        pointer[b + 1] += pointer[b]
    place = pointer[:-1].copy()
    for position in range(order.size):
        j = order[position]
        k = key[j]
        perm[place[k]] = j
        place[k] += 1


@functools.lru_cache
def column_blocks(width: int, widest: int = WIDEST) -> tuple[Array, Array]:
    """Cover ``width`` columns by blocks: return where they start and how wide they are, the last perhaps narrower.

    Example:
        >>> column_blocks(50), column_blocks(100)
        ((array([0]), array([50])), (array([ 0, 64]), array([64, 36])))
    """
    starts = np.arange(0, width, widest, dtype=np.int64)
    return starts, np.minimum(widest, width - starts)


@functools.cache
def _address(*kinds: torch.dtype) -> int:
    """Return the address of the product for these types of the result, x, the columns and the pointer."""
    return PRODUCT.address(*(to_numpy(torch.empty(0, dtype=kind, device="cpu")).dtype for kind in kinds))


def gcs(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor | None, bias: Tensor | None,
    act: str, slope: float, seed: Tensor | None = None, p: float = 0.0, step: int = 0, target: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``act(A x + dropout(skip) + bias)``; all but dropout and the activations with exp in one pass."""
    work = accumulator(x.dtype)
    if skip is not None and seed is not None:
        skip = dropout(skip, seed, p, step)
    many = value.dim() == 2
    trials = value.shape[0] if many else 1
    if many and rowptr.dim() == 1:
        rowptr, col, value = nonzeros(rowptr, col, value, None)
    starts, widths = column_blocks(max(1, x.shape[1] // trials))
    if target is None or target.dtype != work:
        target = empty(rowptr.shape[-1] - 1, x.shape[1], dtype=work)
    out = target
    if out.numel():
        array = out.numpy()
        nothing = np.zeros((1, x.shape[1]), dtype=array.dtype)
        values = to_numpy(value, work).reshape(trials, -1)
        # columns of a larger matrix are read where they lie, if a copy would be large
        apart = not many and x.dtype == work and x.stride(1) == 1 and x.nbytes >= HUGE
        numbers = x.numpy() if apart else to_numpy(x) if x.dtype == torch.bfloat16 else to_numpy(x, work)
        pattern = to_numpy(rowptr), to_numpy(col)
        arguments: tuple[Any, ...] = (
            _address(work, x.dtype if x.dtype == torch.bfloat16 else work, col.dtype, rowptr.dtype),
            *pattern, values if many else values[0], numbers,
            nothing if skip is None else to_numpy(skip, work),
            nothing[0] if bias is None else to_numpy(bias, work),
            skip is not None, act == "relu", array.dtype.type(slope if act == "leaky_relu" else 1.0),
            starts, widths, array,
        )  # fmt: skip
        if not many:
            bounds = threads.row_bounds(pattern[0], max(NARROW, x.shape[1]), MIN_PRODUCTS)
            if is_large(x):
                _large_product(arguments[1:], bounds)
            else:
                threads.run(_product, arguments, bounds)
        else:
            chunks = min(trials, threads.num_chunks(value.numel() * (x.shape[1] // trials), MIN_PRODUCTS))
            shares = [trials * k // chunks for k in range(chunks + 1)]
            threads.run(_trial_products, (*arguments, x.shape[1] // trials), shares)
    out = out if act in _FUSED else reference.activate(out, act, slope)
    return out if x.dtype == work else out.to(x.dtype)


def sddmm(rowptr: Tensor, col: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``<a[i], b[j]>`` for every nonzero (i, j)."""
    work = accumulator(a.dtype)
    out = torch.zeros(col.numel(), dtype=work)
    if out.numel() and a.shape[1]:
        arrays = (to_numpy(rowptr), to_numpy(col), to_numpy(a, work), to_numpy(b, work), out.numpy())
        threads.run(_sddmm_rows, arrays, threads.row_bounds(arrays[0], a.shape[1], MIN_PRODUCTS))
    return out.to(a.dtype)


def _sort(key: Tensor, order: Tensor | None, buckets: int) -> tuple[Tensor, Tensor]:
    keys = to_numpy(key)
    pointer = np.empty(buckets + 1, dtype=keys.dtype)
    perm = np.empty(keys.size, dtype=keys.dtype)
    first = np.arange(keys.size, dtype=keys.dtype) if order is None else to_numpy(order)
    _counting_sort(keys, first, buckets, pointer, perm)
    return torch.from_numpy(pointer), torch.from_numpy(perm)


def sort_coo(row: Tensor, col: Tensor, num_rows: int, num_cols: int) -> tuple[Tensor, Tensor]:
    """Return (rowptr, perm) that sort the entries by row, then column, then position: two linear passes."""
    _, by_col = _sort(col, None, num_cols)
    return _sort(row, by_col, num_rows)


def transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (rowptr, col, perm) of the transposed matrix; its values are ``value[perm]``."""
    return ordering.transpose(rowptr, col, num_cols)


# ------------------------------------------------------------------------------------------------ values of many trials


@inner()
def keep_nonzeros(
    rowptr: Array, col: Array, value: Array, perm: Array, starts: Array, cols: Array, values: Array
) -> None:
    """Write the matrix with the values ``value[perm]`` (or ``value``, without a perm) that are not zero."""
    zero, one = np.uint64(0), np.uint64(1)  # indices that may be negative would be looked at each time
    count = zero
    for i in range(rowptr.size - 1):
        starts[i] = count
        for j in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + 1])):
            # written before it is known whether it stays: no branch could be foretold
            v = value[np.uint64(perm[j])] if perm.size else value[j]
            cols[count], values[count] = col[j], v
            count += zero if v == 0 else one  # NaN stays
    starts[rowptr.size - 1] = count


@compiled()
def _nonzeros(
    chunk: Chunk, rowptr: Array, col: Array, value: Array, perm: Array, starts: Array, cols: Array, values: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    for r in range(lo, hi):
        keep_nonzeros(rowptr, col, value[r], perm, starts[r], cols[r], values[r])


def nonzeros(rowptr: Tensor, col: Tensor, value: Tensor, perm: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return a matrix with the values ``value[:, perm]``, (R, nonzeros), of which each trial has its own nonzeros.

    Its tensors all have the trials as first axis; those of a trial end where its last row does.
    """
    value = value.to(accumulator(value.dtype))
    trials, size = value.shape
    # one place more than there are nonzeros: behind the last one, for a zero that does not stay
    kept = rowptr.new_empty(trials, rowptr.numel()), col.new_empty(trials, size + 1), value.new_empty(trials, size + 1)
    arrays = (rowptr, col, value, rowptr.new_empty(0) if perm is None else perm, *kept)
    chunks = max(1, min(trials, threads.num_chunks(value.numel(), MIN_PRODUCTS // 8)))
    bounds = [trials * k // chunks for k in range(chunks + 1)]
    threads.run(_nonzeros, tuple(map(to_numpy, arrays)), bounds)
    return kept


# -------------------------------------------------------------------------------------------------------------- large x

LARGE: Final = 16 << 20
"""Bytes of an x whose rows are fetched ahead. To fetch those of a smaller one ahead costs more than it brings."""

LARGE_IN_ONE_BLOCK: Final = 6 << 20
"""The same for an x whose columns are one wide block then, and else two: that brings more than fetching costs."""

AHEAD: Final = 40
"""Nonzeros between the one that is added and the one whose row of x is fetched."""

SHORT: Final = 128
"""Bytes of a short row of x."""

AHEAD_SHORT: Final = 32
"""The same for short rows: with more of them under way, a core fetches fewer lines at a time."""


@compiled()
def _large_rows(
    chunk: Chunk, rowptr: Array, col: Array, value: Array, x: Array, skip: Array, bias: Array, has_skip: bool,
    relu: bool, slope: Any, starts: Array, widths: Array, out: Array, ahead: int,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    for block in range(starts.size):
        c, width = starts[block], widths[block]
        for i in range(lo, hi):
            k = i if has_skip else 0
            start, end = np.int64(rowptr[i]), np.int64(rowptr[i + 1])
            gather(out, i, c, width, skip, k, bias, x, col, value, start, end, relu, slope, ahead)


def is_large(x: Tensor) -> bool:
    """Return whether rows of x are worth fetching ahead."""
    in_one = WIDEST < x.shape[1] <= 2 * WIDEST
    return x.nbytes >= (min(LARGE, LARGE_IN_ONE_BLOCK) if in_one else LARGE)


def _large_product(arguments: tuple[Any, ...], bounds: list[int]) -> None:
    """Do what `_product` does with these arguments: the same sums in the same order, and the same bits."""
    *matrix, _starts, _widths, out = arguments
    x = matrix[3]
    ahead = AHEAD if x.shape[1] * x.itemsize > SHORT else AHEAD_SHORT
    # No block stays in a cache, so blocks are wide: fewer passes over the nonzeros.
    threads.run(_large_rows, (*matrix, *column_blocks(x.shape[1], 2 * WIDEST), out, ahead), bounds)
