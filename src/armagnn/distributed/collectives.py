"""Process groups, and sums over their ranks that autograd follows."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from armagnn.errors import DTypeError, ParameterError


def group_of(mesh: Any, caller: str) -> dist.ProcessGroup:
    """Return the process group of a mesh that this rank belongs to."""
    if isinstance(mesh, DeviceMesh):
        if mesh.ndim != 1:
            raise ParameterError(f"the mesh has {mesh.ndim} axes and {caller} takes one: take mesh['name'] of it.")
        if mesh.get_coordinate() is None:
            raise ParameterError(f"this rank is not in the mesh: only its ranks may call {caller}.")
        return mesh.get_group()
    if mesh is dist.GroupMember.NON_GROUP_MEMBER:
        raise ParameterError(f"this rank is not in the process group: only its ranks may call {caller}.")
    if not isinstance(mesh, dist.ProcessGroup):
        raise DTypeError(f"mesh must be a DeviceMesh or a ProcessGroup, got {type(mesh).__name__}.")
    return mesh


class _Copied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return summed(g, ctx.group), None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        out = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return copied(g, ctx.group), None


def copied(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return x itself, equal on all ranks, for a part that differs; its gradient is summed over the ranks."""
    return _Copied.apply(x, group)  # type: ignore[no-any-return,no-untyped-call]


def summed(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum over the ranks, equal on all of them; every rank's part has the gradient of the sum."""
    return _Summed.apply(x, group)  # type: ignore[no-any-return,no-untyped-call]


class _CopiedAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: dist.ProcessGroup, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group = group
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        there = [gradient for gradient in gradients if gradient is not None]
        if not there:
            return None, *gradients
        flat = torch.cat([gradient.reshape(-1) for gradient in there])
        dist.all_reduce(flat, group=ctx.group)
        pieces = torch.split(flat, [gradient.numel() for gradient in there])
        sums = iter([piece.view_as(gradient) for piece, gradient in zip(pieces, there, strict=True)])
        return None, *(None if gradient is None else next(sums) for gradient in gradients)


def copied_all(tensors: dict[str, Tensor], group: dist.ProcessGroup) -> dict[str, Tensor]:
    """Return tensors as `copied` does, with one sum over the ranks for the gradients of all of them.

    The tensors are of one type; those without a gradient have none afterwards.
    """
    copies: tuple[Tensor, ...] = _CopiedAll.apply(group, *tensors.values())  # type: ignore[no-untyped-call]
    return dict(zip(tensors, copies, strict=True))
