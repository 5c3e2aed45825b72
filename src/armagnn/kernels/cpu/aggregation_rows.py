"""Attention and the maximum over the neighbours of every node, on the processor: see `aggregation`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import Array, compiled
from armagnn.kernels.cpu.threads import Chunk, begin
from armagnn.kernels.reference import LONG


@compiled()
def _carry(exact: Array, one: Array, other: Array) -> None:
    """Add the sums of a piece of a long row (see `gather`) to those of the pieces before."""
    for c in range(one.size):
        exact[0, c] += one[c]
        exact[1, c] += other[c]


@compiled()
def _finish(exact: Array, one: Array, other: Array) -> None:
    for c in range(one.size):
        one[c], other[c] = exact[0, c], exact[1, c]


@compiled()
def _attend_rows(
    chunk: Chunk, rowptr: Array, col: Array, z: Array, s: Array, d: Array, slope: Any, out: Array, log: Array, slopes:
    Array, slanted: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    heads, width = s.shape[1], z.shape[2]
    each, exact = heads // z.shape[1], np.empty((2, width))
    for i in range(lo, hi):
        for h in range(heads):
            most, f = s[i, h], h // each
            for j in range(rowptr[i], rowptr[i + 1]):
                most = max(most, s[col[j], h])
            x = most + d[i, h]
            most = x if x > 0 else slope * x  # the activation rises, so the largest x has the largest score
            weights, slants, long = 0.0, 0.0, rowptr[i + 1] - rowptr[i] >= LONG
            if long:
                exact[:] = 0
            first = np.int64(rowptr[i])
            while first <= rowptr[i + 1]:
                total, flat = z.dtype.type(0), z.dtype.type(0)
                for c in range(width):
                    out[i, h, c], slanted[i, h, c] = 0, 0
                for j in range(first, min(first + LONG, rowptr[i + 1] + 1)):
                    k = i if j == rowptr[i + 1] else np.int64(col[j])  # the node itself comes last, and only then
                    if k == i and j < rowptr[i + 1]:
                        continue
                    x = s[k, h] + d[i, h]
                    weight = np.exp((x if x > 0 else slope * x) - most)
                    slant = weight if x > 0 else slope * weight
                    total += weight
                    flat += slant
                    for c in range(width):
                        out[i, h, c] += weight * z[k, f, c]
                        slanted[i, h, c] += slant * z[k, f, c]
                weights += total
                slants += flat
                if long:
                    _carry(exact, out[i, h], slanted[i, h])
                first += LONG
            if long:
                _finish(exact, out[i, h], slanted[i, h])
            total, flat = z.dtype.type(weights), z.dtype.type(slants)
            log[i, h], slopes[i, h] = most + np.log(total), flat / total
            for c in range(width):
                out[i, h, c] /= total
                slanted[i, h, c] /= total


@compiled()
def _back_rows(
    chunk: Chunk, rowptr: Array, col: Array, g: Array, q: Array, s: Array, d: Array, log: Array, slope: Any, by_z:
    Array, turned: Array, rest: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    heads, width = s.shape[1], g.shape[2]
    each, exact = heads // g.shape[1], np.empty((2, width))
    for j in range(lo, hi):
        for h in range(heads):
            slants, long, f = 0.0, rowptr[j + 1] - rowptr[j] >= LONG, h // each
            if long:
                exact[:] = 0
            first = np.int64(rowptr[j])
            while first <= rowptr[j + 1]:
                total = g.dtype.type(0)
                for c in range(width):
                    by_z[j, h, c], turned[j, h, c] = 0, 0
                for e in range(first, min(first + LONG, rowptr[j + 1] + 1)):
                    i = j if e == rowptr[j + 1] else np.int64(col[e])
                    if i == j and e < rowptr[j + 1]:
                        continue
                    x = s[j, h] + d[i, h]
                    weight = np.exp((x if x > 0 else slope * x) - log[i, h])
                    slant = weight if x > 0 else slope * weight
                    total += slant * q[i, h]
                    for c in range(width):
                        by_z[j, h, c] += weight * g[i, f, c]
                        turned[j, h, c] += slant * g[i, f, c]
                slants += total
                if long:
                    _carry(exact, by_z[j, h], turned[j, h])
                first += LONG
            if long:
                _finish(exact, by_z[j, h], turned[j, h])
            rest[j, h] = slants


def attends(kinds: set[torch.dtype]) -> bool:
    """Return whether there are `attend` and `attend_back` for numbers of these types."""
    return kinds in ({torch.float32}, {torch.float64})


def attend(
    rowptr: Tensor, col: Tensor, z: Tensor, s: Tensor, d: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the output, the logarithm of what the weights were divided by, and for the gradients the averages of the
    slopes of the activation, and of the slopes times z. Heads side by side may share their z, shape (N, H / n, C).
    """
    out = z.new_empty(*s.shape, z.shape[2])
    found = out, torch.empty_like(s), torch.empty_like(s), torch.empty_like(out)
    given = [tensor.numpy(force=True) for tensor in (rowptr, col, z, s, d)]
    arguments = (*given, given[2].dtype.type(slope), *(tensor.numpy() for tensor in found))
    threads.run(_attend_rows, arguments, threads.row_bounds(given[0], s.shape[1] * z.shape[2]))
    return found


def attend_back(
    t_rowptr: Tensor, t_col: Tensor, g: Tensor, q: Tensor, s: Tensor, d: Tensor, log: Tensor, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradient of z, head by head, and for that of s the sums of the slopes times g, and times q. Heads side
    by side may share their g, shape (N, H / n, C).
    """
    by_z = g.new_empty(*s.shape, g.shape[2])
    found = by_z, torch.empty_like(by_z), torch.empty_like(s)
    given = [tensor.numpy(force=True) for tensor in (t_rowptr, t_col, g, q, s, d, log)]
    arguments = (*given, given[2].dtype.type(slope), *(tensor.numpy() for tensor in found))
    threads.run(_back_rows, arguments, threads.row_bounds(given[0], s.shape[1] * g.shape[2]))
    return found


# ---------------------------------------------------------------------------------------------------------- the maximum


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
def _max_back_rows(chunk: Chunk, rowptr: Array, col: Array, x: Array, most: Array, shares: Array, out: Array) -> None:
    lo, hi = begin(chunk)
    exact = np.empty(x.shape[1])
    for i in range(lo, hi):
        start, end = rowptr[i], rowptr[i + 1]
        if end - start > LONG:
            exact[:] = 0
        for first in range(start, max(end, start + 1), LONG):  # long rows in pieces: see `gather`
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
    threads.run(_max_back_rows, (*given, out.numpy()), threads.row_bounds(given[0], x.shape[1]))
    return out
