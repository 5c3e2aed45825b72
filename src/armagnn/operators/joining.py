"""Disjoint graphs as one: the blocks of a block-diagonal operator, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from armagnn.errors import DeviceError, DTypeError, GraphError
from armagnn.torch_private import learned

if TYPE_CHECKING:
    from armagnn.operators.graph import GraphOperator


def check_alike(operators: Sequence[GraphOperator]) -> None:
    """Raise if operators differ in their kind, their type or their device."""
    first = operators[0]
    for op in operators:
        if op.kind != first.kind:
            raise GraphError(f"cannot join operators of kind {first.kind!r} and {op.kind!r}: build them alike.")
        if op.dtype != first.dtype:
            raise DTypeError(f"cannot join {first.dtype} and {op.dtype} operators: convert with op.to(dtype).")
        if op.device != first.device:
            raise DeviceError(f"cannot join operators on {first.device} and {op.device}: move with op.to(device).")


def join(operators: Sequence[GraphOperator]) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor, Tensor, Tensor] | None]:
    """Return pointers, columns and values of the joined operator, and its transpose where it is another one."""
    nodes, entries = [op.num_nodes for op in operators], [op.nnz for op in operators]
    index = torch.int32 if max(sum(nodes), sum(entries)) < 2**31 else torch.int64
    rowptr = _join_pointers([op.rowptr for op in operators], index)
    col = _join([op.col for op in operators], nodes, index)
    value = torch.cat([op.value for op in operators])
    if all(op.symmetric and not learned(op.value) for op in operators):
        return rowptr, col, value, None
    parts = [op._structure() for op in operators]
    transposed = (
        _join_pointers([part[0] for part in parts], index),
        _join([part[1] for part in parts], nodes, index),
        _join([part[2] for part in parts], entries, index),
    )
    return rowptr, col, value, transposed


def _join(parts: list[Tensor], sizes: list[int], index: torch.dtype) -> Tensor:
    offset, joined = 0, []
    for part, size in zip(parts, sizes, strict=True):
        joined.append(part.to(index) + offset)
        offset += size
    return torch.cat(joined)


def _join_pointers(pointers: list[Tensor], index: torch.dtype) -> Tensor:
    counts = torch.cat([p[1:] - p[:-1] for p in pointers])
    return torch.cat([counts.new_zeros(1), counts]).cumsum(0).to(index)
