"""Long sums as vector code: in pieces of `LONG` terms, whose sums are added up in float64.

Added one by one in float32, a million numbers lose all but two or three digits. A sum of `LONG` terms or fewer is a
plain loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from armagnn.kernels.reference import LONG

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
