"""The convergent ARMA layer: every stack iterated to its fixed point (Theorem 1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.checks import real_tensor
from armagnn.errors import ParameterError, ShapeError
from armagnn.kernels import Settings
from armagnn.nn.recursion import Recursion
from armagnn.operators import CSR, GraphOperator
from armagnn.solvers import FixedPoint, Solution


@dataclass(frozen=True)
class _Step:
    """One GCS step of the stacks that are asked for, as a `Map` of the solvers: states of shape (K', N * batch * F)."""

    op: GraphOperator
    weight: Tensor  # W, (K, F, F)
    skip: Tensor  # dropout(X V) + bias, (N * batch, K, F)
    settings: Settings
    activation: Callable[[Tensor], Tensor] | None

    def __call__(self, state: Tensor, rows: Tensor) -> Tensor:
        weight, skip = self.weight, self.skip
        if rows.shape[0] < weight.shape[0]:
            weight, skip = weight.index_select(0, rows), skip.index_select(1, rows)
        stacks, width = weight.shape[:2]
        h = torch.bmm(state.view(stacks, skip.shape[0], width), weight).transpose(0, 1)
        nodes = self.op.num_nodes
        shape = (nodes, h.numel() // max(nodes, 1))
        h, skip = h.reshape(shape), skip.reshape(shape)
        out = kernels.gcs(*self.op._arguments(), h, skip, None, None, 0.0, 0, self.settings.act, self.settings.slope)
        out = out.view(-1, stacks, width)
        if self.activation is not None:  # of one stack at a time: which others have not stopped yet must not matter
            out = torch.cat([self.activation(stack) for stack in torch.split(out, 1, dim=1)], dim=1)
        return out.transpose(0, 1).reshape(state.shape)

    def detach(self) -> _Step:
        return replace(self, op=self.op.detach(), weight=self.weight.detach(), skip=self.skip.detach())


@torch.compiler.disable  # how many steps there are depends on the values
def converge(
    fixed_point: FixedPoint,
    recursion: Recursion,
    op: GraphOperator,
    features: Tensor | CSR,
    initial: Tensor | None = None,
) -> Solution:
    r"""Solve :math:`\bar X_k = \sigma(\tilde L \bar X_k W_k + X V_k)` for all stacks, each by itself.

    The skip connection, with its one dropout mask, is computed once: it is the same in every step.

    Args:
        fixed_point: how to solve it.
        recursion: the steps; its W is bounded already.
        op: the operator L, whose norm must not be above 1 (`check_operator`).
        features: X, dense of shape (N * batch, F_in), node-major, or sparse of shape (N, F_in).
        initial: X(0), shape (K, N * batch * F_out), zero by default; the solution does not depend on it.

    Returns:
        the states, shape (K, N * batch * F_out), and the statistics of the solve.
    """
    settings, (_, w, _, bias) = recursion.settings, recursion.weights
    assert w is not None
    skip = recursion.skip(0, features)
    if recursion.seed is not None:
        skip = kernels.dropout(skip, recursion.seed, settings.p, 0)
    skip = skip if bias is None else skip + bias.squeeze(0)
    skip = skip.reshape(-1, settings.stacks, settings.width)
    step = _Step(op, w.squeeze(0), skip, settings, recursion.activation)
    if initial is None:
        initial = skip.new_zeros(settings.stacks, skip.shape[0] * settings.width)
    return fixed_point.solve(step, step.detach(), initial)


def check_state(name: str, state: Any, shape: tuple[int, ...], like: Tensor | CSR) -> Tensor:
    """Return a state of all stacks, node-major of shape (K, N * batch * F), from (K, ..., N, F)."""
    if not isinstance(state, Tensor) or tuple(state.shape) != shape:
        found = tuple(state.shape) if isinstance(state, Tensor) else type(state).__name__
        raise ShapeError(f"{name} must be a tensor of shape {shape}, the states of all stacks, got {found}.")
    real_tensor(name, state, str(shape))
    if state.dtype != like.dtype or state.device != like.device:
        raise ParameterError(f"{name} is {state.dtype} on {state.device}, x {like.dtype} on {like.device}: use .to(x).")
    stacks, *batch, nodes, width = shape
    rows = state.reshape(stacks, math.prod(batch), nodes, width).transpose(1, 2)
    return rows.reshape(stacks, math.prod(batch) * nodes * width)
