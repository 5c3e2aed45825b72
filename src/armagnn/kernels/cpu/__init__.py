"""The kernels for the processor, in numba.

Each takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Each number
is computed by one thread in a fixed order: the same bits every time and for every thread count. Machine code is kept on
disk, so only the first call on a machine waits.
"""

from __future__ import annotations

from armagnn.kernels.cpu.aggregation_rows import attend, attend_back, attends, row_max, row_max_back
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
    gcs_mean,
    keep_rows_whole,
    late_step,
    take_padded,
    trial_products,
)

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
