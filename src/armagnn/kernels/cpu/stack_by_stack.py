"""A whole ARMA layer for many signals on a small graph, or for one or many trials, stack by stack of each, in numba.

Signals share their weights, and trials have their own; either way stacks have nothing to do with each other before the
mean (Eq. 16). The states of one stack, (N, F_out), stay in the cache of a core over all steps, where those of all do
not; and threads share the signals or trials, or a few parts of the stacks of each, out once in a layer, not at every
product. A step goes over the nodes in blocks of rows. What their neighbours have is gathered and at once multiplied by
W, and the product is finished as it is written:

    S'[rows]  =  σ( (L S)[rows] W + dropout(X V)[rows] + bias )

With P the gradient before the activation of a step, and P' that of the step before, the backward pass is

    D[rows]  =  (L^T P)[rows],      ∇W  +=  S[rows]^T D[rows],      P'[rows]  =  σ'(S[rows]) * (D[rows] W^T).

The states are kept for it, or computed again, stack by stack: see `members`.

A gradient of weights that signals share is a sum over them. It is taken in parts (``groups``), each by one thread in a
fixed order; a trial is such a part by itself. So the bits are the same for every thread count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from armagnn.kernels.cpu.compile import Array, compiled, inner
from armagnn.kernels.cpu.dense import ACTIVATED, ELU, ELU_GATED, GATED, PLAIN, matrix, multiply
from armagnn.kernels.cpu.masks import drop_rows
from armagnn.kernels.cpu.sparse import product_rows
from armagnn.kernels.cpu.threads import Chunk, begin

ROWS = 320
"""Nodes whose neighbours are gathered before they are multiplied: few enough to stay near, and many enough for ∇W.

Of 128 nodes, a step on 32 images took 5 % longer."""


class Graph(NamedTuple):
    """A sparse matrix, the blocks of columns in which X and the states are gathered, and the addresses of routines."""

    rowptr: Array
    col: Array
    value: Array
    x_blocks: tuple[Array, Array]
    blocks: tuple[Array, Array]
    nothing: Array
    product: int
    multiply: int
    drop: int


class Layers(NamedTuple):
    """The weights, with an axis of trials (one, if signals share them) before the stacks, and what else is done.

    W0 and V are (R, K, F_in, F_out) and (R, 1 or T, K, F_in, F_out), W is (R, 1 or T - 1, K, F_out, F_out), the bias
    (R, 1 or T, K, F_out), all zeros where there is none. Keys, limits and scales of the masks are those of each trial.
    """

    w0: Array
    w: Array
    v: Array
    bias: Array
    steps: int
    propagates_x: bool
    elu: bool
    slope: Any
    drops: bool
    key: Array
    limit: Array
    scale: Array


class _TrialLayer(NamedTuple):
    """The layer of one trial, and where a signal's entries are among those of a batch that shares a seed."""

    w0: Array
    w: Array
    v: Array
    bias: Array
    steps: int
    propagates_x: bool
    elu: bool
    slope: Any
    drops: bool
    key0: int
    key1: int
    limit: Any
    scale: Any
    b: int
    batch: int


class _Room(NamedTuple):
    """What a thread works in: L X unless given, X V, gathered rows, those left by dropout, its words, states, a sum."""

    lx: Array
    skip: Array
    block: Array
    dropped: Array
    places: Array
    words: Array
    states: Array
    part: Array


