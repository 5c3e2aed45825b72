"""The kernels for the processor, in numba.

Each takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Each number
is computed by one thread in a fixed order: the same bits every time and for every thread count. Machine code is kept on
disk, so only the first call on a machine waits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.cpu.aggregation_rows import attend, attend_back, row_max, row_max_back
from armagnn.kernels.cpu.dense import adam, outer, stack_matmul, stack_mean
from armagnn.kernels.cpu.layer_plan import plan
from armagnn.kernels.cpu.masks import dropout, dropout_trials
from armagnn.kernels.cpu.sparse import gcs, nonzeros, sddmm, sort_coo, transpose
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
    "nonzeros",
    "outer",
    "plan",
    "row_max",
    "row_max_back",
    "sddmm",
    "sort_coo",
    "stack_matmul",
    "stack_mean",
    "take_padded",
    "transpose",
    "trial_products",
]
