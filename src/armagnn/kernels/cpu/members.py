"""An ARMA layer of several steps, signal by signal or trial by trial: `stack_by_stack` has the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels.backends import Layer, Matrix
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import Array, kind_of, to_numpy
from armagnn.kernels.cpu.dense import MULTIPLY
from armagnn.kernels.cpu.masks import DROP_ROWS
from armagnn.kernels.cpu.sparse import PRODUCT, column_blocks, gcs
from armagnn.kernels.cpu.stack_by_stack import Graph, Layers, backward_members, forward_members
from armagnn.randomness import MASK, thresholds

FEWEST = 4
"""Minimum number of trials (or of stacks, for fewer trials) worth distributing over threads. A constant, not the thread
count, so that results do not depend on the machine."""

GROUPS = 32
"""Parts of a batch of signals; each part has a separate sum of gradients."""

ACTIVATIONS = ("none", "relu", "leaky_relu", "elu")
"""Those that this applies."""

SLOPES = {"none": 1.0, "relu": 0.0}
"""What an activation multiplies negative numbers by; a leaky ReLU has its own, and an ELU its alpha in that place."""


def _graphs(op: Matrix, fan_in: int, width: int) -> tuple[Graph, Graph]:
    """Return an operator and its transpose as the kernels take them."""
    rowptr, col, value, t_rowptr, t_col, t_value = (to_numpy(part) for part in op[:6])
    real, index = value.dtype, col.dtype
    blocks, nothing = (column_blocks(fan_in), column_blocks(width)), np.zeros((1, max(fan_in, width)), real)
    product = PRODUCT.address(real, real, index, rowptr.dtype)
    rest = *blocks, nothing, product, MULTIPLY.address(real), DROP_ROWS.address(real)
    return Graph(rowptr, col, value, *rest), Graph(t_rowptr, t_col, t_value, *rest)


def _layers(t: Layer) -> Layers:
    """Return the layers as the kernels take them, with a seed and a drop rate for each trial."""
    s, trials = t.settings, max(t.trials, 1)
    given = t.w0, t.w, t.v, t.bias
    w0, w, v, bias = (each if each is None or t.trials else each.unsqueeze(0) for each in given)
    assert w is not None
    assert v is not None
    _, versions, fan_in, stacks, width = v.shape
    if w0 is None:
        w0 = v[:, 0] if s.init == "tied" else v.new_zeros(1).expand(trials, fan_in, stacks, width)
    bias = v.new_zeros(1).expand(trials, versions, stacks, width) if bias is None else bias
    keys = torch.zeros(trials, dtype=torch.int64) if t.seed is None else t.seed.reshape(trials)
    rates = torch.as_tensor(s.p if t.seed is not None else 0.0, dtype=torch.float64).reshape(-1).expand(trials)
    return Layers(
        to_numpy(w0.transpose(1, 2)), to_numpy(w), to_numpy(v.transpose(2, 3)), to_numpy(bias), s.steps,
        s.init != "zero", s.act == "elu", kind_of(v)(SLOPES.get(s.act, s.slope)),
        t.seed is not None and bool((rates > 0).any()), to_numpy(torch.stack([keys & MASK, (keys >> 32) & MASK], 1)),
        thresholds(rates).numpy(), to_numpy((1.0 / (1.0 - rates)).to(v.dtype)),
    )  # fmt: skip


def _parts(t: Layer) -> int:
    """Return into how many parts the stacks of a trial are shared out: no bit shall depend on the threads there are.

    Each part has separate gradients of X and L X, so there are few parts.
    """
    return min(t.settings.stacks, FEWEST) if 0 < t.trials < FEWEST else 1


def _propagated(matrix: Matrix, x: Tensor) -> Tensor:
    """Return L x, or that of another matrix, for x of shape (B, N, F)."""
    wide = x.transpose(0, 1).flatten(1)
    rowptr, col, value = matrix
    out = gcs(rowptr, col, value, wide, None, None, "none", 0.0)
    return out.view(x.shape[1], x.shape[0], x.shape[2]).transpose(0, 1)


def _share_out(kernel: Any, arguments: tuple[Any, ...], parts: int) -> None:
    """Share the parts out, in more pieces than there are threads: one held up leaves the rest to others."""
    pieces = min(parts, 4 * torch.get_num_threads())
    threads.share_out(kernel, arguments, [parts * k // pieces for k in range(pieces + 1)])


def _sum(numbers: Array, parts: int) -> Tensor:
    """Return the sums over the parts of each signal or trial; numpy adds them up in order, on one thread."""
    return torch.from_numpy(numbers if parts == 1 else numbers.reshape(-1, parts, *numbers.shape[1:]).sum(1))


def _features(t: Layer) -> Tensor:
    """Return X, (B, N, F_in), of signals or trials; with B = 1, all share it."""
    assert t.x is not None
    return t.x.reshape(t.x.shape[:-2].numel(), *t.x.shape[-2:])


def keeps(t: Layer) -> bool:
    """Return whether there are trials: signals compute their states on the way back."""
    return t.trials > 0


def forward(t: Layer, keep: bool) -> tuple[Tensor, list[Tensor]]:
    """Return the mean of the stacks, and of trials the states, (R, K, T * N, F_out), and L X for the way back.

    To draw the masks of trials again would cost more than to bring their states from memory. For signals it costs less
    to compute the states again, and there is nothing to keep. L X of trials is computed by all threads.
    """
    x, s, parts = _features(t), t.settings, _parts(t)
    (count, nodes, fan_in), keep = x.shape, keep and t.trials > 0
    count = t.trials or count
    lx = _propagated(t.op[:3], x).contiguous() if t.trials else x[:0]
    out = np.empty((count * parts, nodes, s.width), kind_of(t.v))
    kept = np.empty((count if keep else 0, s.stacks, s.steps * nodes, s.width), out.dtype)
    graph, _ = _graphs(t.op, fan_in, s.width)
    _share_out(forward_members, (graph, _layers(t), to_numpy(x), lx.numpy(), kept, out, parts), count * parts)
    lead = (t.trials,) if t.trials else t.x.shape[:-2]  # type: ignore[union-attr]
    return _sum(out, parts).view(*lead, nodes, s.width), [torch.from_numpy(kept), lx] if keep else []


def backward(t: Layer, g: Tensor, kept: list[Tensor], needs_x: bool, consume: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients of x, W0, W, V and the bias from that of the mean."""
    x, s, parts, layers = _features(t), t.settings, _parts(t), _layers(t)
    (count, nodes, fan_in), real = x.shape, kind_of(t.v)
    count = t.trials or count
    groups = t.trials or min(count, GROUPS)
    states, lx = kept if t.trials else (x.new_empty(0, 1, 1, 1), x[:0])
    used = layers.w0, layers.w, layers.v, layers.bias
    turned = (np.ascontiguousarray(np.swapaxes(weight, -1, -2)) for weight in used[:3])
    found = [np.zeros((groups, *weight.shape[1:]), real) for weight in used]
    place = (count * parts, nodes, fan_in) if needs_x else (1, 1, 1)
    x_grad, lx_grad = np.empty(place, real), np.empty(place if t.trials else (1, 1, 1), real)
    graph, transposed = _graphs(t.op, fan_in, s.width)
    arguments = (
        graph, layers, transposed, *turned, to_numpy(x), lx.numpy(), states.numpy(),
        to_numpy(g.reshape(count, nodes, s.width)), needs_x, x_grad, lx_grad, *found, parts,
    )  # fmt: skip
    _share_out(backward_members, arguments, groups * parts)
    # signals share their weights: numpy sums on one thread, always in the same order
    sums = (torch.from_numpy(total if t.trials else total.sum(0)) for total in found)
    w0_grad, w_grad, v_grad, bias_grad = sums
    if s.init == "tied":
        v_grad.select(-4, 0).add_(w0_grad)
    to_x = _gradient_of_x(t, _sum(x_grad, parts), _sum(lx_grad, parts)) if needs_x else None
    first = w0_grad.transpose(-3, -2) if s.init == "linear" else None
    return to_x, first, w_grad, v_grad.transpose(-3, -2), None if t.bias is None else bias_grad


def _gradient_of_x(t: Layer, around: Tensor, through: Tensor) -> Tensor:
    """Return the gradient of X from what reached it, and of trials L X; of an X that they share, the sum."""
    assert t.x is not None
    if not t.trials:
        return around.view(t.x.shape)
    if t.x.dim() == 2:
        around, through = around.sum(0, keepdim=True), through.sum(0, keepdim=True)
    return _propagated(t.op[3:6], through).add_(around).view(t.x.shape)
