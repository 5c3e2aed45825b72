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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from armagnn.kernels import threads
from armagnn.kernels.compiled import compiled
from armagnn.kernels.cpu import Array, _blocks, _numpy, _philox, _product_rows
from armagnn.kernels.random import DROPOUT, MASK, threshold
from armagnn.kernels.tile import ACTIVATED, GATED, PLAIN, VECTOR, multiply

ROWS = 32
"""Nodes whose neighbours are gathered before they are multiplied: what they gather stays in the first-level cache."""

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
    starts: bool
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
def _matrix(rows: int, columns: int, like: Array) -> Array:
    # It begins where a vector of the processor does: others are loaded in two halves, at half the speed.
    raw = np.empty(rows * columns + VECTOR // like.itemsize, like.dtype)
    first = (-raw.ctypes.data % VECTOR) // like.itemsize
    return raw[first : first + rows * columns].reshape((rows, columns))


@compiled()
def _room(x: Array, width: int, states: int) -> _Room:
    _, nodes, fan_in = x.shape
    return _Room(
        _matrix(nodes, fan_in, x), _matrix(nodes, width, x), _matrix(ROWS, width, x), _matrix(ROWS, width, x),
        np.empty(width + 8, np.uint32), _matrix(states * nodes, width, x),
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
def _drop(layer: _Layer, x: Array, out: Array, node: int, b: int, batch: int, k: int, t: int, words: Array) -> None:
    # The mask of an entry depends on its place in the states of the whole batch, (N, batch, K, F_out), as everywhere.
    width, stacks, zero = x.shape[1], layer.bias.shape[1], layer.scale - layer.scale
    key0, key1 = layer.key
    for n in range(x.shape[0]):
        place = (((node + n) * batch + b) * stacks + k) * width
        first = place // 4
        _philox(first, (place + width + 3) // 4 - first, key0, key1, t, DROPOUT, words)
        row, target, drawn = x[n], out[n], words[place - 4 * first :]
        for c in range(width):
            target[c] = row[c] * layer.scale if drawn[c] >= layer.limit else zero


@compiled()
def _add(out: Array, x: Array) -> None:
    for i in range(out.size):
        out[i] += x[i]


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
                _drop(layer, skip[lo:hi], start, lo, b, batch, k, t, room.words)
                for n in range(hi - lo):
                    _add(start[n], late[0])
            if t == 0:
                multiply(state, start, room.lx[lo:hi], layer.w0[k], ACTIVATED, state, layer.slope)
            else:
                _propagate(graph, below, graph.blocks, block, lo, hi)
                multiply(state, start, block, layer.w[min(t, layer.w.shape[0]) - 1, k], ACTIVATED, state, layer.slope)


@compiled()
def _propagate_x(graph: _Graph, layer: _Layer, x: Array, room: _Room) -> None:
    if layer.starts:
        _propagate(graph, x, graph.x_blocks, room.lx, 0, x.shape[0])
    else:
        room.lx[:] = layer.slope - layer.slope


@compiled()
def _forward(graph: _Graph, layer: _Layer, x: Array, out: Array, lo: int, hi: int) -> None:
    nodes, width, places = x.shape[1], out.shape[2], min(layer.steps, 2)
    room, stacks = _room(x, width, places), layer.bias.shape[1]
    last, share = (layer.steps - 1) % places * nodes, x.dtype.type(1 / stacks)
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
def _backward(
    graph: _Graph, layer: _Layer, transposed: _Graph, w0_t: Array, w_t: Array, v_t: Array, x: Array, g: Array,
    needs_x: bool, x_grad: Array, w0_grad: Array, w_grad: Array, v_grad: Array, bias_grad: Array, lo: int, hi: int,
) -> None:  # fmt: skip
    batch, nodes, fan_in = x.shape
    groups, versions, stacks, width = bias_grad.shape
    steps, slope, nothing = layer.steps, layer.slope, graph.nothing
    zero, room = slope - slope, _room(x, width, steps)
    skip, lifted = room.skip, _matrix(nodes, fan_in, x)
    pre, above = _matrix(nodes, width, x), _matrix(nodes, width, x)
    for group in range(lo, hi):
        for b in range(batch * group // groups, batch * (group + 1) // groups):
            _propagate_x(graph, layer, x[b], room)
            lifted[:] = zero
            for k in range(stacks):
                _run(graph, layer, x, b, k, room)
                skip[:] = zero  # from here on the gradient of X V
                for t in range(steps - 1, -1, -1):
                    pre, above = above, pre
                    version = min(t, versions - 1)
                    for r0 in range(0, nodes, ROWS):
                        r1 = min(r0 + ROWS, nodes)
                        here, block, state = (
                            pre[r0:r1],
                            room.block[: r1 - r0],
                            room.states[t * nodes + r0 : t * nodes + r1],
                        )
                        if t == steps - 1:
                            for n in range(r1 - r0):
                                row, source, gate = here[n], g[b, r0 + n], state[n]
                                for c in range(width):
                                    less = zero if slope == zero else source[c] * slope
                                    row[c] = less if gate[c] <= zero else source[c]
                        else:
                            step = min(t + 1, w_t.shape[0]) - 1
                            total = w_grad[group, step, k]
                            _propagate(transposed, above, graph.blocks, block, r0, r1)
                            multiply(total, total, state.T, block, PLAIN, total, slope)
                            multiply(here, nothing, block, w_t[step, k], GATED, state, slope)
                        if layer.drops:
                            for n in range(r1 - r0):
                                _add(bias_grad[group, version, k], here[n])
                            here = room.dropped[: r1 - r0]
                            _drop(layer, pre[r0:r1], here, r0, b, batch, k, t, room.words)
                        _add(skip[r0:r1].reshape(-1), here.reshape(-1))
                    if t > 0 and versions == 1:
                        continue
                    if not layer.drops:
                        for n in range(nodes):
                            _add(bias_grad[group, version, k], skip[n])
                    total = v_grad[group, version, k]
                    multiply(total, total, x[b].T, skip, PLAIN, total, slope)
                    if needs_x:
                        multiply(x_grad[b], x_grad[b], skip, v_t[version, k], PLAIN, x_grad[b], slope)
                    skip[:] = zero
                if layer.starts:
                    total = w0_grad[group, k]
                    multiply(total, total, room.lx.T, pre, PLAIN, total, slope)
                    if needs_x:
                        multiply(lifted, lifted, pre, w0_t[k], PLAIN, lifted, slope)
            if layer.starts and needs_x:
                _propagate(transposed, lifted, graph.x_blocks, room.lx, 0, nodes)
                _add(x_grad[b].reshape(-1), room.lx.reshape(-1))


def _of_graph(matrix: tuple[Any, ...], x: Tensor, width: int) -> _Graph:
    rowptr, col, value = (_numpy(part) for part in matrix)
    nothing = np.zeros((1, max(x.shape[2], width)), value.dtype)
    return _Graph(rowptr, col, value, _blocks(x.shape[2])[:2], _blocks(width)[:2], nothing)


def _of_layer(settings: Any, seed: Tensor | None, weights: tuple[Tensor | None, ...]) -> _Layer:
    w0, w, v, bias = weights
    assert v is not None
    versions, fan_in, stacks, width = *v.shape[:2], settings.stacks, settings.width
    none = v.new_zeros(1)
    kind = _numpy(none).dtype.type
    key, p = (0, 0.0) if seed is None else (int(seed.item()), float(settings.p))
    return _Layer(
        _numpy((none.expand(fan_in, stacks * width) if w0 is None else w0).view(fan_in, stacks, width).transpose(0, 1)),
        _numpy(none.expand(1, stacks, width, width) if w is None else w),
        _numpy(v.view(versions, fan_in, stacks, width).transpose(1, 2)),
        _numpy((none.expand(versions, stacks * width) if bias is None else bias).view(versions, stacks, width)),
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
    _share_out(_forward, (graph, layer, _numpy(x), out.numpy()), x.shape[0])
    return out


def backward(
    settings: Any, op: tuple[Any, ...], seed: Tensor | None, g: Tensor, x: Tensor, weights: tuple[Tensor | None, ...],
    needs_x: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return the gradients of x and the weights from that of the mean."""
    layer, groups = _of_layer(settings, seed, weights), min(x.shape[0], GROUPS)
    used = (layer.w0, layer.w, layer.v, layer.bias)
    turned = (np.ascontiguousarray(np.swapaxes(weight, -1, -2)) for weight in used[:3])
    found = [torch.zeros(groups, *weight.shape, dtype=x.dtype) for weight in used]
    x_grad = torch.zeros(x.shape if needs_x else (1, 1, 1), dtype=x.dtype)
    arguments = (
        _of_graph(op[:3], x, settings.width), layer, _of_graph(op[3:6], x, settings.width), *turned,
        _numpy(x), _numpy(g * (1.0 / settings.stacks)), needs_x, x_grad.numpy(), *(total.numpy() for total in found),
    )  # fmt: skip
    _share_out(_backward, arguments, groups)
    w0_grad, w_grad, v_grad, bias_grad = (total.sum(0) for total in found)
    sums = (w0_grad.transpose(0, 1).flatten(1), w_grad, v_grad.transpose(1, 2).flatten(2), bias_grad.flatten(1))
    return x_grad if needs_x else None, *(
        None if weight is None else total for weight, total in zip(weights, sums, strict=True)
    )
