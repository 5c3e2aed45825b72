r"""Dense products of small matrices as vector code, for kernels that hold what they multiply in the cache.

``multiply(at, out, start, a, b, how, gate, slope)`` computes z = start + a b, and writes to ``out``

=======================  =================================================================
``how`` = `PLAIN`        z
``how`` = `ACTIVATED`    z where it is not negative, ``slope * z`` elsewhere: an activation
``how`` = `GATED`        z where ``gate`` is positive, ``slope * z`` elsewhere: its gradient
``how`` = `ELU`          z where it is not negative, ``slope * (exp(z) - 1)`` elsewhere
``how`` = `ELU_GATED`    z where ``gate`` is positive, ``(gate + slope) * z`` elsewhere
=======================  =================================================================

with 0 for ``slope * z`` if the slope is 0. ``a`` may be transposed or a part of another matrix; the numbers of a row of
the others lie side by side. A ``start`` of one row is that of all rows. Long sums are taken in pieces: see `gather`.

A tile of the output is held in registers over the whole sum, as a BLAS does. But a BLAS also copies its factors and
starts threads of its own, which pays for larger matrices only, and must not happen within a thread of ours.

Products of many such matrices, :math:`H_k W_k` and :math:`X_k^\top G_k`, are one call for all k, which lie side by side
in every row, as the layers of many trials have them. torch's batched product copies such matrices, and starts over for
every one. Each number is summed by one thread in a fixed order: the same bits for every thread count. And a step of
Adam is one pass.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import torch
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, Routine, compiled, inner, rows, to_numpy
from armagnn.kernels.cpu.gather import emit_sum
from armagnn.kernels.cpu.threads import Chunk, begin

PLAIN: Final = 0
ACTIVATED: Final = 1
GATED: Final = 2
ELU: Final = 3
ELU_GATED: Final = 4

VECTOR: Final = 64
"""Bytes of a vector: one register of AVX-512, two of AVX2, four of NEON."""

_MANY: Final = bool(binding.get_host_cpu_features().get("avx512f"))  # such processors have 32 vector registers
WIDE: Final = 2 * VECTOR if _MANY else VECTOR
"""Bytes of a row of a tile."""

ROWS: Final = 8 if _MANY else 6
"""Rows of a tile: as many as leave a few registers for the factors."""


@inner()
def matrix(rows: int, columns: int, like: Any) -> Any:
    """Return room for a matrix. It begins where a vector of the processor does: others take twice as long to load."""
    raw = np.empty(rows * columns + VECTOR // like.itemsize, like.dtype)
    first = (-raw.ctypes.data % VECTOR) // like.itemsize
    return raw[first : first + rows * columns].reshape((rows, columns))


_ARGUMENTS: Final = ("out", "start", "a", "b", "how", "gate", "slope", "r", "c", "rows", "width", "size")


def _multiply(out: Any, start: Any, a: Any, b: Any, how: int, gate: Any, slope: Any) -> None:
    rows, width = out.shape
    wide, single, c = WIDE // out.itemsize, VECTOR // out.itemsize, 0
    while c + wide <= width:  # the columns of b that a tile needs stay in the first-level cache
        for r in range(0, rows, ROWS):
            _tile(out, start, a, b, how, gate, slope, r, c, min(ROWS, rows - r), 0, WIDE)
        c += wide
    while c < width:
        left = min(single, width - c)
        for r in range(0, rows, ROWS):
            _tile(out, start, a, b, how, gate, slope, r, c, min(ROWS, rows - r), left, VECTOR)
        c += left


MULTIPLY: Final = Routine(
    _multiply, lambda real: [rows(real), rows(real), rows(real), rows(real), types.int64, rows(real), real]
)


@intrinsic
def multiply(typingctx: Any, at: Any, out: Any, start: Any, a: Any, b: Any, how: Any, gate: Any, slope: Any) -> Any:
    """Write a product, finished as it leaves the registers: see the module's text; at: ``MULTIPLY.address`` of out."""
    return MULTIPLY.called(out.dtype)


@intrinsic(prefer_literal=True)
def _tile(
    typingctx: Any, out: Any, start: Any, a: Any, b: Any, how: Any, gate: Any, slope: Any, r: Any, c: Any, rows: Any,
    width: Any, size: Any,
) -> Any:  # fmt: skip
    """Emit the tile at (r, c): at most ROWS rows, and ``size`` bytes (a literal) of columns, or the first ``width``."""
    if not isinstance(size, types.IntegerLiteral):
        return None
    return types.void(out, start, a, b, how, gate, slope, r, c, rows, width, size), _emit


