"""The inner loop of every product with a sparse matrix, as vector code.

``gather(out, i, c, d, skip, k, bias, x, col, value, start, end, relu, slope, LANES, TWICE)`` computes, for the columns
c to c + LANES, and if ``TWICE`` for d to d + LANES as well,

    out[i] = act(skip[k] + bias + sum over start <= j < end of  value[j] * x[col[j]])

with all partial sums held in registers from the first to the last; ``act`` leaves what is not negative as it is and
maps the rest to 0 (``relu``) or multiplies it by ``slope`` (1 for none). Long rows are summed in pieces: see `pieces`.

The two vectors of a block may overlap: both then compute the same numbers for the shared columns, which is cheaper than
a masked or a scalar tail, or than going over the nonzeros once more. All is read before anything is written, so ``out``
may be ``skip``.

Neither loop order in plain numba reaches that: the sums go through memory at every nonzero, and the code runs at about
half the speed (docs/performance.md has the numbers). So the loop is emitted as LLVM vector instructions, which every
processor's code generator splits into what its registers hold.

``x`` may hold bfloat16 numbers, seen as uint16: they are widened to float32 as they are loaded.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from armagnn.kernels.cpu.pieces import emit_sum

WIDEST: Final = 64
"""Columns of a block: 64 floats are four AVX-512 registers, or sixteen of NEON."""


def blocks(width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cover ``width`` columns by blocks: return where they start and how wide they are, the last perhaps narrower.

    Example:
        >>> blocks(50), blocks(100)
        (((0,), (50,)), ((0, 64), (64, 36)))
    """
    starts = tuple(range(0, width, WIDEST))
    return starts, tuple(min(WIDEST, width - start) for start in starts)


_ARGUMENTS: Final = (
    "out", "i", "c", "d", "skip", "k", "bias", "x", "col", "value", "start", "end", "relu", "slope", "lanes", "twice",
)  # fmt: skip


@intrinsic(prefer_literal=True)
def gather(
    typingctx: Any, out: Any, i: Any, c: Any, d: Any, skip: Any, k: Any, bias: Any, x: Any, col: Any, value: Any,
    start: Any, end: Any, relu: Any, slope: Any, lanes: Any, twice: Any,
) -> Any:  # fmt: skip
    """Emit the loop for one row and one block of one or two vectors of ``lanes`` columns (literals): see above."""
    if not isinstance(lanes, types.IntegerLiteral) or not isinstance(twice, types.IntegerLiteral):
        return None
    return types.void(out, i, c, d, skip, k, bias, x, col, value, start, end, relu, slope, lanes, twice), _emit


def _emit(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
    kind = dict(zip(_ARGUMENTS, signature.args, strict=True))
    arg = dict(zip(_ARGUMENTS, args, strict=True))
    names = ("out", "skip", "bias", "x", "col", "value")
    array = {name: context.make_array(kind[name])(context, builder, arg[name]) for name in names}
    width = kind["lanes"].literal_value
    i64, i32 = ir.IntType(64), ir.IntType(32)
    element = context.get_data_type(kind["out"].dtype)
    size = context.get_abi_sizeof(element)
    vector = ir.VectorType(element, width)
    zero, undefined = ir.Constant(vector, [0.0] * width), ir.Constant(vector, ir.Undefined)
    packed = kind["x"].dtype == types.uint16  # bfloat16
    fma = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fma.v{width}f{8 * size}"
    )

    def index(number: Any) -> Any:  # offsets are 64 bits wide whatever the ids are
        return number if number.type.width == 64 else builder.sext(number, i64)

    def splat(number: Any) -> Any:
        first = builder.insert_element(undefined, number, ir.Constant(i32, 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(i32, width), [0] * width))

    columns = [index(arg[name]) for name in ("c", "d")[: 1 + kind["twice"].literal_value]]

    def places(name: str, row: Any) -> list[Any]:
        """Return the addresses of the vectors in a row, which may be part of a longer one."""
        down = builder.extract_value(array[name].strides, 0)
        start = cgutils.pointer_add(builder, array[name].data, builder.mul(index(row), down))
        return [builder.gep(start, [column]) for column in columns]

    def load(pointer: Any) -> Any:
        return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=size)

    def load_x(pointer: Any) -> Any:
        if not packed:
            return load(pointer)
        half = ir.VectorType(ir.IntType(16), width)
        wide = builder.zext(
            builder.load(builder.bitcast(pointer, half.as_pointer()), align=2), ir.VectorType(i32, width)
        )
        return builder.bitcast(builder.shl(wide, ir.Constant(wide.type, [16] * width)), vector)

    first, last = index(arg["start"]), index(arg["end"])
    initial = [
        builder.fadd(load(skip), load(builder.gep(array["bias"].data, [column])))
        for skip, column in zip(places("skip", arg["k"]), columns, strict=True)
    ]

    def add(j: Any, totals: list[Any]) -> list[Any]:
        neighbour = builder.load(builder.gep(array["col"].data, [j]))
        weight = splat(builder.load(builder.gep(array["value"].data, [j])))
        rows = places("x", neighbour)
        return [builder.call(fma, [weight, load_x(x), total]) for x, total in zip(rows, totals, strict=True)]

    results = emit_sum(builder, first, last, initial, add)
    slope = splat(arg["slope"])
    for result, target in zip(results, places("out", arg["i"]), strict=True):
        # ordered comparison: NaN is not below zero and stays; -inf times a zero slope would be NaN, hence `relu`
        below = builder.select(arg["relu"], zero, builder.fmul(result, slope))
        final = builder.select(builder.fcmp_ordered("<", result, zero), below, result)
        builder.store(final, builder.bitcast(target, vector.as_pointer()), align=size)
    return context.get_dummy_value()
