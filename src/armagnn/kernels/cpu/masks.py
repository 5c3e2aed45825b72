"""Dropout on the processor: Philox as vector code, with the mask applied as it is drawn."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, Routine, accumulator, compiled, inner, to_numpy, vector
from armagnn.kernels.cpu.threads import Chunk, begin
from armagnn.randomness import DROPOUT, MASK, MULTIPLIERS, ROUNDS, WEYL, threshold, thresholds


@inner(inline="always")
def _words(block: Any, key0: int, key1: int, step: int, purpose: int) -> tuple[Any, Any, Any, Any]:
    """Return the four words of a block."""
    mask, half = np.uint64(MASK), np.uint64(32)
    m0, m1 = np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1])
    y0, y1 = np.uint64(WEYL[0]), np.uint64(WEYL[1])
    c0, c1, c2, c3 = block & mask, block >> half, np.uint64(step), np.uint64(purpose)
    k0, k1 = np.uint64(key0), np.uint64(key1)
    for _ in range(ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c1, c2, c3 = (p1 >> half) ^ c1 ^ k0, p1 & mask, (p0 >> half) ^ c3 ^ k1, p0 & mask
        k0, k1 = (k0 + y0) & mask, (k1 + y1) & mask
    return np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3)


@inner()
def philox(first: int, count: int, key0: int, key1: int, step: int, purpose: int, words: Array) -> None:
    """Write the words of the blocks from ``first`` on, four of each side by side."""
    for b in range(count):  # one loop over the blocks: the compiler turns it into vector code
        c0, c1, c2, c3 = _words(np.uint64(first + b), key0, key1, step, purpose)
        words[4 * b], words[4 * b + 1], words[4 * b + 2], words[4 * b + 3] = c0, c1, c2, c3


@inner()
def philox_of(blocks: Array, key0: int, key1: int, step: int, purpose: int, words: Array) -> None:
    """Write the words of these blocks, four of each side by side."""
    for b in range(blocks.size):
        c0, c1, c2, c3 = _words(np.uint64(blocks[b]), key0, key1, step, purpose)
        words[4 * b], words[4 * b + 1], words[4 * b + 2], words[4 * b + 3] = c0, c1, c2, c3


@inner(inline="always")
def _mask(x: Array, out: Array, words: Array, limit: Any, scale: Any) -> None:
    zero = x.dtype.type(0)
    for i in range(x.size):  # slices from zero on: an index that may be negative would not become vector code
        out[i] = x[i] * scale if words[i] >= limit else zero


@compiled()
def _dropout_blocks(
    chunk: Chunk, x: Array, out: Array, key0: int, key1: int, step: int, purpose: int, limit: Any, scale: Any,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    words = np.empty(1024, np.uint32)
    limit = np.uint32(limit)
    for first in range(lo, hi, 256):
        count = min(256, hi - first)
        philox(first, count, key0, key1, step, purpose, words)
        _mask(x[4 * first : 4 * (first + count)], out[4 * first : 4 * (first + count)], words, limit, scale)


@intrinsic(prefer_literal=True)
def _keep(
    typingctx: Any, out: Any, to: Any, x: Any, at: Any, words: Any, word: Any, limit: Any, scale: Any, lanes: Any
) -> Any:  # fmt: skip
    """Emit ``out[to + k] = x[at + k] * scale if words[word + k] >= limit else 0`` for k below a literal, as vectors.

    The compiler's own vector code for so short a loop spends more on getting ready than the loop takes.
    """
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return types.void(out, to, x, at, words, word, limit, scale, lanes), _emit_keep


@intrinsic(prefer_literal=True)
def _keep_and_add(
    typingctx: Any, out: Any, to: Any, x: Any, at: Any, words: Any, word: Any, limit: Any, scale: Any, added: Any,
    origin: Any, lanes: Any,
) -> Any:  # fmt: skip
    """Emit the same plus ``added[origin + k]``."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    return types.void(out, to, x, at, words, word, limit, scale, added, origin, lanes), _emit_keep


