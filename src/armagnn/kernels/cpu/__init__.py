"""The kernels for the processor, in numba.

Each takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Each number
is computed by one thread in a fixed order: the same bits every time and for every thread count. Machine code is kept on
disk, so only the first call on a machine waits.
"""

from __future__ import annotations

from armagnn.kernels.cpu.adam_step import adam
from armagnn.kernels.cpu.attention_rows import attend, attend_back
from armagnn.kernels.cpu.dense import outer, stack_matmul, stack_mean
from armagnn.kernels.cpu.masks import dropout, dropout_trials
from armagnn.kernels.cpu.nonzeros import nonzeros
from armagnn.kernels.cpu.row_maxima import row_max, row_max_back
from armagnn.kernels.cpu.sparse import gcs, sddmm, sort_coo, transpose
from armagnn.kernels.reference import affine, early_step, finish, late_step, trial_products

IN_PLACE = True
MEAN = False
ONE_BY_ONE = True

__all__ = [
    "IN_PLACE",
    "MEAN",
    "ONE_BY_ONE",
    "adam",
    "affine",
    "attend",
    "attend_back",
    "dropout",
    "dropout_trials",
    "early_step",
    "finish",
    "gcs",
    "late_step",
    "nonzeros",
    "outer",
    "row_max",
    "row_max_back",
    "sddmm",
    "sort_coo",
    "stack_matmul",
    "stack_mean",
    "transpose",
    "trial_products",
]
