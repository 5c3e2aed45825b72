"""When the trials of a layer go one by one, each in the cache of a core, and not side by side: see `cpu_trials`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

FEWEST: Final = 4
"""Trials below which they are too few to share out. Not the number of threads, on which no bit shall depend."""

NARROWEST: Final = 16
"""Columns of X W0 of a trial from which on a sparse X pays: a core fills up what it multiplies to so many."""

LARGEST: Final = 1 << 14
"""Numbers of a W0 above which a dense X is multiplied faster by a BLAS."""

CACHED: Final = 1 << 21
"""Bytes of [X W0 | X V] of a trial that stay near a core."""


class Tensors(NamedTuple):
    """What a layer of R trials is made of: as `Run` has it, with X sparse, or dense of shape (N, R, F_in)."""

    settings: Any
    trials: int
    op: tuple[Any, ...]
    sparse: tuple[Any, ...] | None
    x: Tensor | None
    seed: Tensor | None
    w0: Tensor
    v: Tensor
    bias: Tensor | None

    @property
    def columns(self) -> int:
        """Columns of X W0 of a trial, K * F_out."""
        return self.settings.stacks * self.settings.width  # type: ignore[no-any-return]


def one_by_one(t: Tensors) -> bool:
    """Return whether the trials of a layer go one by one, on a processor that can."""
    s = t.settings
    plain = s.steps == 1 and s.init == "linear" and not s.early and s.act in ("none", "relu", "leaky_relu")
    if not plain or t.trials < FEWEST or (t.x is not None and t.x.dim() != 3):
        return False
    return _same_kind(t) and _sizes_fit(t) and _pays(t)


def _same_kind(t: Tensors) -> bool:
    features = t.sparse[2] if t.sparse is not None else t.x
    kinds = {each.dtype for each in (t.op[2], features, t.w0, t.v, t.bias) if each is not None}
    return kinds in ({torch.float32}, {torch.float64})


def _sizes_fit(t: Tensors) -> bool:
    """Return whether W0, V and the bias have the shapes that X asks for; what else they have, others complain about."""
    if t.sparse is not None:
        shape: tuple[int, ...] = t.sparse[3].shape[0] - 1, t.trials * t.columns
    else:
        assert t.x is not None
        shape = t.trials, t.x.shape[2], t.columns
    weights = t.w0.shape == shape and t.v.shape == (1, *shape)
    return weights and (t.bias is None or t.bias.numel() == t.trials * t.columns)


def _pays(t: Tensors) -> bool:
    near = (t.op[0].shape[0] - 1) * 2 * t.columns * t.v.element_size() <= CACHED
    return near and (t.columns >= NARROWEST if t.x is None else t.v.shape[-2] * t.columns <= LARGEST)
