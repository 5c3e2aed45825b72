"""The two collectives of a layer whose parts live on different ranks, each the other's derivative.

All ranks hold the same inputs and compute the same loss; only what lies between `copied` and `summed` differs from rank
to rank. There the gradient of a shared input is the sum of what the ranks find, and the gradient of a sum is its own on
every rank.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


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
