"""An ARMA layer of one step for many trials, trial by trial, in numba.

    S  =  σ( L (X W0) + dropout(X V) + bias ),        P  =  σ'(S) * G,        [∇W0 | ∇V]  =  X^T [L^T P | dropout(P)]

What one trial needs on the way stays in the cache of a core, where that of all trials does not, and threads share the
trials out once in a layer, not at every product. W0 and V stand side by side: one product with X serves both, and so
does one with X^T in the backward pass. A sparse X that dropout has thinned out is multiplied without its zeros.

Each trial is computed by one thread in a fixed order: the same bits for every thread count.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from torch import Tensor

from armagnn.kernels.backends import Layer
from armagnn.kernels.cpu import threads
from armagnn.kernels.cpu.compile import MIN_PRODUCTS, Array, compiled, inner, kind_of, to_numpy
from armagnn.kernels.cpu.dense import ELU, ELU_GATED, GATED, MULTIPLY, PLAIN, matrix, multiply
from armagnn.kernels.cpu.masks import DROP_PIECE, drop_piece, limits
from armagnn.kernels.cpu.members import SLOPES
from armagnn.kernels.cpu.sparse import PRODUCT, column_blocks, keep_nonzeros, product_rows
from armagnn.kernels.cpu.threads import Chunk, begin
from armagnn.randomness import DROPOUT

ACTIVATIONS: Final = ("none", "relu", "leaky_relu", "elu")
"""Those that this applies."""

LANES: Final = 16
"""A half of a row, X W0 or X V of a trial, is filled up to a multiple of so many numbers, a vector of float32."""


class Routines(NamedTuple):
    """The addresses of `multiply` and `drop_piece`; a matrix has that of `product_rows` for its types."""

    multiply: int
    drop: int


class _Features(NamedTuple):
    """X of every trial: sparse, with values (R or 1, nonzeros), those of X^T in the order of X; or dense (N, R, F)."""

    rowptr: Array
    col: Array
    value: Array
    perm: Array
    dense: Array
    product: int


class _Graph(NamedTuple):
    """The operator or its transpose, and the blocks of columns that a half of a row and a whole one are cut into."""

    rowptr: Array
    col: Array
    value: Array
    half: Array
    whole: Array
    nothing: Array
    product: int


class _Rows(NamedTuple):
    """A sparse matrix that moves and adds up short rows, such as those of a mean over stacks, and their blocks."""

    rowptr: Array
    col: Array
    value: Array
    blocks: Array
    product: int


class _Layer(NamedTuple):
    """W0 and V, of trial r at r times ``first`` in their rows and columns; the bias (R, C), and what else is done.

    Negative numbers are multiplied by the slope: 0 of a ReLU. An ELU has its alpha in that place.
    """

    w0: Array
    v: Array
    fan_in: int
    first_row: int
    first_column: int
    bias: Array
    relu: bool
    elu: bool
    slope: Any
    seed: Array
    limit: Array
    scale: Array


@inner()
def _move(at: Routines, rows: _Rows, x: Array, out: Array, nothing: Array) -> None:
    """Write the product with x: vector code for rows that are too short for the compiler's."""
    product_rows(
        rows.product, rows.rowptr, rows.col, rows.value, x, nothing, nothing[0], False, False, x.dtype.type(1),
        rows.blocks[0], rows.blocks[1], out, 0, out.shape[0],
    )  # fmt: skip


@inner()
def _of_trial(layer: _Layer, weight: Array, r: int) -> Array:
    """Return W0 or V, or a gradient of them, of a trial."""
    row, column = r * layer.first_row, r * layer.first_column
    return weight[row : row + layer.fan_in, column : column + layer.bias.shape[1]]


@inner()
def _finish(at: Routines, layer: _Layer, x: Array, how: int, gate: Array) -> None:
    """Apply an activation, or its derivative, in place: a product of no terms, as the tiles finish it."""
    multiply(at.multiply, x, x, x[:, :0], x[:0], how, gate, layer.slope)


@inner()
def _side_by_side(at: Routines, layer: _Layer, copy: _Rows, r: int, out: Array, nothing: Array) -> None:
    """Write [W0 | V] of a trial, between columns that are zero already."""
    half, columns = out.shape[1] // 2, layer.bias.shape[1]
    _move(at, copy, _of_trial(layer, layer.w0, r), out[:, :columns], nothing)
    _move(at, copy, _of_trial(layer, layer.v, r), out[:, half : half + columns], nothing)


