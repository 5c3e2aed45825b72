"""The plan of an epoch: which graphs, or signals, each of its steps takes."""

from __future__ import annotations

import torch
from torch import Tensor


def write_plan(plan: Tensor, ids: Tensor, filler: int) -> None:
    """Write ids, in their order, into a plan (steps, batch size), and a filler where they end before it does.

    On a GPU the copy is queued behind the steps that still read the plan, and nothing waits for it.

    Example:
        >>> plan = torch.empty(2, 2, dtype=torch.int64)
        >>> write_plan(plan, torch.tensor([5, 3, 4]), filler=9)
        >>> plan
        tensor([[5, 3],
                [4, 9]])
    """
    whole = torch.full((plan.numel(),), filler, dtype=ids.dtype, pin_memory=plan.is_cuda)
    whole[: len(ids)] = ids
    plan.copy_(whole.view_as(plan), non_blocking=True)
