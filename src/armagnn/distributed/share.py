"""Some of the stacks of an ARMA layer, which drop what they would drop among all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.distributed.masks import keep_columns
from armagnn.nn import ARMAConv
from armagnn.nn.recursion import Recursion
from armagnn.operators import CSR, GraphOperator


class Share(ARMAConv):
    """An `ARMAConv` whose stacks are number ``first`` and following of ``total``; `ParallelStacks` makes it.

    A layer numbers the entries of X V over all stacks to decide which of them to drop. The kernels would number those
    of a share by themselves, so where it drops it takes the recursion step by step, with masks from `keep_columns`.
    """

    first: int
    total: int

    def forward(self, x: Tensor | CSR, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
        """Return the mean of these stacks, shape (..., N, F_out)."""
        if not self.training or not float(self.dropout) or self.fixed_point is not None:
            return super().forward(x, edge_index, edge_weight)
        x, op = self._checked(x, edge_index, edge_weight)
        features = self._folded(x)
        steps = self._recursion(x, features, op)
        skip = steps.skip(0, features)
        state = steps.first(op, features, skip)
        for t in range(1, self.num_layers):
            skip = skip if self.shared_weights else steps.skip(t, features)
            state = steps.next(t, op, state, skip)
        stacked = state.reshape(features.shape[0], self.num_stacks, self.out_channels)
        return self._signals(kernels.stack_mean(stacked).unsqueeze(1), x.shape).squeeze(0)

    def _propagates_first(self, features: Tensor | CSR, stacks: int | None = None) -> bool:
        """Go the way of the whole layer on every rank: under autocast the type of the output depends on it."""
        return super()._propagates_first(features, self.total)

    def _recursion(self, x: Tensor | CSR, features: Tensor | CSR, op: GraphOperator) -> Recursion:
        plain = super()._recursion(x, features, op)
        if plain.seed is None:
            return plain
        p, width = float(self.dropout), self.out_channels
        columns = slice(self.first * width, (self.first + self.num_stacks) * width)
        keep = partial(keep_columns, plain.seed, p, shape=(features.shape[0], self.total * width), columns=columns)
        return _Masked(plain.settings, plain.weights, None, plain.activation, keep, p, self.fixed_point is not None)


@dataclass(frozen=True)
class _Masked(Recursion):
    """The steps of the stacks with given masks; the ``seed`` is None.

    Attributes:
        keep: gives the mask of a step.
        p: the probability with which it drops.
        once: whether one mask serves all steps, as in a solve for a fixed point.
    """

    keep: Callable[..., Tensor]
    p: float
    once: bool

    def _dropped(self, t: int, skip: Tensor) -> Tensor:
        return torch.where(self.keep(step=t), skip * (1.0 / (1.0 - self.p)), skip.new_zeros(()))

    def skip(self, t: int, features: Tensor | CSR) -> Tensor:
        skip = super().skip(t, features)
        return self._dropped(0, skip) if self.once else skip

    def first(self, op: GraphOperator, features: Tensor | CSR, skip: Tensor) -> Tensor:
        dropped = self._dropped(0, skip)
        if self.settings.init == "tied":  # X(0) = X V, of which nothing is dropped
            return self._step(0, op, skip, dropped)
        return super().first(op, features, dropped)

    def next(self, t: int, op: GraphOperator, state: Tensor, skip: Tensor) -> Tensor:
        return super().next(t, op, state, self._dropped(t, skip))