class _Tile:
    """What writes the code: vectors of one type, loaded and stored whole or, at the edge of a matrix, in part."""

    def __init__(self, context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> None:
        self.builder, self.i64 = builder, ir.IntType(64)
        self.kind = dict(zip(_ARGUMENTS, signature.args, strict=True))
        self.arg = dict(zip(_ARGUMENTS, args, strict=True))
        names = ("out", "start", "a", "b", "gate")
        self.array = {k: context.make_array(self.kind[k])(context, builder, self.arg[k]) for k in names}
        self.element = context.get_data_type(self.kind["out"].dtype)
        self.bytes = context.get_abi_sizeof(self.element)
        self.lanes = self.kind["size"].literal_value // self.bytes
        self.vector = ir.VectorType(self.element, self.lanes)
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)
        name = f"llvm.fma.v{self.lanes}f{8 * self.bytes}"
        self.fma = self.function(name, self.vector, self.vector, self.vector, self.vector)
        self.mask = None
        if not isinstance(self.kind["width"], types.IntegerLiteral):
            places = ir.Constant(ir.VectorType(self.i64, self.lanes), list(range(self.lanes)))
            self.mask = builder.icmp_signed("<", places, self.splat(self.number("width")))
        last = builder.sub(self.number("rows"), self.constant(1))
        rows = [builder.select(builder.icmp_signed("<", k, last), k, last) for k in map(self.constant, range(ROWS))]
        # Rows that are not there are the last one again. It is then summed and written more than once, to the same
        # bits: cheaper than code for every number of rows.
        self.rows = [builder.add(self.number("r"), k) for k in rows]

    def constant(self, value: int) -> Any:
        return ir.Constant(self.i64, value)

    def number(self, name: str) -> Any:
        if isinstance(self.kind[name], types.IntegerLiteral):
            return self.constant(self.kind[name].literal_value)
        return self.arg[name]

    def function(self, name: str, result: Any, *arguments: Any) -> Any:
        return cgutils.get_or_insert_function(self.builder.module, ir.FunctionType(result, arguments), name)

    def splat(self, value: Any) -> Any:
        undefined = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(first, undefined, places)

    def place(self, name: str, row: Any, column: Any) -> Any:
        """Return the address of an entry; of a matrix of one row, in that row."""
        array, builder = self.array[name], self.builder
        down, along = cgutils.unpack_tuple(builder, array.strides, 2)
        if name == "start":
            one = builder.icmp_signed("==", builder.extract_value(array.shape, 0), self.constant(1))
            down = builder.select(one, self.constant(0), down)
        if name != "a":
            along = self.constant(self.bytes)
        offset = builder.add(builder.mul(row, down), builder.mul(column, along))
        return cgutils.pointer_add(builder, array.data, offset)

    def load(self, place: Any) -> Any:
        place = self.builder.bitcast(place, self.vector.as_pointer())
        if self.mask is None:
            return self.builder.load(place, align=self.bytes)
        name = f"llvm.masked.load.v{self.lanes}f{8 * self.bytes}.p0"
        alignment = ir.Constant(ir.IntType(32), self.bytes)
        loading = self.function(name, self.vector, place.type, alignment.type, self.mask.type, self.vector)
        return self.builder.call(loading, [place, alignment, self.mask, self.zero])

    def store(self, value: Any, place: Any) -> None:
        place = self.builder.bitcast(place, self.vector.as_pointer())
        if self.mask is None:
            self.builder.store(value, place, align=self.bytes)
            return
        name = f"llvm.masked.store.v{self.lanes}f{8 * self.bytes}.p0"
        alignment = ir.Constant(ir.IntType(32), self.bytes)
        storing = self.function(name, ir.VoidType(), self.vector, place.type, alignment.type, self.mask.type)
        self.builder.call(storing, [value, place, alignment, self.mask])

    def sums(self) -> list[Any]:
        """Return ``start + a b`` for all rows of the tile."""
        builder, column, origin = self.builder, self.number("c"), self.constant(0)
        depth = builder.extract_value(self.array["a"].shape, 1)
        initial = [self.load(self.place("start", row, column)) for row in self.rows]

        def add(p: Any, totals: list[Any]) -> list[Any]:
            factor = self.load(self.place("b", p, column))
            return [
                builder.call(self.fma, [self.splat(builder.load(self.place("a", row, p))), factor, total])
                for row, total in zip(self.rows, totals, strict=True)
            ]

        return emit_sum(builder, origin, depth, initial, add)

    def finished(self, way: int, row: Any, z: Any) -> Any:
        """Return z as it is written."""
        if way == PLAIN:
            return z
        builder, slope = self.builder, self.arg["slope"]
        if way in (ACTIVATED, ELU):
            below = builder.fcmp_ordered("<", z, self.zero)  # NaN is not below zero and stays
        else:
            gate = self.load(self.place("gate", row, self.number("c")))
            compare = builder.fcmp_unordered if way == ELU_GATED else builder.fcmp_ordered  # there NaN passes on
            below = compare("<=", gate, self.zero)
        if way == ELU:
            less = builder.fmul(self.expm1(z), self.splat(slope))
        elif way == ELU_GATED:
            less = builder.fmul(builder.fadd(gate, self.splat(slope)), z)
        else:
            flat = builder.fcmp_ordered("==", slope, ir.Constant(self.element, 0.0))
            less = builder.select(flat, self.zero, builder.fmul(z, self.splat(slope)))  # -inf times 0 would be NaN
        return builder.select(below, less, z)

    def expm1(self, z: Any) -> Any:
        """Return exp(z) - 1 of numbers that are not positive: 2^n (exp(r) - 1) + (2^n - 1) with z = n log 2 + r.

        Below -80 it is -1 in either precision. A number so large that it has no fraction is added and taken away again
        to round to an integer, which then stands in its last bits; the series ends below the rounding errors.
        """
        builder, single = self.builder, self.bytes == 4
        fraction, bias, terms = (23, 127, 7) if single else (52, 1023, 13)
        integer = ir.VectorType(ir.IntType(8 * self.bytes), self.lanes)

        def all_lanes(value: float) -> Any:
            value = float(np.float32(value)) if single else value
            return ir.Constant(self.vector, [value] * self.lanes)

        def all_integers(value: int) -> Any:
            return ir.Constant(integer, [value] * self.lanes)

        def fma(a: Any, b: Any, c: Any) -> Any:
            return builder.call(self.fma, [a, b, c])

        low = all_lanes(-80.0)
        z = builder.select(builder.fcmp_ordered("<", z, low), low, z)
        large = all_lanes(1.5 * 2.0**fraction)
        shifted = fma(z, all_lanes(1 / math.log(2)), large)
        n = builder.fsub(shifted, large)
        # log 2 in two parts, of which the first is short enough for its product with n to be exact
        first = math.floor(math.log(2) * 2**12) / 2**12 if single else math.floor(math.log(2) * 2**40) / 2**40
        r = fma(n, all_lanes(first - math.log(2)), fma(n, all_lanes(-first), z))
        total = all_lanes(1 / math.factorial(terms))
        for k in range(terms - 1, 0, -1):
            total = fma(total, r, all_lanes(1 / math.factorial(k)))
        bits = builder.shl(builder.bitcast(shifted, integer), all_integers(fraction))
        power = builder.bitcast(builder.add(bits, all_integers(bias << fraction)), self.vector)
        return fma(power, builder.fmul(total, r), builder.fsub(power, all_lanes(1.0)))