def _emit_keep(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    kinds, width = signature.args, signature.args[-1].literal_value
    out, x, words = (context.make_array(kinds[k])(context, builder, args[k]) for k in (0, 2, 4))
    to, at, word, limit, scale = args[1], args[3], args[5], args[6], args[7]
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
    if len(args) > 9:
        added = context.make_array(kinds[8])(context, builder, args[8])
        result = builder.fadd(result, builder.load(place(added, args[9], scale.type), align=size))
    builder.store(result, place(out, to, scale.type), align=size)
    return context.get_dummy_value()


def _drop_rows(
    x: Array, added: Array, out: Array, first: int, across: int, limit: Any, scale: Any, key0: int, key1: int,
    step: int, places: Array, words: Array,
) -> None:  # fmt: skip
    """Drop the entries of a matrix, and add the rows, or the one row, ``added``; ``out`` may be ``x`` or ``added``.

    Entry (m, c) has index first + m * across + c. The blocks of all rows are drawn at once: of one row they are too few
    for vector code. ``places`` and ``words`` have room for them.
    """
    rows, width = x.shape
    each = (width + 3) // 4 + (1 if width % 4 else 0)
    for m in range(rows):
        block = (first + m * across) >> 2
        for j in range(each):
            places[m * each + j] = block + j
    philox_of(places[: rows * each], key0, key1, step, DROPOUT, words)
    numbers, base, target, down = x.reshape(-1), added.reshape(-1), out.reshape(-1), width
    if added.shape[0] == 1:
        down = 0
    for m in range(rows):
        at, origin, word = m * width, m * down, 4 * m * each + ((first + m * across) & 3)
        end = at + width
        while at + 16 <= end:
            _keep_and_add(target, at, numbers, at, words, word, limit, scale, base, origin, 16)
            at, origin, word = at + 16, origin + 16, word + 16
        while at + 4 <= end:
            _keep_and_add(target, at, numbers, at, words, word, limit, scale, base, origin, 4)
            at, origin, word = at + 4, origin + 4, word + 4
        while at < end:
            _keep_and_add(target, at, numbers, at, words, word, limit, scale, base, origin, 1)
            at, origin, word = at + 1, origin + 1, word + 1


def _drop_piece(
    x: Array, x_place: tuple[int, int], out: Array, out_place: tuple[int, int], rows: int, columns: int,
    piece: int, seed: Any, limit: Any, scale: Any, step: int, purpose: int, words: Array,
) -> None:  # fmt: skip
    """Drop 1024 entries of a matrix with so many rows and columns, as many as there are.

    Entry (m, c) has index m * columns + c, and lies at place[0] + m * place[1] + c of the numbers of x and of out,
    which may be the same.
    """
    first, left = 1024 * piece, min(1024, rows * columns - 1024 * piece)
    key0, key1 = np.int64(seed) & MASK, (np.int64(seed) >> 32) & MASK
    philox(256 * piece, (left + 3) // 4, key0, key1, step, purpose, words)
    m, c, done = first // columns, first % columns, 0
    while done < left:  # whole rows, or what is left of one
        end = done + min(columns - c, left - done)
        at = x_place[0] + m * x_place[1] + c
        to = out_place[0] + m * out_place[1] + c
        m, c = m + 1, 0
        while done + 16 <= end:
            _keep(out, to, x, at, words, done, limit, scale, 16)
            at, to, done = at + 16, to + 16, done + 16
        if done + 8 <= end:
            _keep(out, to, x, at, words, done, limit, scale, 8)
            at, to, done = at + 8, to + 8, done + 8
        if done + 4 <= end:
            _keep(out, to, x, at, words, done, limit, scale, 4)
            at, to, done = at + 4, to + 4, done + 4
        while done < end:
            _keep(out, to, x, at, words, done, limit, scale, 1)
            at, to, done = at + 1, to + 1, done + 1


def _drop_rows_types(real: Any) -> list[Any]:
    matrix, number = types.Array(real, 2, "C"), types.int64
    masks = [types.uint32, real, number, number, number, vector(number), vector(types.uint32)]
    return [matrix, matrix, matrix, number, number, *masks]


def _drop_piece_types(real: Any) -> list[Any]:
    number, place = types.int64, types.UniTuple(types.int64, 2)
    masks = [number, types.uint32, real, number, number, vector(types.uint32)]
    return [vector(real), place, vector(real), place, number, number, number, *masks]


DROP_ROWS: Final = Routine(_drop_rows, _drop_rows_types)
DROP_PIECE: Final = Routine(_drop_piece, _drop_piece_types)


@intrinsic
def drop_rows(
    typingctx: Any, at: Any, x: Any, added: Any, out: Any, first: Any, across: Any, limit: Any, scale: Any, key0: Any,
    key1: Any, step: Any, places: Any, words: Any,
) -> Any:  # fmt: skip
    """Call `_drop_rows`; at: ``DROP_ROWS.address`` of out."""
    return DROP_ROWS.called(out.dtype)


@intrinsic
def drop_piece(
    typingctx: Any, at: Any, x: Any, x_place: Any, out: Any, out_place: Any, rows: Any, columns: Any, piece: Any,
    seed: Any, limit: Any, scale: Any, step: Any, purpose: Any, words: Any,
) -> Any:  # fmt: skip
    """Call `_drop_piece`; at: ``DROP_PIECE.address`` of out."""
    return DROP_PIECE.called(out.dtype)


@compiled()
def _trial_dropout(
    chunk: Chunk, at: int, x: Array, out: Array, columns: int, seed: Array, limit: Array, scale: Array, step: int,
    purpose: int,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    # Trial r of (M, R, C) as if it were alone. Pieces of 1024 entries of all trials, one trial after the other: what
    # lies side by side in memory is read at about the same time.
    words, across = np.empty(1024, np.uint32), seed.size * columns
    for piece in range(lo, hi):
        for r in range(seed.size):
            place = (r * columns, across)
            drop_piece(
                at, x, place, out, place, x.size // across, columns, piece, seed[r], np.uint32(limit[r]), scale[r],
                step, purpose, words,
            )  # fmt: skip


def dropout(x: Tensor, seed: Tensor, p: float, step: int) -> Tensor:
    """Return ``x`` with each entry zeroed with probability p, the others scaled by 1 / (1 - p)."""
    work = accumulator(x.dtype)
    flat = to_numpy(x.to(work).reshape(-1))
    out = torch.empty(x.shape, dtype=work)
    key = int(seed.item())
    fixed = (key & MASK, (key >> 32) & MASK, step, DROPOUT, threshold(p), flat.dtype.type(1.0 / (1.0 - p)))
    target = out.numpy().reshape(-1)
    count = -(-flat.size // 4)
    chunks = threads.num_chunks(count * 4, MIN_PRODUCTS // 4)
    bounds = [count * k // chunks for k in range(chunks + 1)]
    threads.run(_dropout_blocks, (flat, target, *fixed), bounds)
    return out.to(x.dtype)


def limits(p: Tensor, work: torch.dtype) -> tuple[Array, Array]:
    """Return the threshold of every rate, and what kept numbers are multiplied by."""
    if p.dtype != torch.float64:
        return thresholds(p).numpy(), (1.0 / (1.0 - p)).to(work).numpy()
    rates = p.numpy()  # those of trials: for a few numbers, torch takes four times as long
    limit = np.minimum(np.rint(rates * 2**32), MASK).astype(np.int64)
    return limit, (1.0 / (1.0 - rates)).astype(np.float64 if work == torch.float64 else np.float32)


def dropout_trials(x: Tensor, seed: Tensor, p: Tensor, step: int, target: Tensor | None = None) -> Tensor:
    """Return x of shape (M, R, C) with entries of trial r zeroed with probability ``p[r]``; target may be x itself."""
    work = accumulator(x.dtype)
    fits = target is not None and target.dtype == work and target.is_contiguous()
    out = target if target is not None and fits else torch.empty(x.shape, dtype=work)
    if out.numel():
        flat = (to_numpy(x, work).reshape(-1), out.numpy().reshape(-1))
        limit, scale = limits(p, work)
        pieces = -(-x.shape[0] * x.shape[2] // 1024)
        chunks = min(pieces, threads.num_chunks(x.numel(), MIN_PRODUCTS // 16))
        bounds = [pieces * k // chunks for k in range(chunks + 1)]
        arguments = (DROP_PIECE.address(flat[1].dtype), *flat, x.shape[2], to_numpy(seed), limit, scale, step, DROPOUT)
        threads.run(_trial_dropout, arguments, bounds)
    return out.to(x.dtype) if target is None or fits else target.copy_(out)
