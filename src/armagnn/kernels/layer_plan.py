"""When the trials of a layer go one by one, each in the cache of a core, and not side by side.

Layers of one step: see `cpu/one_step`. Of several steps: see `cpu/layer_of_trials`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

ACTIVATIONS: Final = ("none", "relu", "leaky_relu", "elu")
"""Those that `cpu/stack_by_stack` applies."""

FEWEST: Final = 4
"""Trials, or stacks of one, too few to share out below it: not the threads there are, on which no bit shall depend."""

SIGNALS: Final = 4
"""Signals below which they are too few to share out. Not the number of threads, on which no bit shall depend."""

NARROWEST: Final = 16
"""Columns of X W0 of a trial from which on a sparse X pays: a core fills up what it multiplies to so many."""

LARGEST: Final = 1 << 14
"""Numbers of a W0 above which a dense X is multiplied faster by a BLAS."""

CACHED: Final = 1 << 21
"""Bytes of [X W0 | X V] of a trial that stay near a core."""

STATES: Final = 1 << 22
"""Bytes of the states of one stack, of a trial or a signal, that stay near a core from step to step."""


class Tensors(NamedTuple):
    """What a layer of R trials is made of, as `Run` has it: X sparse, or dense, (N, R, F_in), or (N, F_in) for all."""

    settings: Any
    trials: int
    op: tuple[Any, ...]
    sparse: tuple[Any, ...] | None
    x: Tensor | None
    seed: Tensor | None
    w0: Tensor | None
    w: Tensor | None
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
    return t.v.shape[0] == 1 and fits(t) and _pays(t)


def stack_by_stack(t: Tensors) -> bool:
    """Return whether the trials of a layer of several steps go one by one, stack by stack.

    One trial alone does if it has enough stacks to share out.
    """
    s = t.settings
    if s.steps < 2 or (t.trials < 2 and s.stacks < FEWEST) or s.init != "linear" or s.act not in ACTIVATIONS:
        return False
    if t.x is None or t.w is None or t.x.shape[-1] > t.columns:  # it is X that is propagated first
        return False
    near = (t.op[0].shape[0] - 1) * s.width * t.v.element_size() <= STATES
    return near and fits(t)


def signal_by_signal(t: Tensors) -> bool:
    """Return whether `SIGNALS` or more, of which X is one, go one by one.

    They do where that pays: over several steps, which is what the cache is for, and with an X that is narrower than the
    states, because it is X that is propagated first.
    """
    s = t.settings
    if s.steps < 2 or s.act not in ACTIVATIONS or t.x is None or t.w is None:
        return False
    near = t.x.shape[-2] * s.width * t.x.element_size() <= STATES
    return near and t.x.shape[-1] <= t.columns and fits(t)


def fits(t: Tensors) -> bool:
    """Return whether all numbers are of one kind, and W0, W, V and the bias of the shapes that X asks for.

    A kernel that goes over a whole layer trusts them; what does not fit goes product by product, which complains.
    """
    return _same_kind(t) and _sizes_fit(t)


def _same_kind(t: Tensors) -> bool:
    features = t.sparse[2] if t.sparse is not None else t.x
    kinds = {each.dtype for each in (t.op[2], features, t.w0, t.w, t.v, t.bias) if each is not None}
    return kinds in ({torch.float32}, {torch.float64})


def _sizes_fit(t: Tensors) -> bool:
    if t.sparse is not None or (t.x is not None and t.x.dim() == 2):
        fan_in = t.sparse[3].shape[0] - 1 if t.sparse is not None else t.x.shape[1]  # type: ignore[union-attr]
        shape: tuple[int, ...] = fan_in, t.trials * t.columns
    else:
        assert t.x is not None
        shape = t.trials, t.x.shape[2], t.columns
    s, versions = t.settings, t.v.shape[0]
    weights = t.v.shape[1:] == shape and versions in (1, s.steps) and (t.w0 is None or t.w0.shape == shape)
    if t.w is not None:
        weights &= t.w.shape[1:] == (t.trials * s.stacks, s.width, s.width) and t.w.shape[0] in (1, s.steps - 1)
    return weights and (t.bias is None or t.bias.shape == (versions, t.trials * t.columns))


def _pays(t: Tensors) -> bool:
    near = (t.op[0].shape[0] - 1) * 2 * t.columns * t.v.element_size() <= CACHED
    return near and (t.columns >= NARROWEST if t.x is None else t.v.shape[-2] * t.columns <= LARGEST)
