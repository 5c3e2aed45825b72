"""A whole ARMA layer on a small graph in one call of machine code, and its gradients in another.

On 30 nodes the numbers are done in a few microseconds; what takes time is Python, and its ways into a dozen kernels. So
this is one function of addresses, for layers without dropout on graphs of a few hundred nodes.

    S(0) = σ( (L X) W0 + X V + b ),        S(t) = σ( (L S(t-1)) W + X V + b ),        out = mean of the stacks of S(T-1)

With P(t) the gradient before the activation, the way back is

    ∇W += S(t-1)^T L^T P(t),      P(t-1) = σ'(S(t-1)) * (L^T P(t)) W^T,      ∇V = X^T Σ P(t),      ∇W0 = (L X)^T P(0).

All matrices are row-major: X (N, F_in), W0 (F_in, K F), W (1 or T - 1, K, F, F), V (1 or T, F_in, K F), b (1 or T,
K F), the states (T, N, K F).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

import numba
import torch
from numba import carray, types
from torch import Tensor

from armagnn.kernels.backends import Layer
from armagnn.kernels.cpu.compile import Array, inner, kept_on_disk
from armagnn.kernels.cpu.members import SLOPES
from armagnn.torch_private import materialised

ACTIVATIONS: Final = (*SLOPES, "leaky_relu")

STARTS: Final = {"zero": 0, "linear": 1, "tied": 2}
"""X(0)."""


@inner()
def _propagate(rowptr: Array, col: Array, value: Array, x: Array, first: int, width: int, out: Array, to: int) -> None:
    """Write A x to out, from there on; x (N, width) begins at its number ``first``."""
    for i in range(rowptr.size - 1):
        row = out[to + i * width : to + (i + 1) * width]
        for c in range(width):
            row[c] = 0
        for e in range(rowptr[i], rowptr[i + 1]):
            _add(value[e], x, first + col[e] * width, row)


@inner()
def _add(factor: Any, x: Array, first: int, row: Array) -> None:
    """Add a multiple of the numbers of x from the first on to a row."""
    other = x[first : first + row.size]
    for c in range(row.size):
        row[c] += factor * other[c]


@inner()
def _multiply(
    out: Array, to: int, pitch: int, a: Array, first: int, down: int, along: int, b: Array, second: int, below: int,
    rows: int, depth: int, width: int,
) -> None:  # fmt: skip
    """Add a b to out. Each begins at a number of its array; rows are ``pitch``, ``down`` and ``below`` apart."""
    for i in range(rows):
        row = out[to + i * pitch : to + i * pitch + width]
        for p in range(depth):
            _add(a[first + i * down + p * along], b, second + p * below, row)


@inner()
def _turn(a: Array, first: int, rows: int, columns: int, out: Array, to: int) -> None:
    """Write the transpose of a matrix (rows, columns)."""
    for i in range(rows):
        for j in range(columns):
            out[to + j * rows + i] = a[first + i * columns + j]


def _forward(
    rowptrs: Any, cols: Any, values: Any, xs: Any, w0s: Any, ws: Any, vs: Any, biases: Any, kept: Any, outs: Any,
    nodes: int, entries: int, fan_in: int, stacks: int, width: int, steps: int, versions: int, later: int, start: int,
    biased: int, slope: Any,
) -> None:  # fmt: skip
    wide = stacks * width
    size, square = nodes * wide, width * width
    rowptr, col, value = carray(rowptrs, nodes + 1), carray(cols, entries), carray(values, entries)
    x, w0, w = carray(xs, nodes * fan_in), carray(w0s, fan_in * wide), carray(ws, later * stacks * square)
    v, bias = carray(vs, versions * fan_in * wide), carray(biases, versions * wide)
    room, out = carray(kept, (steps + 2) * size + nodes * fan_in), carray(outs, nodes * width)
    skip, through, lx = steps * size, (steps + 1) * size, (steps + 2) * size
    if start:
        _propagate(rowptr, col, value, x, 0, fan_in, room, lx)
    for t in range(steps):
        version, state = min(t, versions - 1), t * size
        if t == version:
            for n in range(nodes):
                for c in range(wide):
                    room[skip + n * wide + c] = bias[version * wide + c] if biased else 0
            _multiply(room, skip, wide, x, 0, fan_in, 1, v, version * fan_in * wide, wide, nodes, fan_in, wide)
        for i in range(size):
            room[state + i] = room[skip + i]
        if t:
            _propagate(rowptr, col, value, room, state - size, wide, room, through)
            for k in range(stacks):
                matrix, own = ((min(t, later) - 1) * stacks + k) * square, k * width
                _multiply(room, state + own, wide, room, through + own, wide, 1, w, matrix, width, nodes, width, width)
        elif start:
            _multiply(room, state, wide, room, lx, fan_in, 1, v if start == 2 else w0, 0, wide, nodes, fan_in, wide)
        for i in range(state, state + size):
            z = room[i]
            if z < 0:
                room[i] = z * slope if slope else slope  # -inf times 0 would be NaN
    for n in range(nodes):
        for c in range(width):
            total = room[(steps - 1) * size + n * wide + c]
            for k in range(1, stacks):
                total += room[(steps - 1) * size + n * wide + k * width + c]
            out[n * width + c] = total / stacks


def _backward(
    rowptrs: Any, cols: Any, values: Any, xs: Any, w0s: Any, ws: Any, vs: Any, kept: Any, gs: Any, x_grads: Any,
    w0_grads: Any, w_grads: Any, v_grads: Any, b_grads: Any, rooms: Any, nodes: int, entries: int, fan_in: int,
    stacks: int, width: int, steps: int, versions: int, later: int, start: int, needs_x: int, slope: Any,
) -> None:  # fmt: skip
    # rowptr, col and value are those of the transposed operator; the gradients are zeros
    wide = stacks * width
    size, square, plane = nodes * wide, width * width, fan_in * wide
    rowptr, col, value = carray(rowptrs, nodes + 1), carray(cols, entries), carray(values, entries)
    x, w0, w = carray(xs, nodes * fan_in), carray(w0s, plane), carray(ws, later * stacks * square)
    v, states = carray(vs, versions * plane), carray(kept, (steps + 2) * size + nodes * fan_in)
    g = carray(gs, nodes * width)
    x_grad, w0_grad = carray(x_grads, nodes * fan_in), carray(w0_grads, plane)
    w_grad, v_grad = carray(w_grads, later * stacks * square), carray(v_grads, versions * plane)
    up, skip, down, lifted = 0, size, 2 * size, 3 * size
    through, turned = lifted + nodes * fan_in, lifted + 2 * nodes * fan_in
    b_grad, room = carray(b_grads, versions * wide), carray(rooms, turned + max(plane, square))
    for n in range(nodes):
        for c in range(wide):
            room[up + n * wide + c], room[skip + n * wide + c] = g[n * width + c % width] / stacks, 0
    for t in range(steps - 1, -1, -1):
        for i in range(size):
            if states[t * size + i] <= 0:
                room[up + i] = room[up + i] * slope if slope else slope
            room[skip + i] += room[up + i]
        version = min(t, versions - 1)
        if t == 0 or versions > 1:
            _multiply(v_grad, version * plane, wide, x, 0, 1, fan_in, room, skip, wide, fan_in, nodes, wide)
            for n in range(nodes):
                for c in range(wide):
                    b_grad[version * wide + c] += room[skip + n * wide + c]
            if needs_x:
                _turn(v, version * plane, fan_in, wide, room, turned)
                _multiply(x_grad, 0, fan_in, room, skip, wide, 1, room, turned, fan_in, nodes, wide, fan_in)
            for i in range(size):
                room[skip + i] = 0
        if t:
            _propagate(rowptr, col, value, room, up, wide, room, down)
            below, first = (t - 1) * size, (min(t, later) - 1) * stacks
            for i in range(size):
                room[up + i] = 0
            for k in range(stacks):
                matrix, own = (first + k) * square, k * width
                _multiply(
                    w_grad, matrix, width, states, below + own, 1, wide, room, down + own, wide, width, nodes, width
                )
                _turn(w, matrix, width, width, room, turned)
                _multiply(room, up + own, wide, room, down + own, wide, 1, room, turned, width, nodes, width, width)
        elif start:
            lx, weight, total = (steps + 2) * size, v if start == 2 else w0, v_grad if start == 2 else w0_grad
            _multiply(total, 0, wide, states, lx, 1, fan_in, room, up, wide, fan_in, nodes, wide)
            if needs_x:
                for i in range(nodes * fan_in):
                    room[lifted + i] = 0
                _turn(weight, 0, fan_in, wide, room, turned)
                _multiply(room, lifted, fan_in, room, up, wide, 1, room, turned, fan_in, nodes, wide, fan_in)
                _propagate(rowptr, col, value, room, lifted, fan_in, room, through)
                for i in range(nodes * fan_in):
                    x_grad[i] += room[through + i]


@functools.cache
def _code(
    function: Callable[..., None], real: torch.dtype, index: torch.dtype, arrays: int, sizes: int
) -> tuple[Any, Any]:
    """Return a function of addresses: of a matrix's pattern, of so many arrays of numbers; and of so many sizes."""
    number = types.float32 if real == torch.float32 else types.float64
    pattern = [types.CPointer(types.int32 if index == torch.int32 else types.int64)] * 2
    given = types.void(*pattern, *[types.CPointer(number)] * arrays, *[types.int64] * sizes, number)
    code = kept_on_disk(numba.cfunc, given, error_model="numpy")(function)
    last = ctypes.c_float if real == torch.float32 else ctypes.c_double
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (2 + arrays), *[ctypes.c_int64] * sizes, last)
    return code, kind(code.address)  # the first must live as long as the second


