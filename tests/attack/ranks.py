"""Ranks with valid arguments: stacks and rows over the one rank of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch

from armagnn.nn import ARMAConv
from attack import parts
from attack.groups import WORLD, world
from attack.subjects import Call, edges, features, graph


def ranks() -> Iterator[Call]:
    from armagnn.distributed import ParallelStacks, parallelize_stacks

    conv = ARMAConv(3, 2, 2, 2)

    def shared(make: Any, conv: Any, mesh: Any) -> Any:
        return make(conv, world(os.getpid()) if mesh is WORLD else mesh)

    def parallel() -> Any:
        return shared(parallelize_stacks, conv, WORLD)

    for name, make in (("ParallelStacks", ParallelStacks), ("parallelize_stacks", parallelize_stacks)):
        yield Call(
            f"distributed.{name}", lambda make=make, **a: shared(make, **a)(features(), graph()),
            {"conv": conv, "mesh": WORLD},
        )  # fmt: skip
    call = {"x": features(), "edge_index": edges(), "edge_weight": torch.ones(14)}
    yield Call("distributed.ParallelStacks.forward", lambda **a: parallel()(**a), call)
    yield Call(
        "distributed.ParallelStacks.forward", lambda **a: parallel()(**a), {"x": features(), "edge_index": graph()}
    )
    yield Call(
        "distributed.ParallelStacks.operator", lambda **a: parallel().operator(**a),
        {"graph": edges(), "num_nodes": 6, "edge_weight": torch.ones(14)},
    )  # fmt: skip
    yield from _rows()
    yield from parts.parts()
    yield Call(
        "distributed.ParallelStacks.load_state_dict",
        lambda state: parallel().load_state_dict(state),
        {"state": conv.state_dict()},
    )


def _rows() -> Iterator[Call]:
    """The rows of an operator on the one rank of this process."""
    from armagnn.distributed import PartitionedOperator

    op = graph()
    rows = {"rowptr": op.rowptr, "col": op.col, "value": op.value}
    fields = {"kind": "arma", "symmetric": True, "unit_diagonal": False, "shift": 0.0}

    def used(part: Any) -> Any:
        return repr(part), part @ torch.ones(part.num_nodes, 2, dtype=part.dtype)

    def from_operator(op: Any, mesh: Any, starts: Any) -> Any:
        return PartitionedOperator.from_operator(op, world(os.getpid()) if mesh is WORLD else mesh, starts)

    def from_rows(group: Any, **options: Any) -> Any:
        return used(PartitionedOperator.from_rows(group=world(os.getpid()) if group is WORLD else group, **options))

    def part() -> Any:
        return from_operator(op, WORLD, None)

    yield Call(
        "distributed.PartitionedOperator.from_operator", lambda **a: used(from_operator(**a)),
        {"op": op, "mesh": WORLD, "starts": [0, 6]},
    )  # fmt: skip
    yield Call(
        "distributed.PartitionedOperator.from_rows", from_rows, rows | fields | {"group": WORLD, "starts": [0, 6]}
    )
    yield Call(
        "distributed.PartitionedOperator",
        lambda halo=None, **a: used(PartitionedOperator(halo=part().halo if halo is None else halo, **a)),
        rows | fields | {"halo": None},
    )
    yield Call("distributed.PartitionedOperator.matmul", lambda x: part() @ x, {"x": features()})
    yield Call(
        "distributed.PartitionedOperator.with_value",
        lambda value: used(part().with_value(value)),
        {"value": op.value * 2},
    )
    for name in ("total", "most"):
        yield Call(
            f"distributed.PartitionedOperator.{name}", lambda x, name=name: getattr(part(), name)(x), {"x": features()}
        )
    yield Call(
        "distributed.PartitionedOperator.shared", lambda module: part().shared(module), {"module": ARMAConv(3, 2)}
    )