def _emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    tile = _Tile(context, builder, signature, args)
    sums = tile.sums()
    ways = [builder.append_basic_block(name) for name in ("plain", "activated", "gated", "elu", "elu_gated")]
    end = builder.append_basic_block("end")
    choice = builder.switch(tile.number("how"), ways[PLAIN])
    for way, block in enumerate(ways):
        choice.add_case(tile.constant(way), block)
        builder.position_at_end(block)
        for row, z in zip(tile.rows, sums, strict=True):
            tile.store(tile.finished(way, row, z), tile.place("out", row, tile.number("c")))
        builder.branch(end)
    builder.position_at_end(end)
    return context.get_dummy_value()


# -------------------------------------------------------------------------------------------------------- many products

LARGEST: Final = 1 << 12
"""Numbers of a W, or of a sum X^T G, above which a BLAS is as fast."""

FEWEST: Final = 4
"""Matrices below which it is, too."""

BLOCK: Final = 256
"""Rows that are multiplied by all W before the next ones: what lies side by side is read at about the same time."""


@compiled()
def _stack_rows(chunk: Chunk, at: int, h: Array, w: Array, nothing: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    for first in range(lo, hi, BLOCK):
        last = min(first + BLOCK, hi)
        for k in range(w.shape[0]):
            multiply(at, out[first:last, k], nothing, h[first:last, k], w[k], PLAIN, nothing, nothing[0, 0])


@compiled()
def _outer_stacks(chunk: Chunk, at: int, x: Array, g: Array, nothing: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    for k in range(lo, hi):
        multiply(at, out[k], nothing, x[:, k].T, g[:, k], PLAIN, nothing, nothing[0, 0])


def _pays(a: Tensor, b: Tensor, size: int) -> bool:
    """Return whether the tiles should multiply these, (M, K, F) with others: by W, or to sums, of so many numbers."""
    kind = a.dtype == b.dtype and a.dtype in (torch.float32, torch.float64)
    return kind and size <= LARGEST and a.shape[1] >= FEWEST


def _run(kernel: Any, a: Tensor, b: Tensor, out: Tensor, parts: int, products: int) -> Tensor:
    if out.numel():
        target = out.numpy()
        nothing = np.zeros((1, out.shape[2]), target.dtype)
        chunks = max(1, min(parts, threads.num_chunks(products, MIN_PRODUCTS)))
        arrays = MULTIPLY.address(target.dtype), to_numpy(a), to_numpy(b), nothing, target
        threads.run(kernel, arrays, [parts * k // chunks for k in range(chunks + 1)])
    return out


def stack_matmul(h: Tensor, w: Tensor) -> Tensor:
    """Return ``h[:, k] @ w[k]`` for every k, shape (M, K, G), of h (M, K, F) and w (K, F, G)."""
    if h.shape[1:] != w.shape[:2] or not _pays(h, w, w.shape[1] * w.shape[2]):  # the other refuses what does not fit
        return reference.stack_matmul(h, w)
    out = h.new_empty(h.shape[0], h.shape[1], w.shape[2])
    return _run(_stack_rows, h, w, out, h.shape[0], h.numel() * w.shape[2])


def outer(x: Tensor, g: Tensor) -> Tensor:
    """Return ``x[:, k]^T g[:, k]`` for every k, shape (K, F, G), of x (M, K, F) and g (M, K, G)."""
    if x.shape[:2] != g.shape[:2] or not _pays(x, g, x.shape[2] * g.shape[2]):
        return reference.outer(x, g)
    out = x.new_empty(x.shape[1], x.shape[2], g.shape[2])
    return _run(_outer_stacks, x, g, out, x.shape[1], x.numel() * g.shape[2])


def stack_mean(h: Tensor) -> Tensor:
    """Return the mean over the stacks, in whole rows: torch's own reduction over an inner axis is not vectorised."""
    first, *others = h.unbind(1)
    if not others:
        return first.clone()
    out = first + others[0]
    for other in others[1:]:
        out += other
    return out.mul_(1.0 / h.shape[1])


# ---------------------------------------------------------------------------------------------------------------- Adam


@compiled()
def _adam_trials(
    chunk: Chunk, param: Array, grad: Array, mean: Array, square: Array, size: Array, decay: Array, root: Any, beta1:
    Any, beta2: Any, epsilon: Any, one: Any, least: Any,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
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


def adam(
    param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, lr: Tensor, decay: Tensor, step: Tensor, axis: int = 0
) -> None:
    """Take one step of Adam in place, in one pass, with a rate lr and a weight decay (R) for every trial on an axis."""
    kind: Any = to_numpy(param).dtype.type
    count, rows = float(step), math.prod(param.shape[: axis + 1])
    arrays = tuple(tensor.view(rows, -1).numpy() for tensor in (param, grad.contiguous(), mean, square))
    fixed = (
        (lr.numpy() / (1 - reference.BETA1**count)).astype(kind), decay.numpy().astype(kind),
        kind((1 - reference.BETA2**count) ** 0.5), kind(reference.BETA1), kind(reference.BETA2),
        kind(reference.EPSILON), kind(1), kind(np.finfo(kind).tiny / np.finfo(kind).eps),
    )  # fmt: skip
    chunks = min(rows, threads.num_chunks(param.numel(), MIN_PRODUCTS // 8))
    threads.run(_adam_trials, (*arrays, *fixed), [rows * k // chunks for k in range(chunks + 1)])