@inner()
def _times(at: Routines, graph: _Graph, x: _Features, r: int, b: Array, out: Array) -> None:
    """Write X b, of b with as many columns as a whole row."""
    one = b.dtype.type(1)
    nothing, starts, widths = graph.nothing, graph.whole[0], graph.whole[1]
    if x.dense.size:
        multiply(at.multiply, out, nothing, x.dense[:, r], b, PLAIN, nothing, one)
        return
    rowptr, col, value = x.rowptr, x.col, x.value[min(r, x.value.shape[0] - 1)]
    if x.value.shape[0] > 1 or x.perm.size > 0:
        rowptr, col, value = np.empty_like(rowptr), np.empty(col.size + 1, col.dtype), np.empty(col.size + 1, b.dtype)
        keep_nonzeros(x.rowptr, x.col, x.value[r], x.perm, rowptr, col, value)
    product_rows(
        x.product, rowptr, col, value, b, nothing, nothing[0], False, False, one, starts, widths, out, 0, out.shape[0]
    )  # fmt: skip


@inner()
def _drop(
    at: Routines, layer: _Layer, r: int, x: Array, x_place: tuple[int, int], out: Array, out_place: tuple[int, int]
) -> None:
    words, rows, columns = np.empty(1024, np.uint32), out.shape[0], layer.bias.shape[1]
    for piece in range((rows * columns + 1023) // 1024):
        drop_piece(
            at.drop, x.reshape(-1), x_place, out.reshape(-1), out_place, rows, columns, piece, layer.seed[r],
            np.uint32(layer.limit[r]), layer.scale[r], 0, DROPOUT, words,
        )  # fmt: skip


@compiled()
def _forward(
    chunk: Chunk, at: Routines, graph: _Graph, layer: _Layer, x: _Features, copy: _Rows, mean: _Rows, keep: bool,
    states: Array, out: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    if lo == hi:
        return
    nodes, columns, half = out.shape[0], layer.bias.shape[1], states.shape[2]
    nothing = graph.nothing
    weights, rows, state = matrix(layer.fan_in, 2 * half, out), matrix(nodes, 2 * half, out), matrix(nodes, half, out)
    bias = np.zeros(half, out.dtype)
    weights.fill(0)
    starts, widths = graph.half[0], graph.half[1]
    slope = bias.dtype.type(1) if layer.elu else layer.slope
    for r in range(lo, hi):
        _side_by_side(at, layer, copy, r, weights, nothing)
        _times(at, graph, x, r, weights, rows)
        if layer.seed.size:
            _drop(at, layer, r, rows, (half, 2 * half), rows, (half, 2 * half))
        for c in range(columns):  # numba takes seconds to compile the message of an assignment that may not fit
            bias[c] = layer.bias[r, c]
        if keep:
            state = states[r]
        product_rows(
            graph.product, graph.rowptr, graph.col, graph.value, rows[:, :half], rows[:, half:], bias, True, layer.relu,
            slope, starts, widths, state, 0, nodes,
        )  # fmt: skip
        if layer.elu:
            _finish(at, layer, state, ELU, state)
        _move(at, mean, state.reshape(-1, 1), out[:, r], nothing)


@inner()
def _before_activation(
    at: Routines, graph: _Graph, layer: _Layer, share: _Rows, g: Array, state: Array, gated: bool, out: Array,
    ones: Array, bias: Array,
) -> None:  # fmt: skip
    """Write the gradient before the activation from that of the mean, and its sum over the nodes."""
    width, columns, nothing, one = g.shape[1], layer.bias.shape[1], graph.nothing, ones[0, 0]
    for k in range(0, columns, width):
        _move(at, share, g, out[:, k : k + width], nothing)
    if gated:
        # not what fills up a half: a NaN there, from an infinity of X, would reach the next trials
        _finish(at, layer, out[:, :columns], ELU_GATED if layer.elu else GATED, state[:, :columns])
    multiply(at.multiply, bias, nothing, ones, out[:, :columns], PLAIN, nothing, one)


@compiled()
def _backward(
    chunk: Chunk, at: Routines, graph: _Graph, layer: _Layer, turned: _Features, copy: _Rows,
    share: _Rows, gated: bool, states: Array, g: Array, needs_x: bool, x_grad: Array, w0_grad: Array, v_grad: Array,
    bias_grad: Array,
) -> None:  # fmt: skip
    lo, hi = begin(chunk)
    if lo == hi:
        return
    nodes, columns, half = g.shape[0], layer.bias.shape[1], states.shape[2]
    before, rows, gradients = matrix(nodes, half, g), matrix(nodes, 2 * half, g), matrix(layer.fan_in, 2 * half, g)
    for each in (before, rows, gradients):
        each.fill(0)  # and so remain the columns that fill up a half
    one, ones = g.dtype.type(1), np.ones((1, nodes), g.dtype)
    nothing, starts, widths = graph.nothing, graph.half[0], graph.half[1]
    for r in range(lo, hi):
        state = states[r if gated else 0]
        _before_activation(at, graph, layer, share, g[:, r], state, gated, before, ones, bias_grad[r : r + 1])
        product_rows(
            graph.product, graph.rowptr, graph.col, graph.value, before, nothing, nothing[0], False, False, one, starts,
            widths, rows[:, :half], 0, nodes,
        )  # fmt: skip
        if layer.seed.size:
            _drop(at, layer, r, before, (0, half), rows, (half, 2 * half))
        else:
            for i in range(nodes):
                for c in range(half):
                    rows[i, half + c] = before[i, c]
        if turned.dense.size:
            multiply(at.multiply, gradients, nothing, turned.dense[:, r].T, rows, PLAIN, nothing, one)
        else:
            _times(at, graph, turned, r, rows, gradients)
        _move(at, copy, gradients[:, :columns], _of_trial(layer, w0_grad, r), nothing)
        _move(at, copy, gradients[:, half : half + columns], _of_trial(layer, v_grad, r), nothing)
        if needs_x:
            gradients.fill(0)  # what fills up a half has met X, whose infinities would have made it NaN
            _side_by_side(at, layer, copy, r, gradients, nothing)
            multiply(at.multiply, x_grad[:, r], nothing, rows, np.ascontiguousarray(gradients.T), PLAIN, nothing, one)


def _routines(t: Layer) -> Routines:
    real = np.dtype(kind_of(t.v))
    return Routines(MULTIPLY.address(real), DROP_PIECE.address(real))


def _product(rowptr: Array, col: Array, value: Array) -> int:
    return PRODUCT.address(value.dtype, value.dtype, col.dtype, rowptr.dtype)


def _columns(t: Layer) -> int:
    return t.settings.stacks * t.settings.width


def _half(t: Layer) -> int:
    return -(-_columns(t) // LANES) * LANES


def _graph(t: Layer, transpose: bool) -> _Graph:
    rowptr, col, value = map(to_numpy, t.op[3:6] if transpose else t.op[:3])
    half = _half(t)
    widest = max(2 * half, t.v.shape[2])  # of a sum, which may be a gradient of X
    blocks = np.array(column_blocks(half)), np.array(column_blocks(2 * half))
    return _Graph(rowptr, col, value, *blocks, np.zeros((1, widest), value.dtype), _product(rowptr, col, value))


def _features(t: Layer, transpose: bool) -> _Features:
    index = to_numpy(t.op[0])[:0]
    if t.sparse is None:
        assert t.x is not None
        array = to_numpy(t.x.transpose(0, 1))
        return _Features(index, index, array[:0, 0], index, array, 0)
    rowptr, col, value, t_rowptr, t_col, t_value, *rest = t.sparse
    own = value.dim() == 2
    value = t_value if transpose and not own else value
    matrix = to_numpy(t_rowptr if transpose else rowptr), to_numpy(t_col if transpose else col), to_numpy(value)
    perm, dense = to_numpy(rest[0]) if transpose and own else index, np.empty((0, 1, 1), matrix[2].dtype)
    return _Features(*matrix[:2], matrix[2].reshape(t.trials if own else 1, -1), perm, dense, _product(*matrix))


def _side_by_side_already(t: Layer) -> bool:
    """Return whether the matrices W0 (R, F_in, K, F) of all trials stand side by side in memory."""
    assert t.w0 is not None
    return t.w0.transpose(0, 1).is_contiguous()


def _as_matrix(weight: Tensor, adjoining: bool) -> Array:
    """Return weights (R, F_in, K, F) of all trials as one matrix: side by side, or one below the other."""
    stacked = weight.transpose(0, 1).flatten(1) if adjoining else weight.reshape(-1, weight.shape[2:].numel())
    return to_numpy(stacked)


def _layer(t: Layer) -> _Layer:
    assert t.w0 is not None
    s, columns, fan_in, kind, adjoining = t.settings, _columns(t), t.v.shape[2], kind_of(t.v), _side_by_side_already(t)
    below, right = (0, columns) if adjoining else (fan_in, 0)
    bias = np.zeros((t.trials, columns), kind) if t.bias is None else to_numpy(t.bias).reshape(t.trials, columns)
    nothing = np.zeros(0, np.int64)
    limit, scale = (nothing, nothing.astype(kind)) if t.seed is None else limits(s.p.reshape(-1), t.v.dtype)  # type: ignore[union-attr]
    return _Layer(
        _as_matrix(t.w0, adjoining), _as_matrix(t.v[:, 0], adjoining), fan_in, below, right,
        bias, s.act == "relu", s.act == "elu", kind(SLOPES.get(s.act, s.slope)),
        nothing if t.seed is None else to_numpy(t.seed), limit, scale,
    )  # fmt: skip


@lru_cache(maxsize=16)
def _mean(nodes: int, stacks: int, width: int, half: int, kind: Any, index: Any) -> _Rows:
    """Return the mean over the stacks of states, whose rows of ``half`` numbers lie one behind the other."""
    rowptr = np.arange(nodes + 1, dtype=index)
    col = rowptr[:-1, None] * half + np.arange(stacks, dtype=index) * width
    matrix = rowptr * index.type(stacks), col.reshape(-1), np.full(col.size, 1 / stacks, kind)
    return _Rows(*matrix, np.array(column_blocks(width)), _product(*matrix))


@lru_cache(maxsize=16)
def _share(rows: int, stacks: int, width: int, kind: Any, index: Any) -> _Rows:
    """Return what gives every stack its share of the gradient of a mean; of one stack, all of it."""
    rowptr = np.arange(rows + 1, dtype=index)
    matrix = rowptr, rowptr[:-1].copy(), np.full(rows, 1 / stacks, kind)
    return _Rows(*matrix, np.array(column_blocks(width)), _product(*matrix))


def _copy(t: Layer) -> _Rows:
    """Return what moves the rows of W0 and V."""
    return _share(t.v.shape[2], 1, _columns(t), kind_of(t.v), to_numpy(t.op[0]).dtype)


def _bounds(t: Layer) -> list[int]:
    work = (t.op[1].numel() + 2 * t.op[0].numel()) * _half(t) * t.trials
    chunks = min(t.trials, threads.num_chunks(work, MIN_PRODUCTS))
    return [t.trials * k // chunks for k in range(chunks + 1)]


def keeps(t: Layer) -> bool:
    """Return whether there is an activation, whose gradient asks for the states."""
    return t.settings.act != "none"


def forward(t: Layer, keep: bool) -> tuple[Tensor, list[Tensor]]:
    """Return the mean of the stacks, shape (R, N, F_out), and, to keep for the way back, states."""
    nodes, width, keep = t.op[0].shape[0] - 1, t.settings.width, keep and t.settings.act != "none"
    out = t.v.new_empty(nodes, t.trials, width)
    states = t.v.new_empty(t.trials if keep else 0, nodes, _half(t))
    mean = _mean(nodes, t.settings.stacks, width, _half(t), kind_of(t.v), to_numpy(t.op[0]).dtype)
    arguments = (
        _routines(t), _graph(t, False), _layer(t), _features(t, False), _copy(t), mean, keep, states.numpy(),
        out.numpy(),
    )  # fmt: skip
    threads.run(_forward, arguments, _bounds(t))
    return out.transpose(0, 1), [states]


def backward(t: Layer, g: Tensor, kept: list[Tensor], needs_x: bool, consume: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients of x, W0, W (which has none), V and the bias from that of the mean."""
    assert t.w0 is not None
    gated, adjoining, nodes = t.settings.act != "none", _side_by_side_already(t), t.op[0].shape[0] - 1
    states = kept[0] if gated else t.v.new_empty(1, 1, _half(t))
    x_grad = t.v.new_empty((nodes, t.trials, t.x.shape[2]) if needs_x and t.x is not None else (1, 1, 1))
    shape = t.w0.transpose(0, 1).shape if adjoining else t.w0.shape
    made = t.v.new_empty(shape), t.v.new_empty(shape)
    w0_grad, v_grad = (each.transpose(0, 1) if adjoining else each for each in made)
    bias_grad = t.v.new_empty(t.trials, _columns(t))
    share = _share(nodes, t.settings.stacks, t.settings.width, kind_of(t.v), to_numpy(t.op[0]).dtype)
    arguments = (
        _routines(t), _graph(t, True), _layer(t), _features(t, True), _copy(t), share, gated,
        states.numpy(), to_numpy(g.transpose(0, 1)), needs_x, x_grad.numpy(), _as_matrix(w0_grad, adjoining),
        _as_matrix(v_grad, adjoining), bias_grad.numpy(),
    )  # fmt: skip
    threads.run(_backward, arguments, _bounds(t))
    bias = None if t.bias is None else bias_grad.view(t.bias.shape)
    return x_grad.transpose(0, 1) if needs_x else None, w0_grad, None, v_grad.unsqueeze(1), bias
