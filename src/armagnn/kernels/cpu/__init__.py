"""The kernels for the processor, in numba.

Each takes detached CPU tensors, sees them as numpy arrays without a copy, and shares rows out over threads. Each number
is computed by one thread in a fixed order: the same bits every time and for every thread count. Machine code is kept on
disk, so only the first call on a machine waits.

`plan` chooses how an ARMA layer runs. On a small graph the whole layer is one call (`small_layer`). Trials of one step
go one by one, each in the cache of a core (`one_step`); so do signals and trials of several steps, stack by stack
(`members`). All others go side by side, product by product. The kernels trust what they get, so shapes and types are
looked at here; what does not fit goes product by product, which complains.
"""

from __future__ import annotations

from typing import Final

import torch

from armagnn.kernels.backends import Layer, Plan
from armagnn.kernels.cpu import members, one_step, small_layer
from armagnn.kernels.cpu.aggregation_rows import attend, attend_back, attends, row_max, row_max_back
from armagnn.kernels.cpu.dense import adam, outer, stack_matmul, stack_mean
from armagnn.kernels.cpu.lanczos import blank, column_dots, combine_states, lanczos_vector
from armagnn.kernels.cpu.masks import dropout, dropout_trials
from armagnn.kernels.cpu.sparse import gcs, nonzeros, sddmm, sort_coo, transpose
from armagnn.kernels.reference import (
    LONG,
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
from armagnn.torch_private import is_wrapped

__all__ = [
    "adam",
    "affine",
    "attend",
    "attend_back",
    "attends",
    "blank",
    "block_product",
    "column_dots",
    "combine_states",
    "cut_rows",
    "dropout",
    "dropout_trials",
    "early_step",
    "finish",
    "gcs",
    "gcs_mean",
    "keep_rows_whole",
    "lanczos_vector",
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

SIGNALS: Final = 4
"""Minimum number of signals worth distributing over threads; a constant, as `members.FEWEST` is for trials."""

NARROWEST: Final = 16
"""Columns of X W0 of a trial from which on a sparse X pays: narrower products are padded to this width."""

LARGEST: Final = 1 << 14
"""Numbers of a W0 above which a dense X is multiplied faster by a BLAS."""

CACHED: Final = 1 << 21
"""Bytes of [X W0 | X V] of a trial that stay near a core."""

STATES: Final = 1 << 22
"""Bytes of the states of one stack, of a trial or a signal, that stay near a core from step to step."""

MOST: Final = LONG
"""Nodes, features and units of the largest small graph: its kernel does not take longer sums in pieces."""

WORK: Final = 1 << 20
"""Multiply-adds of a step from which on vector code and a BLAS are faster."""


def plan(t: Layer) -> Plan | None:
    """Return what runs a layer; None for product by product."""
    if t.trials:
        found: Plan | None = one_step if _one_step(t) else members if _trials_stack_by_stack(t) else None
    elif t.x is None:
        return None
    else:
        found = small_layer if _small(t) else members if _signal_by_signal(t) else None
    return found if found is not None and _fits(t) else None


def _columns(t: Layer) -> int:
    """Return the columns of X W0, K * F_out."""
    return t.settings.stacks * t.settings.width


def _one_step(t: Layer) -> bool:
    s, columns, own = t.settings, _columns(t), t.x is not None
    plain = s.steps == 1 and s.init == "linear" and not s.early and s.act in one_step.ACTIVATIONS
    if not plain or t.trials < members.FEWEST or (t.x is not None and t.x.dim() != 3):
        return False
    near = (t.op[0].shape[0] - 1) * 2 * columns * t.v.element_size() <= CACHED
    return near and (t.v.shape[-3] * columns <= LARGEST if own else columns >= NARROWEST)


def _trials_stack_by_stack(t: Layer) -> bool:
    """One trial alone does if it has enough stacks to share out."""
    s = t.settings
    if (t.trials < 2 and s.stacks < members.FEWEST) or s.init != "linear" or t.x is None:
        return False
    return _several_steps(t)


def _signal_by_signal(t: Layer) -> bool:
    assert t.x is not None
    return t.x.shape[:-2].numel() >= SIGNALS and _several_steps(t)


def _several_steps(t: Layer) -> bool:
    """It pays over several steps, which is what the cache is for, and where X, which is propagated first, is narrow."""
    s, x = t.settings, t.x
    if s.steps < 2 or x is None or x.shape[-1] > _columns(t) or s.act not in members.ACTIVATIONS:
        return False
    return x.shape[-2] * s.width * x.element_size() <= STATES


def _small(t: Layer) -> bool:
    (rowptr, col, *_), x, s, wide = t.op, t.x, t.settings, _columns(t)
    if x is None or x.dim() != 2 or t.seed is not None or s.act not in small_layer.ACTIVATIONS:
        return False
    nodes, fan_in = x.shape
    work = max(nodes * wide * max(fan_in, s.width), col.shape[0] * max(fan_in, wide))
    if not 0 < nodes == rowptr.shape[0] - 1 <= MOST or max(fan_in, s.width) > MOST or work > WORK:
        return False
    if rowptr.dtype != col.dtype:
        return False
    return not any(is_wrapped(each) for each in (*t.op[:6], *t[5:]) if each is not None)  # they have no address


def _fits(t: Layer) -> bool:
    """Return whether all numbers are of one kind, and W0, W, V and the bias of the shapes that X asks for."""
    s, lead, w0, w, v, bias = t.settings, (t.trials,) if t.trials else (), t.w0, t.w, t.v, t.bias
    features, fan_in = (t.x, t.x.shape[-1]) if t.x is not None else (t.sparse[2], t.sparse[3].shape[0] - 1)  # type: ignore[index]
    real = v.dtype
    if real not in (torch.float32, torch.float64) or t.op[2].dtype != real or features.dtype != real:
        return False
    matrix, versions = (fan_in, s.stacks, s.width), v.shape[len(lead)]
    if v.shape != (*lead, versions, *matrix) or versions not in (1, s.steps):
        return False
    if (w0 is None) == (s.init == "linear") or (w0 is not None and (w0.shape != (*lead, *matrix) or w0.dtype != real)):
        return False
    if (w is None) == (s.steps > 1):
        return False
    if w is not None:
        later = w.shape[len(lead)]
        square = (*lead, later, s.stacks, s.width, s.width)
        if w.shape != square or later not in (1, s.steps - 1) or w.dtype != real:
            return False
    return bias is None or (bias.shape == (*lead, versions, s.stacks, s.width) and bias.dtype == real)
