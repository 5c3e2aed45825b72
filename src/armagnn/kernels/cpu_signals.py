"""A whole ARMA layer for a batch of signals on a small graph, stack by stack of each signal, in numba.

The states of one stack on one signal, (N, F_out), stay in the cache of a core over all steps, where those of a batch do
not; and threads share the signals out once in a layer, not at every product. A step goes over the nodes in blocks of
rows. What their neighbours have is gathered and at once multiplied by W, and the product is finished as it is written:

    S'[rows]  =  σ( (L S)[rows] W + dropout(X V)[rows] + bias )

The backward pass computes the states of a stack again: that costs less than bringing those of all signals from memory,
and there is nothing to keep. With P the gradient before the activation of a step, and P' that of the step before,

    D[rows]  =  (L^T P)[rows],      ∇W  +=  S[rows]^T D[rows],      P'[rows]  =  σ'(S[rows]) * (D[rows] W^T).

A gradient of weights is a sum over the signals. It is taken in `GROUPS` parts, each by one thread in a fixed order: the
same bits for every thread count.

The first call on a machine waits about ten seconds for the compiler. numba's cache on disk knows this file by its date:
touch it after a change to gather.py, tile.py or cpu.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels import threads
from armagnn.kernels.compiled import compiled
from armagnn.kernels.cpu import _blocks, _product_rows
from armagnn.kernels.cpu_arrays import Array, to_numpy
from armagnn.kernels.cpu_dropout import philox
from armagnn.kernels.random import DROPOUT, MASK, threshold
from armagnn.kernels.tile import ACTIVATED, GATED, PLAIN, matrix, multiply

ROWS = 128
"""Nodes whose neighbours are gathered before they are multiplied: few enough to stay near, and many enough for ∇W."""

GROUPS = 32
"""Parts of a batch of which each has a sum of gradients of its own."""

SLOPES = {"none": 1.0, "relu": 0.0}
"""What an activation multiplies negative numbers by; a leaky ReLU has its own."""


class _Graph(NamedTuple):
    """A sparse matrix, and the blocks of columns in which X and the states are gathered."""

    rowptr: Array
    col: Array
    value: Array
    x_blocks: tuple[Array, Array]
    blocks: tuple[Array, Array]
    nothing: Array


class _Layer(NamedTuple):
    """The weights, all with an axis of stacks before the matrices (zeros where there are none), and the settings."""

    w0: Array
    w: Array
    v: Array
    bias: Array
    steps: int
    propagates_x: bool
    slope: Any
    drops: bool
    key: tuple[int, int]
    limit: Any
    scale: Any


class _Room(NamedTuple):
    """What a thread works in: L X, X V, the rows that were gathered, those left by dropout, its words, and states."""

    lx: Array
    skip: Array
    block: Array
    dropped: Array
    words: Array
    states: Array


@compiled()
def _room(x: Array, width: int, states: int) -> _Room:
    _, nodes, fan_in = x.shape
    return _Room(
        matrix(nodes, fan_in, x), matrix(nodes, width, x), matrix(ROWS, width, x), matrix(ROWS, width, x),
        np.empty(width + 8, np.uint32), matrix(states * nodes, width, x),
    )  # fmt: skip


@compiled()
def _propagate(graph: _Graph, x: Array, blocks: tuple[Array, Array], out: Array, lo: int, hi: int) -> None:
    """Write rows lo to hi of L x to the first rows of out."""
    starts, widths = blocks
    _product_rows(
        graph.rowptr[lo : hi + 1], graph.col, graph.value, x, graph.nothing, graph.nothing[0], False, False,
        graph.value.dtype.type(1), starts, widths, out, 0, hi - lo,
    )  # fmt: skip


@compiled()
def _drop(
    layer: _Layer, x: Array, bias: Array, out: Array, node: int, b: int, batch: int, k: int, t: int, words: Array
) -> None:
    # The mask of an entry depends on its place in the states of the whole batch, (N, batch, K, F_out), as everywhere.
    width, stacks, zero = x.shape[1], layer.bias.shape[1], layer.scale - layer.scale
    key0, key1 = layer.key
    for n in range(x.shape[0]):
        place = (((node + n) * batch + b) * stacks + k) * width
        first = place // 4
        philox(first, (place + width + 3) // 4 - first, key0, key1, t, DROPOUT, words)
        for c in range(width):
            kept = words[place - 4 * first + c] >= layer.limit
            out[n, c] = (x[n, c] * layer.scale if kept else zero) + bias[0, c]


@compiled()
def _add(out: Array, x: Array) -> None:
    for i in range(out.size):
        out[i] += x[i]


@compiled()
def _gate(out: Array, g: Array, share: Any, state: Array, slope: Any) -> None:
    zero = slope - slope
    for i in range(out.size):
        z = g[i] * share
        out[i] = (zero if slope == zero else z * slope) if state[i] <= zero else z


@compiled()
def _run(graph: _Graph, layer: _Layer, x: Array, b: int, k: int, room: _Room) -> None:
    """Compute the states of a stack on signal b, which take turns where there is no room for all, from L X."""
    batch, nodes, _ = x.shape
    skip, places = room.skip, room.states.shape[0] // nodes
    for t in range(layer.steps):
        version = min(t, layer.v.shape[0] - 1)
        late = layer.bias[version, k : k + 1]
        if t == version:  # the bias rides along with X V, unless dropout must not see it
            multiply(skip, graph.nothing if layer.drops else late, x[b], layer.v[version, k], PLAIN, skip, layer.slope)
        now, before = t % places * nodes, (t - 1) % places * nodes
        below = room.states[before : before + nodes]
        for lo in range(0, nodes, ROWS):
            hi = min(lo + ROWS, nodes)
            start, state, block = skip[lo:hi], room.states[now + lo : now + hi], room.block[: hi - lo]
            if layer.drops:
                start = room.dropped[: hi - lo]
                _drop(layer, skip[lo:hi], late, start, lo, b, batch, k, t, room.words)
            if t == 0:
                multiply(state, start, room.lx[lo:hi], layer.w0[k], ACTIVATED, state, layer.slope)
            else:
                _propagate(graph, below, graph.blocks, block, lo, hi)
                multiply(state, start, block, layer.w[min(t, layer.w.shape[0]) - 1, k], ACTIVATED, state, layer.slope)


@compiled()
def _propagate_x(graph: _Graph, layer: _Layer, x: Array, room: _Room) -> None:
    if layer.propagates_x:
        _propagate(graph, x, graph.x_blocks, room.lx, 0, x.shape[0])
    else:
        room.lx[:] = layer.slope - layer.slope


@compiled()
def _forward(graph: _Graph, layer: _Layer, x: Array, out: Array, lo: int, hi: int) -> None:
    nodes, stacks = x.shape[1], layer.bias.shape[1]
    room = _room(x, out.shape[2], 2)
    last, share = (layer.steps - 1) % 2 * nodes, x.dtype.type(1 / stacks)
    for b in range(lo, hi):
        _propagate_x(graph, layer, x[b], room)
        total = out[b].reshape(-1)
        total[:] = share - share
        for k in range(stacks):
            _run(graph, layer, x, b, k, room)
            _add(total, room.states[last : last + nodes].reshape(-1))
        for i in range(total.size):
            total[i] *= share


@compiled()
def _step_back(
    transposed: _Graph, layer: _Layer, w_t: Array, b: int, batch: int, k: int, t: int, g: Array, above: Array,
    pre: Array, room: _Room, w_grad: Array,
) -> None:  # fmt: skip
    """Compute P of step t from that of the step above, of the last from g, and add to the gradients of X V and W."""
    nodes, nothing = pre.shape[0], transposed.nothing
    share, step = pre.dtype.type(1 / layer.bias.shape[1]), min(t + 1, w_t.shape[0]) - 1
    for lo in range(0, nodes, ROWS):
        hi = min(lo + ROWS, nodes)
        here, state, block = pre[lo:hi], room.states[t * nodes + lo : t * nodes + hi], room.block[: hi - lo]
        if t == layer.steps - 1:
            _gate(here.reshape(-1), g[lo:hi].reshape(-1), share, state.reshape(-1), layer.slope)
        else:
            total = w_grad[step, k]
            _propagate(transposed, above, transposed.blocks, block, lo, hi)
            multiply(total, total, state.T, block, PLAIN, total, layer.slope)
            multiply(here, nothing, block, w_t[step, k], GATED, state, layer.slope)
        if layer.drops:
            here = room.dropped[: hi - lo]
            _drop(layer, pre[lo:hi], nothing, here, lo, b, batch, k, t, room.words)
        _add(room.skip[lo:hi].reshape(-1), here.reshape(-1))


@compiled()
def _backward(
    graph: _Graph, layer: _Layer, transposed: _Graph, w0_t: Array, w_t: Array, v_t: Array, x: Array, g: Array,
    needs_x: bool, x_grad: Array, w0_grad: Array, w_grad: Array, v_grad: Array, bias_grad: Array, lo: int, hi: int,
) -> None:  # fmt: skip
    batch, nodes, fan_in = x.shape
    groups, versions, stacks, width = bias_grad.shape
    slope, zero, ones = layer.slope, layer.slope - layer.slope, np.ones((1, nodes), x.dtype)
    pre, above, lifted = matrix(nodes, width, x), matrix(nodes, width, x), matrix(nodes, fan_in, x)
    room = _room(x, width, layer.steps)
    skip = room.skip  # X V while the states are computed, its gradient after that
    for group in range(lo, hi):
        for b in range(batch * group // groups, batch * (group + 1) // groups):
            _propagate_x(graph, layer, x[b], room)
            lifted[:] = zero
            for k in range(stacks):
                _run(graph, layer, x, b, k, room)
                skip[:] = zero
                for t in range(layer.steps - 1, -1, -1):
                    pre, above = above, pre
                    _step_back(transposed, layer, w_t, b, batch, k, t, g[b], above, pre, room, w_grad[group])
                    version, complete = min(t, versions - 1), t == 0 or versions > 1
                    if layer.drops or complete:  # the bias is added behind dropout
                        total = bias_grad[group, version, k : k + 1]
                        multiply(total, total, ones, pre if layer.drops else skip, PLAIN, total, slope)
                    if complete:
                        total = v_grad[group, version, k]
                        multiply(total, total, x[b].T, skip, PLAIN, total, slope)
                        if needs_x:
                            multiply(x_grad[b], x_grad[b], skip, v_t[version, k], PLAIN, x_grad[b], slope)
                        skip[:] = zero
                if layer.propagates_x:
                    total = w0_grad[group, k]
                    multiply(total, total, room.lx.T, pre, PLAIN, total, slope)
                    if needs_x:
                        multiply(lifted, lifted, pre, w0_t[k], PLAIN, lifted, slope)
            if layer.propagates_x and needs_x:
                _propagate(transposed, lifted, transposed.x_blocks, room.lx, 0, nodes)
                _add(x_grad[b].reshape(-1), room.lx.reshape(-1))


def _of_graph(matrix: tuple[Any, ...], x: Tensor, width: int) -> _Graph:
    rowptr, col, value = (to_numpy(part) for part in matrix)
    nothing = np.zeros((1, max(x.shape[2], width)), value.dtype)
    return _Graph(rowptr, col, value, _blocks(x.shape[2]), _blocks(width), nothing)


def _of_layer(settings: Any, seed: Tensor | None, weights: tuple[Tensor | None, ...]) -> _Layer:
    w0, w, v, bias = weights
    assert v is not None
    assert w is not None
    versions, fan_in, stacks, width = *v.shape[:2], settings.stacks, settings.width
    none = v.new_zeros(1)
    kind = to_numpy(none).dtype.type
    key, p = (0, 0.0) if seed is None else (int(seed.item()), float(settings.p))
    return _Layer(
        to_numpy(
            (none.expand(fan_in, stacks * width) if w0 is None else w0).view(fan_in, stacks, width).transpose(0, 1)
        ),
        to_numpy(w),
        to_numpy(v.view(versions, fan_in, stacks, width).transpose(1, 2)),
        to_numpy((none.expand(versions, stacks * width) if bias is None else bias).view(versions, stacks, width)),
        settings.steps,
        w0 is not None,
        kind(SLOPES.get(settings.act, settings.slope)),
        p > 0,
        (key & MASK, (key >> 32) & MASK),
        np.uint32(threshold(p)),
        kind(1.0 / (1.0 - p)),
    )


def _share_out(kernel: Any, arguments: tuple[Any, ...], parts: int) -> None:
    """Share the parts of a batch out, in more pieces than there are threads: one held up leaves the rest to others."""
    pieces = min(parts, 4 * torch.get_num_threads())
    threads.share_out(kernel, arguments, [parts * k // pieces for k in range(pieces + 1)])


def forward(
    settings: Any, op: tuple[Any, ...], seed: Tensor | None, x: Tensor, weights: tuple[Tensor | None, ...]
) -> Tensor:
    """Return the mean of the stacks, shape (B, N, F_out), for x of shape (B, N, F_in); weights as in `arma_layer`."""
    out = torch.empty(*x.shape[:2], settings.width, dtype=x.dtype)
    graph, layer = _of_graph(op[:3], x, settings.width), _of_layer(settings, seed, weights)
    _share_out(_forward, (graph, layer, to_numpy(x), out.numpy()), x.shape[0])
    return out


def backward(
    settings: Any, op: tuple[Any, ...], seed: Tensor | None, g: Tensor, x: Tensor, weights: tuple[Tensor | None, ...],
    needs_x: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of x and the weights from that of the mean."""
    layer, groups = _of_layer(settings, seed, weights), min(x.shape[0], GROUPS)
    used = (layer.w0, layer.w, layer.v, layer.bias)
    turned = (np.ascontiguousarray(np.swapaxes(weight, -1, -2)) for weight in used[:3])
    found = [np.zeros((groups, *weight.shape), weight.dtype) for weight in used]
    x_grad = np.zeros(x.shape if needs_x else (1, 1, 1), layer.v.dtype)
    arguments = (
        _of_graph(op[:3], x, settings.width), layer, _of_graph(op[3:6], x, settings.width), *turned,
        to_numpy(x), to_numpy(g), needs_x, x_grad, *found,
    )  # fmt: skip
    _share_out(_backward, arguments, groups)
    # numpy sums on one thread, always in the same order
    w0_grad, w_grad, v_grad, bias_grad = (torch.from_numpy(total.sum(0)) for total in found)
    sums = (w0_grad.transpose(0, 1).flatten(1), w_grad, v_grad.transpose(1, 2).flatten(2), bias_grad.flatten(1))
    return torch.from_numpy(x_grad) if needs_x else None, *(
        None if weight is None else total for weight, total in zip(weights, sums, strict=True)
    )
