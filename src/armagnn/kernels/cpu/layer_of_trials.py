"""An ARMA layer of several steps for one or many trials, trial by trial: `stack_by_stack` has the kernels.

Unlike those of signals, the states are kept for the backward pass: to draw the masks of the skip connections again
costs more than to bring the states of a batch of graphs from memory. L X is kept as well; all threads have a share of
it. Where trials are few, the stacks of each are shared out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.kernels import layer_plan
from armagnn.kernels.cpu import sparse, stack_by_stack
from armagnn.kernels.cpu.compile import to_numpy
from armagnn.kernels.cpu.stack_by_stack import Graph, Layers, graphs_of, layers_of
from armagnn.kernels.layer_plan import Tensors
from armagnn.kernels.products import split


def _inputs(t: Tensors) -> tuple[Graph, Graph, Layers, Tensor]:
    """Return the operator, its transpose, the layers, and X with the trials first (or 1, if they share it)."""
    assert t.x is not None
    assert t.w0 is not None
    assert t.w is not None
    s, own, fan_in = t.settings, t.x.dim() == 3, t.x.shape[-1]

    def of_stacks(weight: Tensor) -> Tensor:
        """Return (..., R, F_in, K * F_out) or (..., F_in, R * K * F_out) as (R, ..., K, F_in, F_out)."""
        stacked = weight.view(*weight.shape[:-1], -1, s.stacks, s.width)  # (..., F_in, R or 1, K, F_out)
        if own:
            return stacked.squeeze(-3).transpose(-3, -2).movedim(-4, 0)
        return stacked.movedim(-4, -2).movedim(-4, 0)

    layers = layers_of(
        s,
        t.seed,
        s.p if isinstance(s.p, Tensor) else torch.zeros(t.trials),
        of_stacks(t.w0),
        split(t.w, 1, t.trials, s.stacks).movedim(1, 0),
        of_stacks(t.v),
        None if t.bias is None else t.bias.view(-1, t.trials, s.stacks, s.width).movedim(1, 0),
    )
    return *graphs_of(t.op, fan_in, s.width), layers, _trials_first(t.x)


def _trials_first(x: Tensor) -> Tensor:
    return x.transpose(0, 1) if x.dim() == 3 else x.unsqueeze(0)


def _parts(t: Tensors) -> int:
    """Return into how many parts the stacks of a trial are shared out: no bit shall depend on the threads there are.

    Each part has gradients of X and L X of its own, so they are few.
    """
    return min(t.settings.stacks, layer_plan.FEWEST) if t.trials < layer_plan.FEWEST else 1


def forward(t: Tensors, keep: bool) -> tuple[Tensor, list[Tensor]]:
    """Return the mean of the stacks, shape (N * R, F_out), and, to keep for the way back, the states and L X."""
    assert t.x is not None
    graph, _, layers, x = _inputs(t)
    lx = _trials_first(_propagate(t.op[:3], t.x)).contiguous()
    out, kept = stack_by_stack.forward(graph, layers, to_numpy(x), t.trials, keep, lx.numpy(), _parts(t))
    return torch.from_numpy(out).transpose(0, 1).reshape(-1, t.settings.width), [torch.from_numpy(kept), lx]


def _propagate(matrix: tuple[Any, ...], x: Tensor) -> Tensor:
    """Return L x, or that of another matrix, for x of shape (N, F_in) or (N, R, F_in)."""
    rowptr, col, value = matrix
    return sparse.gcs(rowptr, col, value, x.flatten(1), None, None, "none", 0.0).view(x.shape)


def backward(t: Tensors, g: Tensor, kept: list[Tensor], needs_x: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients of x, W0, W, V and the bias from that of the mean."""
    assert t.x is not None
    graph, transposed, layers, x = _inputs(t)
    (states, lx), own = kept, t.x.dim() == 3
    of_trials = to_numpy(g.reshape(-1, t.trials, t.settings.width).transpose(0, 1))
    x_grad, lx_grad, *found = stack_by_stack.backward(
        graph, transposed, layers, to_numpy(x), states.numpy(), of_trials, t.trials, needs_x, lx.numpy(), _parts(t)
    )
    w0_grad, w_grad, v_grad, bias_grad = map(torch.from_numpy, found)

    def of_features(weight: Tensor) -> Tensor:
        """Return a gradient (R, ..., K, F_in, F_out) in the shape of the weights."""
        if own:
            return weight.movedim(0, -4).transpose(-3, -2).flatten(-2)
        return weight.movedim(0, -4).movedim(-2, -4).flatten(-3)

    def of_x() -> Tensor:
        through, around = (
            each.transpose(0, 1).contiguous() if own else each.sum(0)
            for each in map(torch.from_numpy, (lx_grad, x_grad))
        )
        return _propagate(t.op[3:6], through).add_(around)

    return (
        of_x() if needs_x else None,
        of_features(w0_grad),
        w_grad.movedim(0, 1).flatten(1, 2),
        of_features(v_grad),
        None if t.bias is None else bias_grad.movedim(0, 1).flatten(1),
    )
