"""The inner loop of every product with a sparse matrix, as vector code.

``gather(out, i, c, width, skip, k, bias, x, col, value, start, end, relu, slope, ahead)`` computes, for the ``width``
columns from c on, at most `WIDEST`,

    out[i] = act(skip[k] + bias + sum over start <= j < end of  value[j] * x[col[j]])

with all partial sums held in registers from the first to the last; ``act`` leaves what is not negative as it is and
maps the rest to 0 (``relu``) or multiplies it by ``slope`` (1 for none).

Long rows are summed in pieces of `LONG` terms, whose sums are added up in float64 (`emit_sum`). Added one by one in
float32, a million numbers lose all but two or three digits.

A width that is no power of 2 is two vectors that overlap: both compute the same numbers for the shared columns, which
is cheaper than a masked or a scalar tail, or than going over the nonzeros once more. All is read before anything is
written, so ``out`` may be ``skip``.

Neither loop order in plain numba reaches that: the sums go through memory at every nonzero, and the code runs at about
half the speed. So the loop is emitted as LLVM vector instructions, which every processor's code generator splits into
what its registers hold.

``x`` may hold bfloat16 numbers, seen as uint16: they are widened to float32 as they are loaded.

With a number for ``ahead`` the processor is asked, at every nonzero, to fetch the row of x of the ``ahead``-th next
one, of this row or a later one; then there may be twice `WIDEST` columns. With None there is no such code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from armagnn.kernels.reference import LONG

WIDEST: Final = 64
"""Columns of a block: 64 floats are four AVX-512 registers, or sixteen of NEON."""

LINE: Final = 64
"""Bytes that a processor fetches from memory at once."""


_ARGUMENTS: Final = (
    "out", "i", "c", "width", "skip", "k", "bias", "x", "col", "value", "start", "end", "relu", "slope", "ahead",
)  # fmt: skip


@intrinsic
def gather(
    typingctx: Any, out: Any, i: Any, c: Any, width: Any, skip: Any, k: Any, bias: Any, x: Any, col: Any, value: Any,
    start: Any, end: Any, relu: Any, slope: Any, ahead: Any,
) -> Any:  # fmt: skip
    """Emit the loop for a part of a row: see above."""
    return types.void(out, i, c, width, skip, k, bias, x, col, value, start, end, relu, slope, ahead), _emit


def _emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    """Emit a loop for each kind of width, the wide ones first, and the choice between them."""
    row = _Row(context, builder, signature, args)
    i64 = ir.IntType(64)
    last, done = builder.add(row.columns, row.width), builder.append_basic_block("finished")
    kinds = [(lanes, twice) for lanes in (64, 32, 16, 8, 4, 2, 1) for twice in (True, False)]
    for lanes, twice in kinds[:-2] if row.ahead is not None else kinds[1:-2]:
        fits = builder.icmp_signed(">" if twice else "==", row.width, ir.Constant(i64, lanes))
        with builder.if_then(fits):
            second = [builder.sub(last, ir.Constant(i64, lanes))] if twice else []
            row.emit(lanes, [row.columns, *second])
            builder.branch(done)
    row.emit(1, [row.columns])
    builder.branch(done)
    builder.position_at_end(done)
    return context.get_dummy_value()


class _Row:
    """What emits the loops: the arguments, and the vectors at a row of one of the arrays."""

    def __init__(self, context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> None:
        self.builder, self.i64, self.i32 = builder, ir.IntType(64), ir.IntType(32)
        self.kind = dict(zip(_ARGUMENTS, signature.args, strict=True))
        self.arg = dict(zip(_ARGUMENTS, args, strict=True))
        names = ("out", "skip", "bias", "x", "col", "value")
        self.array = {name: context.make_array(self.kind[name])(context, builder, self.arg[name]) for name in names}
        self.element = context.get_data_type(self.kind["out"].dtype)
        self.size = context.get_abi_sizeof(self.element)
        self.packed = self.kind["x"].dtype == types.uint16  # bfloat16
        self.columns, self.width = self.index(self.arg["c"]), self.index(self.arg["width"])
        self.ahead = None if self.kind["ahead"] == types.none else self.index(self.arg["ahead"])

    def index(self, number: Any) -> Any:
        """Return an integer of 64 bits: offsets are as wide whatever the ids are."""
        return number if number.type.width == 64 else self.builder.sext(number, self.i64)

    def places(self, name: str, row: Any, columns: list[Any]) -> list[Any]:
        """Return the addresses of the vectors in a row, which may be part of a longer one."""
        builder, array = self.builder, self.array[name]
        down = builder.extract_value(array.strides, 0)
        start = cgutils.pointer_add(builder, array.data, builder.mul(self.index(row), down))
        return [builder.gep(start, [column]) for column in columns]

    def entry(self, name: str, j: Any) -> Any:
        return self.builder.load(self.builder.gep(self.array[name].data, [j]))

    def emit(self, lanes: int, columns: list[Any]) -> None:
        """Emit the loop for one vector or two of so many columns, which begin at these."""
        builder, arg = self.builder, self.arg
        vector = ir.VectorType(self.element, lanes)
        zero, undefined = ir.Constant(vector, [0.0] * lanes), ir.Constant(vector, ir.Undefined)
        fma = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{lanes}f{8 * self.size}"
        )

        def splat(number: Any) -> Any:
            first = builder.insert_element(undefined, number, ir.Constant(self.i32, 0))
            return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(self.i32, lanes), [0] * lanes))

        def load(pointer: Any) -> Any:
            return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=self.size)

        def load_x(pointer: Any) -> Any:
            if not self.packed:
                return load(pointer)
            half, wide = ir.VectorType(ir.IntType(16), lanes), ir.VectorType(self.i32, lanes)
            bits = builder.zext(builder.load(builder.bitcast(pointer, half.as_pointer()), align=2), wide)
            return builder.bitcast(builder.shl(bits, ir.Constant(wide, [16] * lanes)), vector)

        def add(j: Any, totals: list[Any]) -> list[Any]:
            if self.ahead is not None:
                self.fetch(j, lanes, columns)
            neighbour, weight = self.entry("col", j), splat(self.entry("value", j))
            rows = self.places("x", neighbour, columns)
            return [builder.call(fma, [weight, load_x(x), total]) for x, total in zip(rows, totals, strict=True)]

        first, last = self.index(arg["start"]), self.index(arg["end"])
        biases = [builder.gep(self.array["bias"].data, [column]) for column in columns]
        initial = [
            builder.fadd(load(skip), load(bias))
            for skip, bias in zip(self.places("skip", arg["k"], columns), biases, strict=True)
        ]
        results, slope = emit_sum(builder, first, last, initial, add), splat(arg["slope"])
        for result, target in zip(results, self.places("out", arg["i"], columns), strict=True):
            # ordered comparison: NaN is not below zero and stays; -inf times a zero slope would be NaN, hence `relu`
            below = builder.select(arg["relu"], zero, builder.fmul(result, slope))
            final = builder.select(builder.fcmp_ordered("<", result, zero), below, result)
            builder.store(final, builder.bitcast(target, vector.as_pointer()), align=self.size)

    def fetch(self, j: Any, lanes: int, columns: list[Any]) -> None:
        """Emit the prefetching of what a later nonzero needs; behind the last one, of what this one needs."""
        builder, byte = self.builder, ir.IntType(8).as_pointer()
        arguments = [byte, self.i32, self.i32, self.i32]
        prefetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), arguments), "llvm.prefetch.p0"
        )
        # To read, into the second-level cache, data: a core waits for many more lines there than in its first level.
        how = [ir.Constant(self.i32, number) for number in (0, 2, 1)]
        later = builder.add(j, self.ahead)
        nonzeros = builder.extract_value(self.array["col"].shape, 0)
        later = builder.select(builder.icmp_signed("<", later, nonzeros), later, j)
        rows = self.places("x", self.entry("col", later), columns)
        first, *second = (builder.bitcast(row, byte) for row in rows)
        length = lanes * (2 if self.packed else self.size)
        # The second vector ends where the row does: its lines are counted from there, so that none is left out.
        lines = [(first, at) for at in range(0, length, LINE)]
        lines += [(row, at) for row in second for at in range(length - 1, -1, -LINE)]
        for row, at in lines:
            builder.call(prefetch, [builder.gep(row, [ir.Constant(self.i64, at)]), *how])


# ------------------------------------------------------------------------------------------------------------ long sums

Add = Callable[[Any, list[Any]], list[Any]]

_I64 = ir.IntType(64)


def emit_sum(builder: ir.IRBuilder, first: Any, last: Any, initial: list[Any], add: Add) -> list[Any]:
    """Emit ``for j in range(first, last): totals = add(j, totals)``, from ``initial``; return the totals.

    Args:
        builder: where to emit.
        first: a 64-bit integer.
        last: another.
        initial: vectors of one type.
        add: emits a step without branches.
    """
    short, whole, long, done = (builder.append_basic_block(name) for name in ("short", "whole", "long", "done"))
    length = ir.Constant(_I64, LONG)
    branch = builder.cbranch(builder.icmp_signed(">", builder.sub(last, first), length), long, short)
    branch.set_weights([1, 1000])  # the registers go to short sums

    builder.position_at_end(short)
    builder.cbranch(builder.icmp_signed("<", first, last), whole, done)
    builder.position_at_end(whole)
    summed = _emit_loop(builder, first, last, initial, add)
    summed_in = builder.basic_block
    builder.branch(done)

    builder.position_at_end(long)
    joined = _emit_pieces(builder, first, last, initial, add)
    joined_in = builder.basic_block
    builder.branch(done)

    builder.position_at_end(done)
    results = [builder.phi(total.type) for total in initial]  # all of them stand before anything else in their block
    for result, *incoming in zip(results, initial, summed, joined, strict=True):
        for value, block in zip(incoming, (short, summed_in, joined_in), strict=True):
            result.add_incoming(value, block)
    return results


def _emit_loop(builder: ir.IRBuilder, first: Any, last: Any, initial: list[Any], add: Add) -> list[Any]:
    """Emit the sum of one term or more."""
    before, loop, end = builder.basic_block, builder.append_basic_block("terms"), builder.append_basic_block("end")
    builder.branch(loop)
    builder.position_at_end(loop)
    j, totals = builder.phi(_I64), [builder.phi(total.type) for total in initial]
    added = add(j, list(totals))
    following = builder.add(j, ir.Constant(_I64, 1))
    for phi, start, then in ((j, first, following), *zip(totals, initial, added, strict=True)):
        phi.add_incoming(start, before)
        phi.add_incoming(then, loop)
    builder.cbranch(builder.icmp_signed("<", following, last), loop, end)
    builder.position_at_end(end)
    return added


def _emit_pieces(builder: ir.IRBuilder, first: Any, last: Any, initial: list[Any], add: Add) -> list[Any]:
    """Emit the sum of more than `LONG` terms; ``initial`` goes to the first piece."""
    vector = initial[0].type
    exact = ir.VectorType(ir.DoubleType(), vector.count)
    single = vector.element != ir.DoubleType()
    zero, none = ir.Constant(vector, [0.0] * vector.count), ir.Constant(exact, [0.0] * vector.count)
    before, piece, done = builder.basic_block, builder.append_basic_block("piece"), builder.append_basic_block("joined")
    builder.branch(piece)

    builder.position_at_end(piece)
    begin, heads = builder.phi(_I64), [builder.phi(vector) for _ in initial]
    sums = [builder.phi(exact) for _ in initial]
    stop = builder.add(begin, ir.Constant(_I64, LONG))
    stop = builder.select(builder.icmp_signed("<", stop, last), stop, last)
    added = _emit_loop(builder, begin, stop, heads, add)
    widened = [builder.fpext(total, exact) for total in added] if single else added
    totals = [builder.fadd(so_far, total) for so_far, total in zip(sums, widened, strict=True)]
    for phi, start, then in (
        (begin, first, stop),
        *((head, total, zero) for head, total in zip(heads, initial, strict=True)),
        *((so_far, none, total) for so_far, total in zip(sums, totals, strict=True)),
    ):
        phi.add_incoming(start, before)
        phi.add_incoming(then, builder.basic_block)
    builder.cbranch(builder.icmp_signed("<", stop, last), piece, done)

    builder.position_at_end(done)
    return [builder.fptrunc(total, vector) if single else total for total in totals]
