"""Sparse matrices whose values differ from trial to trial, without the values that are zero.

They differ because of dropout, mostly, and products with what it left take a fraction of the time. What is left out is
not multiplied, by NaN or infinity neither: a trial that has diverged may have fewer NaNs than it would have alone.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, accumulator, compiled, inner, to_numpy
from armagnn.kernels.cpu.threads import Chunk, begin


@inner()
def keep_nonzeros(
    rowptr: Array, col: Array, value: Array, perm: Array, starts: Array, cols: Array, values: Array
) -> None:
    """Write the matrix with the values ``value[perm]`` (or ``value``, without a perm) that are not zero."""
    zero, one = np.uint64(0), np.uint64(1)  # indices that may be negative would be looked at each time
    count = zero
    for i in range(rowptr.size - 1):
        starts[i] = count
        for j in range(np.uint64(rowptr[i]), np.uint64(rowptr[i + 1])):
            # written before it is known whether it stays: no branch could be foretold
            v = value[np.uint64(perm[j])] if perm.size else value[j]
            cols[count], values[count] = col[j], v
            count += zero if v == 0 else one  # NaN stays
    starts[rowptr.size - 1] = count


@compiled()
def _nonzeros(
    chunk: Chunk, rowptr: Array, col: Array, value: Array, perm: Array, starts: Array, cols: Array, values: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    for r in range(lo, hi):
        keep_nonzeros(rowptr, col, value[r], perm, starts[r], cols[r], values[r])


def nonzeros(rowptr: Tensor, col: Tensor, value: Tensor, perm: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return a matrix with the values ``value[:, perm]``, (R, nonzeros), of which each trial has its own nonzeros.

    Its tensors all have the trials as first axis; those of a trial end where its last row does.
    """
    value = value.to(accumulator(value.dtype))
    trials, size = value.shape
    # one place more than there are nonzeros: behind the last one, for a zero that does not stay
    kept = rowptr.new_empty(trials, rowptr.numel()), col.new_empty(trials, size + 1), value.new_empty(trials, size + 1)
    arrays = (rowptr, col, value, rowptr.new_empty(0) if perm is None else perm, *kept)
    chunks = max(1, min(trials, threads.num_chunks(value.numel(), MIN_PRODUCTS // 8)))
    bounds = [trials * k // chunks for k in range(chunks + 1)]
    threads.run(_nonzeros, tuple(map(to_numpy, arrays)), bounds)
    return kept
