"""What layers ask of their arguments: sizes, features, operators that fit. Shapes, types and devices; no values."""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch import Tensor

from armagnn import checks
from armagnn.errors import DeviceError, DTypeError, GraphError, ParameterError, ShapeError, UnsupportedError
from armagnn.operators import CSR, GraphOperator


def empty(name: str, *shape: int) -> Tensor:
    """Return an undrawn weight; raise where its shape is absurd."""
    with checks.room(name, *shape):
        return torch.empty(shape)


def check_features(x: Any, in_channels: int) -> Tensor | CSR:
    """Return the node features, those of ``torch.sparse`` as a `CSR`; ``in_channels=-1`` takes any width."""
    if checks.is_sparse(x):
        x = CSR.from_torch_sparse(x)
    if not isinstance(x, CSR):
        width = "F" if in_channels == -1 else in_channels
        checks.real_tensor("x", x, f"(..., N, {width})", ", a CSR or a torch.sparse matrix")
    if in_channels != -1 and x.shape[-1] != in_channels:  # no `in`: compiled code may know the shape by name only
        raise ShapeError(
            f"x has {x.shape[-1]} features per node, but the layer was made for in_channels={in_channels}."
        )
    return x  # type: ignore[no-any-return]


def check_kind(layer: str, kind: str, op: GraphOperator, edge_weight: Tensor | None) -> GraphOperator:
    """Return the operator if it is of the kind that the layer is defined with."""
    if edge_weight is not None:
        raise ParameterError("edge_weight goes with an edge_index; an operator holds its weights itself.")
    if op.kind != kind:
        raise GraphError(
            f"{layer} works on an operator of kind {kind!r}, got {op.kind!r}: build it by "
            f"conv.operator(edge_index, num_nodes) or GraphOperator.from_edge_index(..., kind={kind!r})."
        )
    return op


def check_fit(x: Tensor | CSR, op: GraphOperator) -> None:
    """Raise unless features and operator have the same nodes, device and type."""
    if isinstance(x, Tensor):
        op.check_operand(x)
        return
    if x.shape[0] != op.num_nodes:
        raise ShapeError(f"x has {x.shape[0]} rows, but the graph {op.num_nodes} nodes.")
    if x.device != op.device:
        raise DeviceError(f"x is on {x.device}, the operator on {op.device}: move one with .to(device).")
    if x.dtype != op.dtype:
        raise DTypeError(f"x is {x.dtype}, the operator {op.dtype}: convert one with .to(dtype).")


def check_weights(x: Tensor | CSR, weight: Tensor) -> None:
    """Raise unless features and weights have the same device and, autocast aside, the same type."""
    if x.device != weight.device:
        raise DeviceError(f"x is on {x.device}, the layer's weights on {weight.device}: use conv.to(x.device).")
    mixed = torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64
    if x.dtype != weight.dtype and not mixed:
        raise DTypeError(f"x is {x.dtype}, the layer's weights {weight.dtype}: use conv.to(x.dtype).")


def refuse_script(layer: str) -> NoReturn:
    """Raise: torch.jit.script compiles a subset of Python in which there are no graph operators."""
    raise UnsupportedError(
        f"{layer} cannot be compiled by torch.jit.script: use torch.export.export, torch.compile or torch.jit.trace."
    )
