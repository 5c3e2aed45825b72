"""The maximum over the neighbours of every node, on the processor."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import Array, compiled
from armagnn.kernels.cpu.threads import Chunk, begin
from armagnn.kernels.reference import LONG


@compiled()
def _max_rows(chunk: Chunk, rowptr: Array, col: Array, x: Array, most: Array, ties: Array) -> None:
    lo, hi = begin(chunk)
    for i in range(lo, hi):
        start, end = rowptr[i], rowptr[i + 1]
        for c in range(x.shape[1]):
            most[i, c], ties[i, c] = 0, 1
        if start < end:
            for c in range(x.shape[1]):
                most[i, c] = x[col[start], c]
        for j in range(start + 1, end):
            k = col[j]
            for c in range(x.shape[1]):  # without branches, so that it becomes vector code
                here, there = most[i, c], x[k, c]
                more, same = there > here or there != there, there == here  # NaN stays
                most[i, c] = there if more else here
                ties[i, c] = x.dtype.type(1) if more else ties[i, c] + x.dtype.type(same)


@compiled()
def _back_rows(chunk: Chunk, rowptr: Array, col: Array, x: Array, most: Array, shares: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    exact = np.empty(x.shape[1])
    for i in range(lo, hi):
        start, end = rowptr[i], rowptr[i + 1]
        if end - start > LONG:
            exact[:] = 0
        for first in range(start, max(end, start + 1), LONG):  # long rows in pieces: see `pieces`
            for c in range(x.shape[1]):
                out[i, c] = 0
            for j in range(first, min(first + LONG, end)):
                k = col[j]
                for c in range(x.shape[1]):
                    out[i, c] += shares[k, c] if most[k, c] == x[i, c] else x.dtype.type(0)
            if end - start > LONG:
                for c in range(x.shape[1]):
                    exact[c] += out[i, c]
        if end - start > LONG:
            for c in range(x.shape[1]):
                out[i, c] = exact[c]


def row_max(rowptr: Tensor, col: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maxima, and how many neighbours have each; `reference.row_max` is the same in plain torch."""
    if x.dtype not in (torch.float32, torch.float64):
        return reference.row_max(rowptr, col, x)
    most = torch.empty(rowptr.shape[0] - 1, x.shape[1], dtype=x.dtype)
    ties = torch.empty_like(most)
    given = tuple(tensor.numpy(force=True) for tensor in (rowptr, col, x))
    threads.run(_max_rows, (*given, most.numpy(), ties.numpy()), threads.row_bounds(given[0], x.shape[1]))
    return most, ties


def row_max_back(t_rowptr: Tensor, t_col: Tensor, x: Tensor, most: Tensor, shares: Tensor) -> Tensor:
    """Return the gradient of x; `reference.row_max_back` is the same in plain torch."""
    if x.dtype not in (torch.float32, torch.float64):
        return reference.row_max_back(t_rowptr, t_col, x, most, shares)
    out = torch.empty_like(x)
    given = tuple(tensor.numpy(force=True) for tensor in (t_rowptr, t_col, x, most, shares))
    threads.run(_back_rows, (*given, out.numpy()), threads.row_bounds(given[0], x.shape[1]))
    return out
