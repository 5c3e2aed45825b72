"""Share ranges of rows out over torch's number of threads.

Every row is computed by one thread in a fixed order, so the number of threads never changes a bit of the result.

A kernel has a `Chunk` as its first argument, and asks `begin` for its range:

    @compiled()
    def double(chunk, x):
        lo, hi = begin(chunk)
        for i in range(lo, hi):
            x[i] *= 2

`run` calls it once for all ranges, as chunk -1. Then `begin` lets a team of threads call the same machine code for the
chunks 0, 1, ..., and leaves an empty range to the caller. So a kernel is compiled once, not once more for threads; and
the loop that the team shares out is compiled once for all kernels.

The team is numba's on OpenMP where there is one. It must not be used after a fork (numba ends the process), and
some machines have none: there a few ordinary Python threads call the kernel, which releases the interpreter lock.
They are slower after a torch operation, whose idle workers spin for a while and hold a core back; not so for work of
many milliseconds, which `share_out` gives to them anyway.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from armagnn.kernels.cpu.compile import kept_on_disk

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_forked = False
_team: Any = None  # False where there is none


def _after_fork() -> None:
    global _pool, _pool_size, _forked
    _pool, _pool_size, _forked = None, 0, True  # the threads of a pool do not survive a fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Chunk(NamedTuple):
    """The numbers from ``bounds[number]`` to ``bounds[number + 1]``; and the address of what runs all chunks."""

    number: int
    team: int
    bounds: npt.NDArray[np.int64]


# ------------------------------------------------------------------------------------------------- in compiled code

_I64 = ir.IntType(64)
_ENTRY = ir.FunctionType(ir.VoidType(), [_I64, _I64])
_TEAM = ir.FunctionType(ir.VoidType(), [_I64, _I64, _I64])


@intrinsic
def begin(typingctx: Any, chunk: Any) -> Any:
    """Return the range of a kernel; for chunk -1 let the team run all chunks, and return an empty range."""
    return types.UniTuple(types.int64, 2)(chunk), _emit_begin


def _emit_begin(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    part, team, bounds = (builder.extract_value(args[0], number) for number in range(3))
    array = context.make_array(signature.args[0].types[2])(context, builder, bounds)
    zero, one = ir.Constant(_I64, 0), ir.Constant(_I64, 1)
    spawns = builder.icmp_signed("<", part, zero)
    with builder.if_then(spawns, likely=False):
        count = builder.sub(builder.extract_value(array.shape, 0), one)
        _emit_spawn(builder, team, count)
    first = builder.select(spawns, zero, part)
    last = builder.select(spawns, zero, builder.add(part, one))
    ends = [builder.load(builder.gep(array.data, [place])) for place in (first, last)]
    return context.make_tuple(builder, signature.return_type, ends)


def _emit_spawn(builder: ir.IRBuilder, team: Any, count: Any) -> None:
    """Emit a call of the team with the function that is being compiled, and its own arguments but for the first."""
    function = builder.function
    result, error, *given = function.args  # numba's calling convention: where to put the result, and an exception
    ok = ir.Constant(function.ftype.return_type, 0)
    record = ir.LiteralStructType([arg.type for arg in given] + [ok.type, error.type.pointee])
    size = len(given)

    def field(inside: ir.IRBuilder, pointer: Any, number: int) -> Any:
        return cgutils.gep_inbounds(inside, pointer, 0, number)

    entry = ir.Function(builder.module, _ENTRY, f"{function.name}.part")
    entry.linkage = "internal"
    inside = ir.IRBuilder(entry.append_basic_block("entry"))
    shared = inside.inttoptr(entry.args[0], record.as_pointer())
    own = [entry.args[1], *(inside.load(field(inside, shared, number)) for number in range(1, size))]
    places = [cgutils.alloca_once(inside, arg.type.pointee) for arg in (result, error)]
    status = inside.call(function, [*places, *own])
    with inside.if_then(inside.icmp_signed("!=", status, ok), likely=False):
        inside.store(status, field(inside, shared, size))
        inside.store(inside.load(places[1]), field(inside, shared, size + 1))
    inside.ret_void()

    place = cgutils.alloca_once(builder, record)
    for number, value in enumerate([*given, ok]):
        builder.store(value, field(builder, place, number))
    address = [builder.ptrtoint(pointer, _I64) for pointer in (entry, place)]
    builder.call(builder.inttoptr(team, _TEAM.as_pointer()), [*address, count])
    status = builder.load(field(builder, place, size))
    with builder.if_then(builder.icmp_signed("!=", status, ok), likely=False):  # an exception in one of the parts
        builder.store(builder.load(field(builder, place, size + 1)), error)
        builder.ret(status)


@intrinsic
def _call(typingctx: Any, entry: Any, shared: Any, part: Any) -> Any:
    """Call the function at the address ``entry``."""

    def emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        builder.call(builder.inttoptr(args[0], _ENTRY.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), emit


def _all_parts(entry: int, shared: int, count: int) -> None:
    for part in prange(count):
        _call(entry, shared, part)


# ----------------------------------------------------------------------------------------------------------- in Python


def _has_team() -> bool:
    """Return whether numba's OpenMP layer can be used here; found out once, at the first large product."""
    global _team
    if _team is None:
        try:
            if numba.config.THREADING_LAYER == "default":  # a layer that the user chose stays
                numba.config.THREADING_LAYER = "omp"
            made = kept_on_disk(numba.cfunc, "void(int64, int64, int64)", nogil=True, parallel=True)(_all_parts)
            _team = made if numba.threading_layer() == "omp" else False
        except (ValueError, ImportError):  # no such layer in this installation
            _team = False
    return _team is not False and not _forked


