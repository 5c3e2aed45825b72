"""What Lanczos' recursion does with vectors of the nodes, on the processor.

A few rows are seen as one long vector, `TILE` numbers or more, and the numbers of the columns are repeated as often:
then every inner loop is long, whatever the number of columns, and the compiler makes vector code of it.

Sums over rows are made block by block, whatever the number of threads: the same bits every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.backends import Numbers, StateUpdate
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import Array, compiled, empty, inner
from armagnn.kernels.cpu.threads import Chunk, begin

TILE: Final = 512
"""Numbers of an inner loop at least."""

BLOCK: Final = 1 << 13
"""Numbers of a vector that are added up before they are added to those of the other blocks, about; and that stay in a
cache while several vectors are combined."""

MIN_NUMBERS: Final = 1 << 16
"""Numbers of a vector for which a second thread pays."""


@inner(fastmath={"contract"})
def _add_products(total: Array, x: Array, y: Array) -> None:
    for t in range(x.size):
        total[t] += np.float64(x[t]) * np.float64(y[t])


@inner(fastmath={"contract"})
def _three_terms(u: Array, v: Array, before: Array, f0: Array, f1: Array, f2: Array) -> None:
    for t in range(u.size):
        u[t] = f0[t] * u[t] + f1[t] * v[t] + f2[t] * before[t]


@inner(fastmath={"contract"})
def _scaled(out: Array, x: Array, f: Array) -> None:
    for t in range(out.size):
        out[t] = f[t] * x[t]


@inner(fastmath={"contract"})
def _add_scaled(out: Array, x: Array, f: Array) -> None:
    for t in range(out.size):
        out[t] += f[t] * x[t]


@inner(fastmath={"contract"})
def _add_four(out: Array, x0: Array, x1: Array, x2: Array, x3: Array, f: Array, w: int) -> None:
    f0, f1, f2, f3 = f[w], f[w + 1], f[w + 2], f[w + 3]
    for t in range(out.size):
        out[t] += (f0[t] * x0[t] + f1[t] * x1[t]) + (f2[t] * x2[t] + f3[t] * x3[t])


@compiled()
def _dot_rows(chunk: Chunk, x: Array, y: Array, tile: int, block: int, sums: Array) -> None:
    lo, hi = begin(chunk)
    columns = sums.shape[1]
    each = np.empty(tile)
    for number in range(lo, hi):
        each[:] = 0.0
        end = min((number + 1) * block, x.size)
        for start in range(number * block, end, tile):
            stop = min(start + tile, end)
            _add_products(each, x[start:stop], y[start:stop])
        for t in range(tile):
            sums[number, t % columns] += each[t]


@compiled()
def _vector_rows(
    chunk: Chunk, u: Array, v: Array, before: Array, factors: Array, tile: int, block: int, sums: Array
) -> None:
    lo, hi = begin(chunk)
    columns = sums.shape[1]
    each = np.empty(tile)
    for number in range(lo, hi):
        each[:] = 0.0
        end = min((number + 1) * block, u.size)
        for start in range(number * block, end, tile):
            stop = min(start + tile, end)
            new = u[start:stop]
            _three_terms(new, v[start:stop], before[start:stop], factors[0], factors[1], factors[2])
            _add_products(each, new, new)
        for t in range(tile):
            sums[number, t % columns] += each[t]


@compiled()
def _combine_rows(
    chunk: Chunk, states: Array, vectors: Array, places: Array, first: Array, count: Array, pointer: Array,
    sources: Array, old: Array, new: Array, tile: int, block: int,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    length, many = states.shape[1], places.size
    made = np.empty((count.max(), tile), dtype=states.dtype)
    for number in range(lo, hi):
        end = min((number + 1) * block, length)
        # one tile of all vectors stays in the nearest cache while all states are made of it
        for start in range(number * block, end, tile):
            stop = min(start + tile, end)
            row, old_row = np.int64(0), np.int64(0)  # of `new` and of `old`
            for u in range(first.size):
                given = pointer[u + 1] - pointer[u]
                for s in range(count[u]):
                    out, kept, added = made[s, : stop - start], old[old_row + s * given :], new[row + s]
                    if given:
                        _scaled(out, states[sources[pointer[u]], start:stop], kept[0])
                    else:
                        out[:] = 0
                    for k in range(1, given):
                        _add_scaled(out, states[sources[pointer[u] + k], start:stop], kept[k])
                    for k in range(0, many - 3, 4):
                        _add_four(
                            out, vectors[places[k], start:stop], vectors[places[k + 1], start:stop],
                            vectors[places[k + 2], start:stop], vectors[places[k + 3], start:stop], added, k,
                        )  # fmt: skip
                    for k in range(many - many % 4, many):
                        _add_scaled(out, vectors[places[k], start:stop], added[k])
                for s in range(count[u]):
                    states[first[u] + s, start:stop] = made[s, : stop - start]
                row += count[u]
                old_row += count[u] * given


def _tiles(columns: int) -> tuple[int, int]:
    """Return how many numbers a tile has, and a block: whole rows, and whole tiles."""
    tile = columns * -(-TILE // columns)
    return tile, tile * max(1, BLOCK // tile)


def _bounds(numbers: int, block: int, vectors: int) -> tuple[list[int], int]:
    """Return where the blocks are cut for threads, and their number."""
    blocks = -(-numbers // block)
    chunks = max(1, min(blocks, threads.num_chunks(vectors * numbers, MIN_NUMBERS)))
    return [blocks * k // chunks for k in range(chunks + 1)], blocks


def blank(like: Tensor, *shape: int) -> Tensor:
    """Return a tensor without values, of the type of another, in huge pages if it is large."""
    return empty(*shape, dtype=like.dtype)


def column_dots(x: Tensor, y: Tensor) -> Tensor:
    """Return the inner products of the columns of two matrices (N, C), shape (C), float64."""
    columns = x.shape[1]
    if not x.numel():
        return torch.zeros(columns, dtype=torch.float64)
    tile, block = _tiles(columns)
    bounds, blocks = _bounds(x.numel(), block, 2)
    sums = np.zeros((blocks, columns))
    threads.run(_dot_rows, (_flat(x), _flat(y), tile, block, sums), bounds)
    return torch.from_numpy(sums.sum(0))


def lanczos_vector(u: Tensor, v: Tensor, before: Tensor, factors: Numbers) -> Tensor:
    """Replace u by a sum of u, v and before, and return its squares; see `armagnn.kernels.backends`."""
    columns = u.shape[1]
    if not u.numel():
        return torch.zeros(columns, dtype=torch.float64)
    tile, block = _tiles(columns)
    bounds, blocks = _bounds(u.numel(), block, 4)
    sums = np.zeros((blocks, columns))
    array = _flat(u)
    factor = np.tile(factors, (1, tile // columns)).astype(array.dtype)
    threads.run(_vector_rows, (array, _flat(v), _flat(before), factor, tile, block, sums), bounds)
    return torch.from_numpy(sums.sum(0))


def combine_states(states: Tensor, vectors: Tensor, places: Sequence[int], updates: Sequence[StateUpdate]) -> None:
    """Replace states by sums of states and vectors; see `armagnn.kernels.backends`."""
    columns = states.shape[2]
    if not states[0].numel() or not updates:
        return
    tile, block = _tiles(columns)
    array = states.view(len(states), -1).numpy()
    first = np.array([each.first for each in updates])
    count = np.array([len(each.new) for each in updates])
    pointer = np.cumsum([0, *(len(each.sources) for each in updates)])
    sources = np.array([s for each in updates for s in each.sources], dtype=np.int64)
    old = np.concatenate([each.old.reshape(-1, columns) for each in updates]).astype(array.dtype)
    new = np.concatenate([each.new for each in updates]).astype(array.dtype)
    old, new = np.tile(old, (1, tile // columns)), np.tile(new, (1, 1, tile // columns))
    where = np.array(places, dtype=np.int64)
    bounds, _ = _bounds(states[0].numel(), block, len(new) * (2 + len(places)))
    arguments = (array, vectors.view(len(vectors), -1).numpy(), where, first, count, pointer, sources, old, new)
    threads.run(_combine_rows, (*arguments, tile, block), bounds)


def _flat(x: Tensor) -> Array:
    return x.contiguous().view(-1).numpy()
