"""The kernels for the processor, in numba.

Each takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Each number
is computed by one thread in a fixed order: the same bits every time and for every thread count. Machine code is kept on
disk, so only the first call on a machine waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from armagnn.kernels import layer_plan
from armagnn.kernels.cpu import layer_of_trials, one_step
from armagnn.kernels.cpu.aggregation_rows import attend, attend_back, row_max, row_max_back
from armagnn.kernels.cpu.dense import adam, outer, stack_matmul, stack_mean
from armagnn.kernels.cpu.masks import dropout, dropout_trials
from armagnn.kernels.cpu.small_layer import takes_small
from armagnn.kernels.cpu.sparse import gcs, nonzeros, sddmm, sort_coo, transpose
from armagnn.kernels.layer_plan import Tensors
from armagnn.kernels.reference import (
    affine,
    block_product,
    cut_rows,
    early_step,
    finish,
    keep_rows_whole,
    late_step,
    take_padded,
    trial_products,
)

if TYPE_CHECKING:
    from armagnn.kernels.backends import Members

takes_signals = layer_plan.signal_by_signal


def members(layer: Tensors) -> Members | None:
    """Return what takes the trials of a layer one by one; None if they go side by side."""
    if layer_plan.one_by_one(layer):
        return one_step
    return layer_of_trials if layer_plan.stack_by_stack(layer) else None


def gcs_mean(*given: Any) -> Tensor:
    """Return the mean over the stacks, K of some width, of what `gcs` returns."""
    *given_to_gcs, stacks, width = given
    return stack_mean(gcs(*given_to_gcs).view(-1, stacks, width))


def attends(kinds: set[torch.dtype]) -> bool:
    """Return whether there are `attend` and `attend_back` for numbers of these types."""
    return kinds in ({torch.float32}, {torch.float64})


__all__ = [
    "adam",
    "affine",
    "attend",
    "attend_back",
    "attends",
    "block_product",
    "cut_rows",
    "dropout",
    "dropout_trials",
    "early_step",
    "finish",
    "gcs",
    "gcs_mean",
    "keep_rows_whole",
    "late_step",
    "members",
    "nonzeros",
    "outer",
    "row_max",
    "row_max_back",
    "sddmm",
    "sort_coo",
    "stack_matmul",
    "stack_mean",
    "take_padded",
    "takes_signals",
    "takes_small",
    "transpose",
    "trial_products",
]