def _get_pool(size: int) -> ThreadPoolExecutor:
    global _pool, _pool_size
    if _pool is None or _pool_size < size:
        _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="armagnn"), size
    return _pool


def num_chunks(work: int, minimum: int) -> int:
    """Return into how many chunks ``work`` units are cut: one a thread, each of at least ``minimum`` units."""
    return max(1, min(torch.get_num_threads(), work // minimum))


def row_bounds(rowptr: npt.NDArray[Any], width: int, minimum: int = 1 << 18) -> list[int]:
    """Cut the rows of a matrix where the work, one unit a nonzero and one a row, is shared out evenly.

    Each unit is work on ``width`` numbers, and a chunk has ``minimum`` of them at least.

    Example:
        >>> row_bounds(np.array([0, 2, 4, 5]), 10)
        [0, 3]
    """
    rows, nonzeros = rowptr.size - 1, int(rowptr[-1])
    chunks = num_chunks((nonzeros + 2 * rows) * width, minimum)  # a row is begun and written besides
    if chunks == 1:
        return [0, rows]
    total = nonzeros + rows
    cuts, low = [0], 0
    for target in range(1, chunks):
        goal, high = total * target // chunks, rows
        while low < high:  # the first row whose work ends at or behind the goal
            middle = (low + high) // 2
            if int(rowptr[middle]) + middle < goal:
                low = middle + 1
            else:
                high = middle
        cuts.append(low)
    return [*cuts, rows]


@functools.lru_cache(1024)
def _only(*bounds: int) -> Chunk:
    """Return the one chunk of a call; to make it takes as long as a small kernel."""
    return Chunk(0, 0, np.array(bounds, dtype=np.int64))


def run(kernel: Callable[..., None], arguments: tuple[Any, ...], bounds: list[int]) -> None:
    """Call ``kernel`` for every range between neighbours in ``bounds``, side by side."""
    if len(bounds) <= 2:
        kernel(_only(*bounds), *arguments)
    elif _has_team():
        before = numba.get_num_threads()  # the caller's own numba code keeps its setting
        numba.set_num_threads(min(len(bounds) - 1, numba.config.NUMBA_NUM_THREADS))
        try:
            kernel(Chunk(-1, _team.address, np.array(bounds, dtype=np.int64)), *arguments)
        finally:
            numba.set_num_threads(before)
    else:
        share_out(kernel, arguments, bounds)


def share_out(kernel: Callable[..., None], arguments: tuple[Any, ...], bounds: list[int]) -> None:
    """Call ``kernel`` as `run` does, on ordinary threads: each takes the next range when it is done with one.

    A thread whose core somebody else uses takes fewer of them, and the others do not wait for it.
    """
    ends, parts = np.array(bounds, dtype=np.int64), deque(range(len(bounds) - 1))

    def drain() -> None:
        while True:
            try:
                part = parts.popleft()
            except IndexError:
                return
            kernel(Chunk(part, 0, ends), *arguments)

    helpers = min(len(parts), torch.get_num_threads()) - 1
    futures = [_get_pool(helpers).submit(drain) for _ in range(helpers)]
    try:
        drain()
    finally:
        wait(futures)  # nobody writes to the arrays of a call that has ended, by an error neither
    for future in futures:
        future.result()
