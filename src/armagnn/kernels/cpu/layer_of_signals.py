"""An ARMA layer for a batch of signals on a small graph, signal by signal: `stack_by_stack` has the kernels.

The backward pass computes the states of a stack again: that costs less than bringing those of all signals from memory,
and there is nothing to keep.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from armagnn.kernels.cpu import stack_by_stack
from armagnn.kernels.cpu.compile import to_numpy
from armagnn.kernels.cpu.stack_by_stack import Graph, Layers, graphs_of, layers_of

GROUPS = 32
"""Parts of a batch of which each has a sum of gradients of its own."""


def _inputs(
    settings: Any, op: tuple[Any, ...], seed: Tensor | None, x: Tensor, weights: tuple[Tensor | None, ...]
) -> tuple[Graph, Graph, Layers]:
    w0, w, v, bias = weights
    assert v is not None
    assert w is not None
    stacks, width = settings.stacks, settings.width
    versions, fan_in = v.shape[:2]
    layers = layers_of(
        settings,
        seed,
        torch.tensor(float(settings.p), dtype=torch.float64),
        None if w0 is None else w0.view(1, fan_in, stacks, width).transpose(1, 2),
        w.unsqueeze(0),
        v.view(1, versions, fan_in, stacks, width).transpose(2, 3),
        None if bias is None else bias.view(1, versions, stacks, width),
    )
    return *graphs_of(op, fan_in, width), layers


def forward(
    settings: Any, op: tuple[Any, ...], seed: Tensor | None, x: Tensor, weights: tuple[Tensor | None, ...]
) -> Tensor:
    """Return the mean of the stacks, shape (B, N, F_out), for x of shape (B, N, F_in); weights as in `arma_layer`."""
    graph, _, layers = _inputs(settings, op, seed, x, weights)
    out, _ = stack_by_stack.forward(graph, layers, to_numpy(x), x.shape[0], keep=False)
    return torch.from_numpy(out)


def backward(
    settings: Any, op: tuple[Any, ...], seed: Tensor | None, g: Tensor, x: Tensor, weights: tuple[Tensor | None, ...],
    needs_x: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of x and the weights from that of the mean."""
    graph, transposed, layers = _inputs(settings, op, seed, x, weights)
    features, groups = to_numpy(x), min(x.shape[0], GROUPS)
    kept = features.reshape(-1)[:0].reshape(0, 1, 1, 1)
    x_grad, _, *found = stack_by_stack.backward(graph, transposed, layers, features, kept, to_numpy(g), groups, needs_x)
    # numpy sums on one thread, always in the same order
    w0_grad, w_grad, v_grad, bias_grad = (torch.from_numpy(total.sum(0)) for total in found)
    sums = (w0_grad.transpose(0, 1).flatten(1), w_grad, v_grad.transpose(1, 2).flatten(2), bias_grad.flatten(1))
    return torch.from_numpy(x_grad) if needs_x else None, *(
        None if weight is None else total for weight, total in zip(weights, sums, strict=True)
    )
