"""The kernels for the processor, in numba.

Each takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Row ``i``
of a product is summed in the order of its nonzeros by one thread: the same bits every time and for every thread count.
Compiled code is cached on disk, so only the first call on a machine waits (a second or two).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import prange, types
from numba.extending import intrinsic
from torch import Tensor

from armagnn.kernels import cpu_attention, cpu_maxima, reference, threads
from armagnn.kernels.compiled import compiled
from armagnn.kernels.gather import blocks, gather
from armagnn.kernels.random import DROPOUT, MASK, MULTIPLIERS, ROUNDS, WEYL, threshold, thresholds

Array = npt.NDArray[Any]

MIN_PRODUCTS = 1 << 20
"""Multiply-adds below which a second thread costs more than it brings (about 100 microseconds of work)."""

# The activations that the kernel applies itself. The others need exp, which only torch has in vector form.
_FUSED = ("none", "relu", "leaky_relu")


@compiled()
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
            if width == 64:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 64)
            elif width == 32:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 32)
            elif width == 16:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 16)
            elif width == 8:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 8)
            elif width == 4:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 4)
            elif width == 2:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 2)
            else:
                gather(out, i, c, skip, k, bias, x, col, value, start, end, relu, slope, 1)


@compiled(parallel=True)
def _product_team(
    bounds: Array, rowptr: Array, col: Array, value: Array, x: Array, skip: Array, bias: Array, has_skip: bool,
    relu: bool, slope: Any, starts: Array, widths: Array, out: Array,
) -> None:  # fmt: skip
    for t in prange(bounds.size - 1):
        _product_rows(
            rowptr, col, value, x, skip, bias, has_skip, relu, slope, starts, widths, out, bounds[t], bounds[t + 1]
        )


@compiled()
def _trial_products(
    rowptr: Array, col: Array, values: Array, x: Array, skip: Array, bias: Array, has_skip: bool, relu: bool,
    slope: Any, starts: Array, widths: Array, out: Array, columns: int, lo: int, hi: int,
) -> None:  # fmt: skip
    for r in range(lo, hi):  # the same product with the trial's values on the trial's columns
        own = starts + r * columns
        _product_rows(
            rowptr, col, values[r], x, skip, bias, has_skip, relu, slope, own, widths, out, 0, rowptr.size - 1
        )


@compiled(parallel=True)
def _trial_products_team(
    bounds: Array, rowptr: Array, col: Array, values: Array, x: Array, skip: Array, bias: Array, has_skip: bool,
    relu: bool, slope: Any, starts: Array, widths: Array, out: Array, columns: int,
) -> None:  # fmt: skip
    for t in prange(bounds.size - 1):
        _trial_products(
            rowptr, col, values, x, skip, bias, has_skip, relu, slope, starts, widths, out, columns,
            bounds[t], bounds[t + 1],
        )  # fmt: skip


@compiled(fastmath={"reassoc", "contract"})
def _sddmm_rows(rowptr: Array, col: Array, a: Array, b: Array, out: Array, lo: int, hi: int) -> None:
    for i in range(lo, hi):
        left = a[i]
        for j in range(rowptr[i], rowptr[i + 1]):
            right = b[col[j]]
            total = left[0] * right[0]
            for f in range(1, left.size):
                total += left[f] * right[f]
            out[j] = total


@compiled(parallel=True)
def _sddmm_team(bounds: Array, rowptr: Array, col: Array, a: Array, b: Array, out: Array) -> None:
    for t in prange(bounds.size - 1):
        _sddmm_rows(rowptr, col, a, b, out, bounds[t], bounds[t + 1])


@compiled()
def _philox(first: int, count: int, key0: int, key1: int, step: int, purpose: int, words: Array) -> None:
    # One loop over blocks whose four words lie side by side: the compiler turns it into vector code.
    mask, half = np.uint64(MASK), np.uint64(32)
    m0, m1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
    y0, y1 = np.uint64(WEYL[0]), np.uint64(WEYL[1])
    for b in range(count):
        block = np.uint64(first + b)
        c0, c1, c2, c3 = block & mask, block >> half, np.uint64(step), np.uint64(purpose)
        k0, k1 = np.uint64(key0), np.uint64(key1)
        for _ in range(ROUNDS):
            p0, p1 = c0 * m0, c2 * m1
            c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & mask, (p0 >> half) ^ c3 ^ k1, p0 & mask
            k0, k1 = (k0 + y0) & mask, (k1 + y1) & mask
        words[4 * b], words[4 * b + 1] = np.uint32(c0), np.uint32(c1)
        words[4 * b + 2], words[4 * b + 3] = np.uint32(c2), np.uint32(c3)


@compiled(inline="always")
def _mask(x: Array, out: Array, words: Array, limit: Any, scale: Any) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):  # slices from zero on: an index that may be negative would not become vector code
        out[i] = x[i] * scale if words[i] >= limit else zero


@compiled()
def _dropout_blocks(
    x: Array, out: Array, key0: int, key1: int, step: int, purpose: int, limit: Any, scale: Any, lo: int, hi: int
) -> None:
    words = np.empty(1024, np.uint32)
    limit = np.uint32(limit)
    for first in range(lo, hi, 256):
        count = min(256, hi - first)
        _philox(first, count, key0, key1, step, purpose, words)
        _mask(x[4 * first : 4 * (first + count)], out[4 * first : 4 * (first + count)], words, limit, scale)


@compiled(parallel=True)
def _dropout_team(
    bounds: Array, x: Array, out: Array, key0: int, key1: int, step: int, purpose: int, limit: Any, scale: Any
) -> None:
    for t in prange(bounds.size - 1):
        _dropout_blocks(x, out, key0, key1, step, purpose, limit, scale, bounds[t], bounds[t + 1])


@intrinsic(prefer_literal=True)
def _keep(
    typingctx: Any, out: Any, at: Any, x: Any, words: Any, word: Any, limit: Any, scale: Any, lanes: Any
) -> Any:  # fmt: skip
    """Emit ``out[at + k] = x[at + k] * scale if words[word + k] >= limit else 0`` for k below a literal, as vectors.

    The compiler's own vector code for so short a loop spends more on getting ready than the loop takes.
    """
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return types.void(out, at, x, words, word, limit, scale, lanes), _emit_keep


def _emit_keep(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    kinds, width = signature.args, signature.args[-1].literal_value
    out, x, words = (context.make_array(kinds[k])(context, builder, args[k]) for k in (0, 2, 3))
    at, word, limit, scale = args[1], args[4], args[5], args[6]
    i32, size = ir.IntType(32), context.get_abi_sizeof(scale.type)

    def place(array: Any, start: Any, element: Any) -> Any:
        return builder.bitcast(builder.gep(array.data, [start]), ir.VectorType(element, width).as_pointer())

    def splat(number: Any) -> Any:
        undefined = ir.Constant(ir.VectorType(number.type, width), ir.Undefined)
        first = builder.insert_element(undefined, number, ir.Constant(i32, 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(i32, width), [0] * width))

    scaled = builder.fmul(builder.load(place(x, at, scale.type), align=size), splat(scale))
    kept = builder.icmp_unsigned(">=", builder.load(place(words, word, i32), align=4), splat(limit))
    result = builder.select(kept, scaled, ir.Constant(scaled.type, [0.0] * width))
    builder.store(result, place(out, at, scale.type), align=size)
    return context.get_dummy_value()


@compiled()
def _trial_dropout(
    x: Array, out: Array, columns: int, seed: Array, limit: Array, scale: Array, step: int, purpose: int,
    lo: int, hi: int,
) -> None:  # fmt: skip
    # Trial r of (M, R, C): entry (m, c) has index m * C + c, as if the trial were alone. Pieces of 1024 entries of all
    # trials, one trial after the other: what lies side by side in memory is read at about the same time.
    trials = seed.size
    size = x.size // trials
    words = np.empty(1024, np.uint32)
    for piece in range(lo, hi):
        first, left = 1024 * piece, min(1024, size - 1024 * piece)
        for r in range(trials):
            key0, key1 = np.int64(seed[r]) & MASK, (np.int64(seed[r]) >> 32) & MASK
            least, factor = np.uint32(limit[r]), scale[r]
            _philox(256 * piece, (left + 3) // 4, key0, key1, step, purpose, words)
            m, c, done = first // columns, first % columns, 0
            while done < left:  # whole rows, or what is left of one
                end = done + min(columns - c, left - done)
                at = (m * trials + r) * columns + c
                m, c = m + 1, 0
                while done + 16 <= end:
                    _keep(out, at, x, words, done, least, factor, 16)
                    at, done = at + 16, done + 16
                if done + 8 <= end:
                    _keep(out, at, x, words, done, least, factor, 8)
                    at, done = at + 8, done + 8
                if done + 4 <= end:
                    _keep(out, at, x, words, done, least, factor, 4)
                    at, done = at + 4, done + 4
                while done < end:
                    _keep(out, at, x, words, done, least, factor, 1)
                    at, done = at + 1, done + 1


@compiled(parallel=True)
def _trial_dropout_team(
    bounds: Array, x: Array, out: Array, columns: int, seed: Array, limit: Array, scale: Array, step: int, purpose: int
) -> None:
    for t in prange(bounds.size - 1):
        _trial_dropout(x, out, columns, seed, limit, scale, step, purpose, bounds[t], bounds[t + 1])


@compiled()
def _adam_trials(
    param: Array, grad: Array, mean: Array, square: Array, size: Array, decay: Array, root: Any, beta1: Any,
    beta2: Any, epsilon: Any, one: Any, least: Any, lo: int, hi: int,
) -> None:  # fmt: skip
    # What decays towards zero stops short of the numbers that a processor takes a hundred times longer for.
    trials, zero = size.size, one - one
    for row in range(lo, hi):
        step, weight = size[row % trials], decay[row % trials]
        p, q, means, squares = param[row], grad[row], mean[row], square[row]
        for c in range(p.size):
            g = q[c] + weight * p[c]
            m = beta1 * means[c] + (one - beta1) * g
            s = beta2 * squares[c] + (one - beta2) * g * g
            new = p[c] - step * m / (np.sqrt(s) / root + epsilon)
            means[c] = zero if abs(m) <= least else m  # not the other way round: NaN stays
            squares[c] = zero if s <= least else s
            p[c] = zero if abs(new) <= least else new


@compiled(parallel=True)
def _adam_team(
    bounds: Array, param: Array, grad: Array, mean: Array, square: Array, size: Array, decay: Array, root: Any,
    beta1: Any, beta2: Any, epsilon: Any, one: Any, least: Any,
) -> None:  # fmt: skip
    for t in prange(bounds.size - 1):
        lo, hi = bounds[t], bounds[t + 1]
        _adam_trials(param, grad, mean, square, size, decay, root, beta1, beta2, epsilon, one, least, lo, hi)


@compiled()
def _reorder_rows(value: Array, perm: Array, out: Array, lo: int, hi: int) -> None:
    for r in range(lo, hi):
        source, target = value[r], out[r]
        for j in range(perm.size):
            target[j] = source[perm[j]]


@compiled(parallel=True)
def _reorder_team(bounds: Array, value: Array, perm: Array, out: Array) -> None:
    for t in prange(bounds.size - 1):
        _reorder_rows(value, perm, out, bounds[t], bounds[t + 1])


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
def _blocks(width: int) -> tuple[Array, Array, bool]:
    """Return where the blocks of columns start, how wide they are, and whether none overlaps another."""
    starts, widths = blocks(width)
    return np.array(starts, dtype=np.int64), np.array(widths, dtype=np.int64), sum(widths) == width


def _numpy(x: Tensor, dtype: torch.dtype | None = None) -> Array:
    if dtype is not None and x.dtype != dtype:
        x = x.to(dtype)
    array = x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _accumulator(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def gcs(
    rowptr: Tensor, col: Tensor, value: Tensor, x: Tensor, skip: Tensor | None, bias: Tensor | None,
    act: str, slope: float, seed: Tensor | None = None, p: float = 0.0, step: int = 0, target: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``act(A x + dropout(skip) + bias)``; all but dropout and the activations with exp in one pass."""
    work = _accumulator(x.dtype)
    if skip is not None and seed is not None:
        skip = dropout(skip, seed, p, step)
    trials = value.shape[0] if value.dim() == 2 else 1
    starts, widths, apart = _blocks(max(1, x.shape[1] // trials))
    if target is None or target.dtype != work or not apart:
        # a block that overlaps the one before it would read what that has written over the skip connection
        target = torch.empty(rowptr.numel() - 1, x.shape[1], dtype=work)
    out = target
    if out.numel():
        array = out.numpy()
        nothing = np.zeros((1, x.shape[1]), dtype=array.dtype)
        values = _numpy(value, work).reshape(trials, -1)
        arguments: tuple[Any, ...] = (
            _numpy(rowptr), _numpy(col), values[0],
            _numpy(x) if x.dtype == torch.bfloat16 else _numpy(x, work),
            nothing if skip is None else _numpy(skip, work),
            nothing[0] if bias is None else _numpy(bias, work),
            skip is not None, act == "relu", array.dtype.type(slope if act == "leaky_relu" else 1.0),
            starts, widths, array,
        )  # fmt: skip
        if trials == 1:
            threads.run(
                _product_rows, _product_team, arguments, threads.row_bounds(arguments[0], x.shape[1], MIN_PRODUCTS)
            )
        else:
            chunks = min(trials, threads.num_chunks(value.numel() * (x.shape[1] // trials), MIN_PRODUCTS))
            shares = [trials * k // chunks for k in range(chunks + 1)]
            arguments = (*arguments[:2], values, *arguments[3:], x.shape[1] // trials)
            threads.run(_trial_products, _trial_products_team, arguments, shares)
    out = out if act in _FUSED else reference.activate(out, act, slope)
    return out if x.dtype == work else out.to(x.dtype)


def sddmm(rowptr: Tensor, col: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Return ``<a[i], b[j]>`` for every nonzero (i, j)."""
    work = _accumulator(a.dtype)
    out = torch.zeros(col.numel(), dtype=work)
    if out.numel() and a.shape[1]:
        arrays = (_numpy(rowptr), _numpy(col), _numpy(a, work), _numpy(b, work), out.numpy())
        threads.run(_sddmm_rows, _sddmm_team, arrays, threads.row_bounds(arrays[0], a.shape[1], MIN_PRODUCTS))
    return out.to(a.dtype)


def dropout(x: Tensor, seed: Tensor, p: float, step: int) -> Tensor:
    """Return ``x`` with each entry zeroed with probability p, the others scaled by 1 / (1 - p)."""
    work = _accumulator(x.dtype)
    flat = _numpy(x.to(work).reshape(-1))
    out = torch.empty(x.shape, dtype=work)
    key = int(seed.item())
    fixed = (key & MASK, (key >> 32) & MASK, step, DROPOUT, threshold(p), flat.dtype.type(1.0 / (1.0 - p)))
    target = out.numpy().reshape(-1)
    count = -(-flat.size // 4)
    chunks = threads.num_chunks(count * 4, MIN_PRODUCTS // 4)
    bounds = [count * k // chunks for k in range(chunks + 1)]
    threads.run(_dropout_blocks, _dropout_team, (flat, target, *fixed), bounds)
    return out.to(x.dtype)


def dropout_trials(x: Tensor, seed: Tensor, p: Tensor, step: int, target: Tensor | None = None) -> Tensor:
    """Return x of shape (M, R, C) with entries of trial r zeroed with probability ``p[r]``; target may be x itself."""
    work = _accumulator(x.dtype)
    fits = target is not None and target.dtype == work and target.is_contiguous()
    out = target if target is not None and fits else torch.empty(x.shape, dtype=work)
    if out.numel():
        limit, scale = thresholds(p).numpy(), (1.0 / (1.0 - p)).to(work).numpy()
        flat = (_numpy(x, work).reshape(-1), out.numpy().reshape(-1))
        pieces = -(-x.shape[0] * x.shape[2] // 1024)
        chunks = min(pieces, threads.num_chunks(x.numel(), MIN_PRODUCTS // 16))
        bounds = [pieces * k // chunks for k in range(chunks + 1)]
        arguments = (*flat, x.shape[2], _numpy(seed), limit, scale, step, DROPOUT)
        threads.run(_trial_dropout, _trial_dropout_team, arguments, bounds)
    return out.to(x.dtype) if target is None or fits else target.copy_(out)


def adam(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, lr: Tensor, decay: Tensor, step: Tensor, axis: int = 0
) -> None:
    """Take one step of Adam in place, in one pass, with a rate lr and a weight decay (R) for every trial on an axis."""
    kind: Any = _numpy(param).dtype.type
    count, rows = float(step), math.prod(param.shape[: axis + 1])
    arrays = tuple(tensor.view(rows, -1).numpy() for tensor in (param, grad.contiguous(), mean, square))
    fixed = (
        _numpy((lr / (1 - reference.BETA1**count)).to(param.dtype)), _numpy(decay.to(param.dtype)),
        kind((1 - reference.BETA2**count) ** 0.5), kind(reference.BETA1), kind(reference.BETA2),
        kind(reference.EPSILON), kind(1), kind(np.finfo(kind).tiny / np.finfo(kind).eps),
    )  # fmt: skip
    chunks = min(rows, threads.num_chunks(param.numel(), MIN_PRODUCTS // 8))
    threads.run(_adam_trials, _adam_team, (*arrays, *fixed), [rows * k // chunks for k in range(chunks + 1)])


def reorder(value: Tensor, perm: Tensor) -> Tensor:
    """Return ``value[..., perm]``: whole rows at a time, which torch takes column by column."""
    if value.dim() != 2 or value.dtype == torch.bfloat16:
        return reference.reorder(value, perm)
    out = torch.empty(value.shape[0], perm.shape[0], dtype=value.dtype)
    chunks = min(value.shape[0], threads.num_chunks(out.numel(), MIN_PRODUCTS // 8))
    bounds = [value.shape[0] * k // max(1, chunks) for k in range(chunks + 1)]
    if out.numel():
        threads.run(_reorder_rows, _reorder_team, (_numpy(value), _numpy(perm), out.numpy()), bounds)
    return out


IN_PLACE = True
MEAN = False
SIGNALS = True
affine, outer = reference.affine, reference.outer
row_max, row_max_back = cpu_maxima.row_max, cpu_maxima.row_max_back
attend, attend_back = cpu_attention.attend, cpu_attention.attend_back
early_step, late_step = reference.early_step, reference.late_step
finish = reference.finish
stack_matmul = reference.stack_matmul


def stack_mean(h: Tensor) -> Tensor:
    """Return the mean over the stacks, in whole rows: torch's own reduction over an inner axis is not vectorised."""
    first, *others = h.unbind(1)
    if not others:
        return first.clone()
    out = first + others[0]
    for other in others[1:]:
        out += other
    return out.mul_(1.0 / h.shape[1])


def _sort(key: Tensor, order: Tensor | None, buckets: int) -> tuple[Tensor, Tensor]:
    keys = _numpy(key)
    pointer = np.empty(buckets + 1, dtype=keys.dtype)
    perm = np.empty(keys.size, dtype=keys.dtype)
    first = np.arange(keys.size, dtype=keys.dtype) if order is None else _numpy(order)
    _counting_sort(keys, first, buckets, pointer, perm)
    return torch.from_numpy(pointer), torch.from_numpy(perm)


def sort_coo(row: Tensor, col: Tensor, num_rows: int, num_cols: int) -> tuple[Tensor, Tensor]:
    """Return (rowptr, perm) that sort the entries by row, then column, then position: two linear passes."""
    _, by_col = _sort(col, None, num_cols)
    return _sort(row, by_col, num_rows)


def transpose(rowptr: Tensor, col: Tensor, num_cols: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return (rowptr, col, perm) of the transposed matrix; its values are ``value[perm]``."""
    pointer, perm = _sort(col, None, num_cols)
    counts = (rowptr[1:] - rowptr[:-1]).long()
    row = torch.repeat_interleave(torch.arange(counts.numel(), dtype=col.dtype), counts)
    return pointer, row[perm.long()], perm