def _sizes(t: Layer) -> tuple[int, ...]:
    s = t.settings
    assert t.x is not None
    nodes, fan_in = t.x.shape
    later = 0 if t.w is None else t.w.shape[0]
    return nodes, t.op[1].shape[0], fan_in, s.stacks, s.width, s.steps, t.v.shape[0], later, STARTS[s.init]


def _addresses(tensors: tuple[Tensor | None, ...]) -> list[int]:
    return [0 if tensor is None else tensor.data_ptr() for tensor in tensors]


def _contiguous(tensors: tuple[Tensor | None, ...]) -> list[Tensor | None]:
    return [None if each is None else each.contiguous() for each in tensors]


def keeps(t: Layer) -> bool:
    """Return whether `backward` needs what `forward` keeps."""
    return True


def forward(t: Layer, keep: bool) -> tuple[Tensor, list[Tensor]]:
    """Return the mean of the stacks, shape (N, F), and the states and L X for the way back."""
    s, sizes, v = t.settings, _sizes(t), t.v
    nodes, _, fan_in, stacks, width, steps, *_ = sizes
    kept, out = v.new_empty(nodes * ((steps + 2) * stacks * width + fan_in)), v.new_empty(nodes, width)
    _, code = _code(_forward, v.dtype, t.op[1].dtype, 8, 10)
    tensors = _contiguous((*t.op[:3], *t[5:]))
    code(*_addresses((*tensors, kept, out)), *sizes, t.bias is not None, SLOPES.get(s.act, s.slope))
    return out, [kept] if keep else []


def backward(t: Layer, g: Tensor, kept: list[Tensor], needs_x: bool, consume: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients of X, W0, W, V and b from that of the mean."""
    s, sizes, v = t.settings, _sizes(t), t.v
    nodes, _, fan_in, stacks, width, *_ = sizes
    wide, tensors, matrix = stacks * width, _contiguous(t[5:]), _contiguous(t.op[3:6])
    (g,) = materialised((g,))
    g = g.contiguous()
    room = v.new_empty(nodes * (3 * wide + 2 * fan_in) + max(fan_in, width) * wide)
    wanted = tensors[0] if needs_x else None, *tensors[1:4]
    found = [None if each is None else torch.zeros_like(each) for each in wanted]
    b_grad = v.new_zeros(v.shape[0], stacks, width)
    _, code = _code(_backward, v.dtype, t.op[1].dtype, 13, 10)
    code(
        *_addresses((*matrix, *tensors[:4], *kept, g, *found, b_grad, room)), *sizes, needs_x,
        SLOPES.get(s.act, s.slope),
    )  # fmt: skip
    return *found, None if t.bias is None else b_grad