@inner()
def _room(x: Array, given: bool, width: int, states: int, drops: bool) -> _Room:
    _, nodes, fan_in = x.shape
    blocks = ROWS * (width // 4 + 2) if drops else 0
    return _Room(
        matrix(0 if given else nodes, fan_in, x), matrix(nodes, width, x), matrix(ROWS, width, x),
        matrix(ROWS, width, x), np.empty(blocks, np.int64), np.empty(4 * blocks, np.uint32),
        matrix(states * nodes, width, x), matrix(max(fan_in, width), width, x),
    )  # fmt: skip


@inner()
def _layer(layers: Layers, i: int, count: int) -> _TrialLayer:
    """Return the layer of signal or trial i of so many."""
    r, own = (i, True) if layers.v.shape[0] > 1 else (0, False)
    return _TrialLayer(
        layers.w0[r], layers.w[r], layers.v[r], layers.bias[r], layers.steps, layers.propagates_x, layers.elu,
        layers.slope, layers.drops, layers.key[r, 0], layers.key[r, 1], np.uint32(layers.limit[r]), layers.scale[r],
        0 if own else i, 1 if own else count,
    )  # fmt: skip


@inner()
def _propagate(graph: Graph, x: Array, blocks: tuple[Array, Array], out: Array, lo: int, hi: int) -> None:
    """Write rows lo to hi of L x to the first rows of out."""
    starts, widths = blocks
    product_rows(
        graph.product, graph.rowptr[lo : hi + 1], graph.col, graph.value, x, graph.nothing, graph.nothing[0], False,
        False, graph.value.dtype.type(1), starts, widths, out, 0, hi - lo,
    )  # fmt: skip


@inner()
def _drop(
    graph: Graph, layer: _TrialLayer, x: Array, added: Array, out: Array, node: int, k: int, t: int, room: _Room
) -> None:
    """Write what dropout leaves of rows of X V or of their gradient, plus the rows (or the one row) ``added``."""
    # The mask of an entry depends on its place in the states of the whole batch, (N, batch, K, F_out), as everywhere.
    stacks, width = layer.bias.shape[1], x.shape[1]
    first, across = ((node * layer.batch + layer.b) * stacks + k) * width, layer.batch * stacks * width
    drop_rows(
        graph.drop, x, added, out, first, across, layer.limit, layer.scale, layer.key0, layer.key1, t, room.places,
        room.words,
    )  # fmt: skip


@inner()
def _add(out: Array, x: Array) -> None:
    for i in range(out.size):
        out[i] += x[i]


@inner()
def _accumulate(graph: Graph, total: Array, a: Array, b: Array, part: Array) -> None:
    """Add a b to a total over very many rows, of which a b is one piece: added one by one they would lose digits."""
    here = part[: total.shape[0]]
    multiply(graph.multiply, here, graph.nothing, a, b, PLAIN, here, here.dtype.type(1))
    _add(total.reshape(-1), here.reshape(-1))


@inner()
def _gate(out: Array, g: Array, share: Any, state: Array, elu: bool, slope: Any) -> None:
    zero = slope - slope
    if elu:
        for i in range(out.size):
            z = g[i] * share
            out[i] = z if state[i] > zero else z * (state[i] + slope)  # a state that is NaN passes it on
    else:
        for i in range(out.size):
            z = g[i] * share
            out[i] = (zero if slope == zero else z * slope) if state[i] <= zero else z


@inner()
def _run(graph: Graph, layer: _TrialLayer, x: Array, lx: Array, k: int, states: Array, room: _Room) -> None:
    """Compute the states of a stack, which take turns where there is no room for all, from L X."""
    nodes = x.shape[0]
    skip, places, how = room.skip, states.shape[0] // nodes, ELU if layer.elu else ACTIVATED
    for t in range(layer.steps):
        version = min(t, layer.v.shape[0] - 1)
        late = layer.bias[version, k : k + 1]
        if t == version:  # the bias rides along with X V, unless dropout must not see it
            start, v = graph.nothing if layer.drops else late, layer.v[version, k]
            multiply(graph.multiply, skip, start, x, v, PLAIN, skip, layer.slope)
        now, before = t % places * nodes, (t - 1) % places * nodes
        below = states[before : before + nodes]
        for lo in range(0, nodes, ROWS):
            hi = min(lo + ROWS, nodes)
            start, state, block = skip[lo:hi], states[now + lo : now + hi], room.block[: hi - lo]
            if layer.drops:
                start = room.dropped[: hi - lo]
                _drop(graph, layer, skip[lo:hi], late, start, lo, k, t, room)
            if t == 0:
                multiply(graph.multiply, state, start, lx[lo:hi], layer.w0[k], how, state, layer.slope)
            else:
                _propagate(graph, below, graph.blocks, block, lo, hi)
                w = layer.w[min(t, layer.w.shape[0]) - 1, k]
                multiply(graph.multiply, state, start, block, w, how, state, layer.slope)


@inner()
def _propagate_x(graph: Graph, layer: _TrialLayer, x: Array, room: _Room) -> None:
    if layer.propagates_x:
        _propagate(graph, x, graph.x_blocks, room.lx, 0, x.shape[0])
    else:
        room.lx[:] = layer.slope - layer.slope


@compiled()
def forward_members(
    chunk: Chunk, graph: Graph, layers: Layers, x: Array, lx: Array, kept: Array, out: Array, parts: int
) -> None:
    """Write the means over the stacks of signals or trials, (B * parts, N, F_out), each part of the stacks by itself.

    X (1 or B, N, F_in) may be shared. L X is computed in passing unless it is given. The states, (B, K, T * N, F_out),
    are kept where there is room for them.
    """
    lo, hi = begin(chunk)
    nodes, stacks, keep, given = x.shape[1], layers.bias.shape[2], kept.shape[0] > 0, lx.shape[0] > 0
    room = _room(x, given, out.shape[2], 0 if keep else 2, layers.drops)
    last, weight = (layers.steps - 1) % (layers.steps if keep else 2) * nodes, x.dtype.type(1 / stacks)
    for each in range(lo, hi):
        i, part = each // parts, each % parts
        layer, features = _layer(layers, i, out.shape[0] // parts), x[min(i, x.shape[0] - 1)]
        propagated = lx[min(i, lx.shape[0] - 1)] if given else room.lx
        if not given:
            _propagate_x(graph, layer, features, room)
        total = out[each].reshape(-1)
        total[:] = weight - weight
        for k in range(stacks * part // parts, stacks * (part + 1) // parts):
            states = kept[i, k] if keep else room.states
            _run(graph, layer, features, propagated, k, states, room)
            _add(total, states[last : last + nodes].reshape(-1))
        for n in range(total.size):
            total[n] *= weight


@inner()
def _step_back(
    graph: Graph, layer: _TrialLayer, w_t: Array, k: int, t: int, g: Array, above: Array, states: Array,
    pre: Array, room: _Room, w_grad: Array,
) -> None:  # fmt: skip
    """Compute P of step t from that of the step above, of the last from g, and add to the gradients of X V and W."""
    nodes, nothing, how = pre.shape[0], graph.nothing, ELU_GATED if layer.elu else GATED
    share, step = pre.dtype.type(1 / layer.bias.shape[1]), min(t + 1, w_t.shape[0]) - 1
    for lo in range(0, nodes, ROWS):
        hi = min(lo + ROWS, nodes)
        here, state, block = pre[lo:hi], states[t * nodes + lo : t * nodes + hi], room.block[: hi - lo]
        if t == layer.steps - 1:
            _gate(here.reshape(-1), g[lo:hi].reshape(-1), share, state.reshape(-1), layer.elu, layer.slope)
        else:
            total = w_grad[step, k]
            _propagate(graph, above, graph.blocks, block, lo, hi)
            _accumulate(graph, total, state.T, block, room.part)
            multiply(graph.multiply, here, nothing, block, w_t[step, k], how, state, layer.slope)
        if layer.drops:
            _drop(graph, layer, here, room.skip[lo:hi], room.skip[lo:hi], lo, k, t, room)
        else:
            _add(room.skip[lo:hi].reshape(-1), here.reshape(-1))


@compiled()
def backward_members(
    chunk: Chunk, graph: Graph, layers: Layers, transposed: Graph, w0_ts: Array, w_ts: Array, v_ts: Array, x: Array,
    lx: Array, kept: Array, g: Array, needs_x: bool, x_grad: Array, lx_grad: Array, w0_grad: Array, w_grad: Array,
    v_grad: Array, bias_grad: Array, parts: int,
) -> None:  # fmt: skip
    """Write the gradients of X and L X, of each part, and sums of those of the weights (groups, ...).

    Where L X was not given, its gradient goes into that of X.
    """
    lo, hi = begin(chunk)
    count, nodes, fan_in = g.shape[0], x.shape[1], x.shape[2]
    groups, versions, stacks, width = bias_grad.shape
    slope, zero, ones = layers.slope, layers.slope - layers.slope, np.ones((1, nodes), x.dtype)
    keep, given = kept.shape[0] > 0, lx.shape[0] > 0
    pre, above, own_lifted = matrix(nodes, width, x), matrix(nodes, width, x), matrix(0 if given else nodes, fan_in, x)
    room = _room(x, given, width, 0 if keep else layers.steps, layers.drops)
    skip = room.skip  # X V while the states are computed, its gradient after that
    for each in range(lo, hi):
        group, part = each // parts, each % parts
        r = min(group, w0_ts.shape[0] - 1)
        w0_t, w_t, v_t = w0_ts[r], w_ts[r], v_ts[r]
        for i in range(count * group // groups, count * (group + 1) // groups):
            layer, features = _layer(layers, i, count), x[min(i, x.shape[0] - 1)]
            propagated = lx[min(i, lx.shape[0] - 1)] if given else room.lx
            if not given:
                _propagate_x(graph, layer, features, room)
            place = i * parts + part if needs_x else 0
            to_x, lifted = x_grad[place], lx_grad[place] if given else own_lifted
            if needs_x:
                to_x[:] = zero
                lifted[:] = zero
            for k in range(stacks * part // parts, stacks * (part + 1) // parts):
                states = kept[i, k] if keep else room.states
                if not keep:
                    _run(graph, layer, features, propagated, k, states, room)
                skip[:] = zero
                for t in range(layer.steps - 1, -1, -1):
                    pre, above = above, pre
                    _step_back(transposed, layer, w_t, k, t, g[i], above, states, pre, room, w_grad[group])
                    version, complete = min(t, versions - 1), t == 0 or versions > 1
                    if layer.drops or complete:  # the bias is added behind dropout
                        total = bias_grad[group, version, k : k + 1]
                        _accumulate(graph, total, ones, pre if layer.drops else skip, room.part)
                    if complete:
                        total = v_grad[group, version, k]
                        _accumulate(graph, total, features.T, skip, room.part)
                        if needs_x:
                            multiply(graph.multiply, to_x, to_x, skip, v_t[version, k], PLAIN, to_x, slope)
                        skip[:] = zero
                if layer.propagates_x:
                    total = w0_grad[group, k]
                    _accumulate(graph, total, propagated.T, pre, room.part)
                    if needs_x:
                        multiply(graph.multiply, lifted, lifted, pre, w0_t[k], PLAIN, lifted, slope)
            if layer.propagates_x and needs_x and not given:
                _propagate(transposed, lifted, transposed.x_blocks, room.lx, 0, nodes)
                _add(to_x.reshape(-1), room.lx.reshape(-1))
