"""The inner loop of every product with a sparse matrix, as vector code.

``gather(out, i, c, x, col, value, start, end, LANES)`` computes

    out[i, c : c + LANES] = sum over start <= j < end of  value[j] * x[col[j], c : c + LANES]

with all ``LANES`` partial sums held in registers. Neither loop order in plain numba reaches that: the sums go through
memory at every nonzero, and the code runs at about half the speed (docs/performance.md has the numbers). So the loop
is emitted as LLVM vector instructions, which every processor's code generator splits into what its registers hold.

``x`` may hold bfloat16 numbers, seen as uint16: they are widened to float32 as they are loaded.
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTHS: Final = (64, 32, 16, 8, 4, 2, 1)
"""The block widths that are compiled. 64 floats are four AVX-512 registers, or sixteen of NEON."""


def blocks(width: int) -> tuple[list[int], list[int]]:
    """Cover ``width`` columns by blocks: return where they start and how wide they are.

    The last block may overlap the one before it: both then compute the same numbers for the shared columns, which is
    cheaper than a masked or a scalar tail.

    Example:
        >>> blocks(50)
        ([0, 18], [32, 32])
    """
    widest = next(w for w in WIDTHS if w <= width)
    starts = list(range(0, width - widest + 1, widest))
    widths = [widest] * len(starts)
    rest = width - widest * len(starts)
    if rest:
        tail = min(w for w in WIDTHS if w >= rest)
        starts.append(width - tail)
        widths.append(tail)
    return starts, widths


@intrinsic(prefer_literal=True)
def gather(
    typingctx: Any, out: Any, i: Any, c: Any, x: Any, col: Any, value: Any, start: Any, end: Any, lanes: Any
) -> Any:
    """Emit the loop for one row and one block of ``lanes`` columns (a literal); see the module's text."""
    if not isinstance(lanes, types.IntegerLiteral):
        return None
    signature = types.void(out, i, c, x, col, value, start, end, lanes)
    width = lanes.literal_value

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> Any:
        names = ("out", "i", "c", "x", "col", "value", "start", "end", "lanes")
        kind = dict(zip(names, sig.args, strict=True))
        arg = dict(zip(names, args, strict=True))
        array = {
            name: context.make_array(kind[name])(context, builder, arg[name]) for name in ("out", "x", "col", "value")
        }
        i64, i32 = ir.IntType(64), ir.IntType(32)
        element = context.get_data_type(kind["out"].dtype)
        vector = ir.VectorType(element, width)
        zero = ir.Constant(vector, [0.0] * width)
        undefined = ir.Constant(vector, ir.Undefined)
        packed = kind["x"].dtype == types.uint16
        fma = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(vector, [vector] * 3),
            f"llvm.fma.v{width}f{64 if isinstance(element, ir.DoubleType) else 32}",
        )

        def index(name: str) -> Any:
            value = arg[name]
            return value if value.type.width == 64 else builder.sext(value, i64)

        def load(pointer: Any) -> Any:
            stored = ir.VectorType(ir.IntType(16), width) if packed else vector
            size = 2 if packed else context.get_abi_sizeof(element)
            word = builder.load(builder.bitcast(pointer, stored.as_pointer()), align=size)
            if not packed:
                return word
            wide = builder.zext(word, ir.VectorType(i32, width))
            return builder.bitcast(builder.shl(wide, ir.Constant(wide.type, [16] * width)), vector)

        column, first, last = index("c"), index("start"), index("end")
        stride = builder.extract_value(array["x"].shape, 1)
        before = builder.basic_block
        loop = builder.append_basic_block("nonzeros")
        done = builder.append_basic_block("store")
        builder.cbranch(builder.icmp_signed("<", first, last), loop, done)

        builder.position_at_end(loop)
        j = builder.phi(i64)
        total = builder.phi(vector)
        j.add_incoming(first, before)
        total.add_incoming(zero, before)
        neighbour = builder.load(builder.gep(array["col"].data, [j]))
        if neighbour.type.width < 64:  # offsets are 64 bits wide whatever the ids are
            neighbour = builder.sext(neighbour, i64)
        weight = builder.load(builder.gep(array["value"].data, [j]))
        splat = builder.insert_element(undefined, weight, ir.Constant(i32, 0))
        splat = builder.shuffle_vector(splat, undefined, ir.Constant(ir.VectorType(i32, width), [0] * width))
        offset = builder.add(builder.mul(neighbour, stride), column)
        row = load(builder.gep(array["x"].data, [offset]))
        added = builder.call(fma, [splat, row, total])
        following = builder.add(j, ir.Constant(i64, 1))
        j.add_incoming(following, loop)
        total.add_incoming(added, loop)
        builder.cbranch(builder.icmp_signed("<", following, last), loop, done)

        builder.position_at_end(done)
        result = builder.phi(vector)
        result.add_incoming(zero, before)
        result.add_incoming(added, loop)
        out_stride = builder.extract_value(array["out"].shape, 1)
        target = builder.gep(array["out"].data, [builder.add(builder.mul(index("i"), out_stride), column)])
        builder.store(result, builder.bitcast(target, vector.as_pointer()), align=context.get_abi_sizeof(element))
        return context.get_dummy_value()

    return signature, codegen
