r"""The Cayley transform of signals by T Jacobi iterations: a polynomial where it can be one, or one by one.

With D the diagonal of :math:`hL + iI` and E the part of L off its diagonal, the iterations are

.. math::
    Z^{(0)} = B = D^{-1} (hL - iI) Y, \qquad Z^{(t+1)} = B - h D^{-1} E Z^{(t)}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from armagnn import kernels
from armagnn.operators import GraphOperator
from armagnn.operators.csr import Arguments
from armagnn.torch_private import (
    forward_mode,
    forwards,
    gradients_by_loop,
    gradients_by_vmap,
    is_wrapped,
    primals,
    traced,
)

ANGLES: Final = 65
"""Angles of h + i, from 0 to 90 degrees, at which coefficients are looked at."""

_needed: dict[tuple[int, int], int] = {}


def coefficients(zoom: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    r"""Return the :math:`\gamma_0, \dots, \gamma_{T+1}` with which T iterations are :math:`\sum_t \gamma_t E^t Y` where
    L has ones on its diagonal and E is L - I; and their derivatives by h. They are pairs: (..., T + 2, 2), float64.

    D is then the number h + i. With :math:`u = (h - i)/(h + i)` and :math:`a = -h/(h + i)` an iteration is
    :math:`Z \leftarrow B + aEZ` for :math:`B = uY - aEY`, so that

    .. math::
        \gamma_0 = u, \qquad \gamma_t = (u - 1) a^t \quad (1 \le t \le T), \qquad \gamma_{T+1} = -a^{T+1}.

    They are found, smoothly for every real h, from the angle :math:`\varphi` of h + i:
    :math:`u = e^{-2i\varphi}`, :math:`u - 1 = -2i \sin\varphi\, e^{-i\varphi}` and
    :math:`a = -\cos\varphi\, e^{-i\varphi}`. The derivatives of u and a by the angle are -2iu and iu, and that of the
    angle by h is :math:`-\sin^2\varphi`.

    Example:
        >>> coefficients(torch.tensor(1.0), 1)[0].abs().round(decimals=4)
        tensor([[0.0000, 1.0000],
                [1.0000, 0.0000],
                [0.0000, 0.5000]], dtype=torch.float64)
    """
    h = zoom.double().unsqueeze(-1)
    angle = torch.atan2(torch.ones_like(h), h)
    t = torch.arange(iterations + 3, dtype=torch.float64, device=h.device)
    sines, cosines = (angle * t).sin(), (angle * t).cos()
    unturned = torch.stack([sines, cosines], -1)  # i e^(-i t φ)
    power = torch.pow(-angle.cos(), t[:-1]).unsqueeze(-1)
    twice = 2.0 * angle.sin().unsqueeze(-1)
    first = torch.stack([cosines, -sines], -1)  # e^(-i t φ)
    found = torch.cat(
        [
            first[..., 2:3, :],
            -twice * power[..., 1:-1, :] * unturned[..., 2:-1, :],
            -power[..., -1:, :] * first[..., -2:-1, :],
        ],
        -2,
    )
    steps = t[1:-1].unsqueeze(-1) * power[..., :-1, :]  # t times the power below
    slopes = torch.cat(
        [
            -2.0 * unturned[..., 2:3, :],
            twice * steps[..., :-1, :] * first[..., 3:, :] - 2.0 * power[..., 1:-1, :] * unturned[..., 3:, :],
            -steps[..., -1:, :] * unturned[..., -1:, :],
        ],
        -2,
    )
    return found, -0.25 * twice.square() * slopes


def responses(zoom: Tensor, iterations: int, order: int, e: Tensor) -> Tensor:
    r"""Return 1 and :math:`2 \mathrm{Re}\, p^j, -2 \mathrm{Im}\, p^j` for j = 1, ..., K, shape (M, 1 + 2 K), float64.

    They are what the weights C_0, Re C_1, Im C_1, ... meet at frequencies :math:`\lambda = 1 + e`, given as e of shape
    (M), where p, of degree T + 1, is the transform: :math:`p(e) = \sum_t \gamma_t e^t` (see `coefficients`). All depend
    on one number, h, so their derivatives are found with them, and the way back is one sum.

    Example:
        >>> responses(torch.tensor(1.0), 60, 1, torch.tensor([0.0], dtype=torch.float64)).round(decimals=4) + 0.0
        tensor([[1., 0., 2.]], dtype=torch.float64)
    """
    if traced():
        return _with_slopes(zoom, iterations, order, e)[0]
    return _Responses.apply(zoom, iterations, order, e)[0]  # type: ignore[no-any-return,no-untyped-call]


def _with_slopes(zoom: Tensor, iterations: int, order: int, e: Tensor) -> tuple[Tensor, Tensor]:
    """Return the responses and their derivatives by h, shapes (..., M, 1 + 2 K)."""
    sums = torch.linalg.vander(e, N=iterations + 2) @ torch.cat(coefficients(zoom, iterations), -1)
    real, imaginary, by_real, by_imaginary = sums.unsqueeze(-2).unbind(-1)  # of p, and of its derivative
    j = torch.arange(order + 1, dtype=e.dtype, device=e.device)
    angle, size = torch.atan2(imaginary, real) * j, torch.pow(torch.hypot(real, imaginary), j)
    x, y = size * angle.cos(), -size * angle.sin()  # of the conjugate
    powers, across = torch.stack([x, y], -1), torch.stack([y, -x], -1)
    slopes = (powers * by_real.unsqueeze(-1) + across * by_imaginary.unsqueeze(-1))[..., :-1, :]
    slopes = 2.0 * j[1:].unsqueeze(-1) * slopes
    values = torch.cat([torch.ones_like(real), 2.0 * powers[..., 1:, :].flatten(-2)], -1)
    return values, torch.cat([torch.zeros_like(real), slopes.flatten(-2)], -1)


class _Responses(torch.autograd.Function):
    """The responses of zooms, shape (...), and their derivatives."""

    @staticmethod
    def forward(zoom: Tensor, iterations: int, order: int, e: Tensor) -> tuple[Tensor, Tensor]:
        return _with_slopes(zoom, iterations, order, e)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        zoom, ctx.iterations, ctx.order, e = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(zoom, e, output[1])
        ctx.save_for_forward(zoom, e)

    @staticmethod
    @gradients_by_vmap
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (g, _), (zoom, e, slopes) = grads, ctx.saved_tensors
        if g is None:
            return None, None, None, None
        if torch.is_grad_enabled():  # the derivative is to be differentiated itself
            slopes = _with_slopes(zoom, ctx.iterations, ctx.order, e)[1]
        return (g * slopes).sum((-2, -1)).sum_to_size(zoom.shape).to(zoom.dtype), None, None, None

    @staticmethod
    @forwards
    def jvp(ctx: Any, by_zoom: Tensor | None, *_: Any) -> tuple[Tensor | None, None]:
        if by_zoom is None:
            return None, None
        zoom, e = primals(ctx)
        return _with_slopes(zoom, ctx.iterations, ctx.order, e)[1] * by_zoom[..., None, None], None

    @staticmethod
    def vmap(
        info: Any, dims: tuple[int | None, ...], zoom: Tensor, iterations: int, order: int, e: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        zoom = zoom.unsqueeze(0) if dims[0] is None else zoom.movedim(dims[0], 0)
        if dims[3] is not None:  # each graph has other frequencies
            e = e.movedim(dims[3], 0)
            e = e.reshape(e.shape[0], *[1] * (zoom.dim() - 1), *e.shape[1:])
        return _Responses.apply(zoom, iterations, order, e), (0, 0)  # type: ignore[no-untyped-call]


def needed_degree(iterations: int, order: int) -> int:
    r"""The degree up to which float32 sees the responses as sums of Chebyshev polynomials, whatever the zoom is.

    Beyond it the sizes of the complex coefficients of each :math:`p^j, j \le K`, add up to less than a quarter of the
    last digit of the sum of all, for each of many angles of h + i (on which they depend smoothly): high powers of e are
    mostly of low degree, as Chebyshev polynomials go. While torch compiles, only what has been found before is known.

    Example:
        >>> needed_degree(10, 5), needed_degree(11, 12), needed_degree(5, 1)  # of 55, 144 and 6
        (37, 65, 6)
    """
    found = _needed.get((iterations, order))
    if found is None:
        if traced():
            return order * (iterations + 1)
        found = _needed[iterations, order] = _find_needed(iterations, order)
    return found


def _find_needed(iterations: int, order: int) -> int:
    degree = order * (iterations + 1)
    angle = np.linspace(0.0, np.pi / 2, ANGLES)
    half = (2 * np.arange(degree + 1) + 1) * np.pi / (2 * (degree + 1))
    step = -np.cos(angle) * np.exp(-1j * angle) * np.cos(half)[:, None]  # a e, at the zeros of a Chebyshev polynomial
    total, term = np.zeros_like(step), np.ones_like(step)
    for _ in range(iterations):
        term *= step
        total += term
    p = np.exp(-2j * angle) - term * step + (np.exp(-2j * angle) - 1) * total
    cosines = np.cos(np.arange(degree + 1)[:, None] * half) * 2 / (degree + 1)
    needed, power = 0, np.ones_like(p)
    for _ in range(order):
        power *= p
        size = np.abs(cosines @ power.real + 1j * (cosines @ power.imag))
        left = size[::-1].cumsum(0)[::-1]  # from each degree on
        seen = (left > np.finfo(np.float32).eps / 4 * left[0]).any(1)
        needed = max(needed, int(np.flatnonzero(seen).max(initial=0)))
    return needed


class Jacobi:
    r"""The transform by the iterations themselves: where the diagonal of L differs from node to node, or edges have a
    direction.

    They are run for :math:`R = (Y - Z) / 2i`, the solution of :math:`(hL + iI) R = Y`: there they are

    .. math::
        R \leftarrow D^{-1} Y - h D^{-1} E R, \qquad R = Y / 2i \text{ at first},

    T + 1 times, all alike. Numbers are pairs of a real and an imaginary part, the last axis: Y has shape
    (N, batch, F, 2), or (N, batch, F, 1) where it is real, and its transform (N, batch, F, 2).

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> Jacobi(op, torch.tensor(1.0), 50)(torch.tensor([[[[1.0]]], [[[-1.0]]]])).flatten()
        tensor([ 0.6000, -0.8000, -0.6000,  0.8000])
    """

    def __init__(self, op: GraphOperator, zoom: Tensor, iterations: int) -> None:
        self.op, self.matrix, self.iterations = op, op.off_diagonal()._arguments(), iterations
        self.dtype = torch.promote_types(op.dtype, torch.float32)  # there are no narrower complex numbers
        self.diagonal, self.zoom = op.diagonal().to(self.dtype), zoom.to(self.dtype).unsqueeze(0)

    def __call__(self, y: Tensor) -> Tensor:
        """Return the transform of Y."""
        matrix, diagonal, zoom = self.matrix, self.diagonal, self.zoom
        pairs = y.to(self.dtype).flatten(1, 2).unsqueeze(1)
        if self._by_hand():
            z, _ = _Transform.apply(matrix, diagonal, self.iterations, zoom, pairs)  # type: ignore[no-untyped-call]
        else:
            for state in _states(matrix, diagonal, zoom, pairs, [None] * (self.iterations + 1)):
                last = state
            z = _transformed(pairs, last)
        out: Tensor = z.view(*y.shape[:3], 2).to(self.op.dtype)
        return out

    def _by_hand(self) -> bool:
        """Return whether gradients may be asked for, but none with respect to the operator."""
        if traced() or forward_mode() or not torch.is_grad_enabled():
            return False
        value = self.op.value
        return not (value.requires_grad or is_wrapped(value))


# ------------------------------------------------------------- of M trials: zooms (M) and signals (N, M, C, 1 or 2)


class _Transform(torch.autograd.Function):
    r"""The transform Z, and the T + 1 states :math:`R_t`, shape (T + 1, N, M, C), complex, on the way.

    With G the gradient of Z and :math:`B = \bar D^{-1} G`, the adjoint iterations

    .. math::
        K_{T-1} = -\bar D^{-1} E^T B, \qquad K_{t-1} = -h \bar D^{-1} E^T K_t

    give the gradients of Y and, with real inner products only, of h:

    .. math::
        G + 2i \left( B + h \sum_{t<T} K_t \right) + h^2 E^T K_0, \qquad
        2 \sum_{t<T} \langle R_t, K_t \rangle - 2 \langle R_T, i \,\mathrm{diag}(L) B \rangle
        + h \langle Y, E^T K_0 \rangle.
    """

    @staticmethod
    def forward(matrix: Arguments, diagonal: Tensor, iterations: int, zoom: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        states = y.new_empty(iterations + 1, *y.shape[:3], dtype=y.dtype.to_complex())
        *_, last = _states(matrix, diagonal, zoom, y, states.unbind())
        return _transformed(y, last), states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        *ctx.fixed, zoom, y = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.real, kept = y.shape[-1] == 1, (y, output[1]) if ctx.needs_input_grad[3] else (None, None)
        ctx.save_for_backward(zoom, *kept)

    @staticmethod
    @gradients_by_loop
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return (None,) * 5
        zoom, pairs, states = ctx.saved_tensors
        matrix, diagonal, iterations = ctx.fixed
        transposed = *matrix[3:6], *matrix[:3], None, None
        g = _numbers(grads[0])
        inverse, step = _factors(zoom, diagonal, 1.0)
        again = torch.is_grad_enabled()  # somebody wants to differentiate this again: nothing is written in place
        room = None if again else g.new_empty(iterations + 1, *g.shape)
        places = [None] * (iterations + 1) if room is None else room.unbind()
        lifted = inverse * g
        adjoints = [torch.mul(-1j * diagonal[:, None, None], lifted, out=places[-1])]
        state, factor = lifted, -inverse
        for place in reversed(places[:-1]):
            state = torch.mul(factor, _product(transposed, state), out=place)
            adjoints.append(state)
            factor = step
        adjoint = torch.stack(adjoints[::-1]) if room is None else room
        last = _product(transposed, state.real if ctx.real else state)
        by_zoom = by_y = None
        if ctx.needs_input_grad[3]:
            if again:
                states = torch.stack(list(_states(matrix, diagonal, zoom, pairs, places)))
            by_zoom = 2 * _dots(states.flatten(0, 1), adjoint.flatten(0, 1)) + zoom * _dots(_numbers(pairs), last)
        if ctx.needs_input_grad[4]:
            h = zoom.unsqueeze(1).to(g.dtype)
            near = torch.add(g, torch.addcmul(lifted, h, adjoint[:-1].sum(0)), alpha=2j)
            near, h = (near.real, h.real) if ctx.real else (near, h)
            by_y = _pairs(torch.addcmul(near, h.square(), last))
        return None, None, None, by_zoom, by_y

    @staticmethod
    def vmap(
        info: Any, dims: tuple[Any, ...], matrix: Arguments, diagonal: Tensor, iterations: int, zoom: Tensor, y: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        size: int = info.batch_size
        zoom = zoom.expand(size, -1) if dims[3] is None else zoom.movedim(dims[3], 0)
        y = y.unsqueeze(1).expand(-1, size, -1, -1, -1) if dims[4] is None else y.movedim(dims[4], 1)
        folded = zoom.flatten(), y.flatten(1, 2).contiguous()  # as all products and inner products want it
        z, states = _Transform.apply(matrix, diagonal, iterations, *folded)  # type: ignore[no-untyped-call]
        return (z.unflatten(1, (size, -1)), states.unflatten(2, (size, -1))), (1, 2)


def _states(
    matrix: Arguments, diagonal: Tensor, zoom: Tensor, pairs: Tensor, places: Sequence[Tensor | None]
) -> Iterator[Tensor]:
    """Yield the T + 1 states, shape (N, M, C), complex, each written to its place where there is one."""
    y, (inverse, step) = _numbers(pairs), _factors(zoom, diagonal)
    right = inverse * y
    state = torch.addcmul(right, -0.5j * step, _product(matrix, y).to(right.dtype), out=places[0])
    yield state
    for place in places[1:]:
        state = torch.addcmul(right, step, _product(matrix, state), out=place)
        yield state


def _factors(zoom: Tensor, diagonal: Tensor, sign: float = -1.0) -> tuple[Tensor, Tensor]:
    r"""Return :math:`D^{-1}` and :math:`-h D^{-1}`, shape (N, M, 1), or with the other sign their conjugates."""
    scaled = zoom.unsqueeze(1) * diagonal[:, None, None]
    square = scaled.square() + 1.0
    inverse = torch.complex(scaled / square, sign / square)
    return inverse, -zoom.unsqueeze(1) * inverse


def _transformed(pairs: Tensor, state: Tensor) -> Tensor:
    """Return Z = Y - 2iR."""
    return _pairs(torch.sub(_numbers(pairs), state, alpha=2j))


def _product(matrix: Arguments, x: Tensor) -> Tensor:
    """Return the product with a matrix, which is real; not by ``@``, which autocast would round."""
    pairs = _pairs(x)
    out = kernels.spmm(*matrix, pairs.flatten(1).to(matrix[2].dtype)).to(pairs.dtype).view(pairs.shape)
    return torch.view_as_complex(out) if x.is_complex() else out.squeeze(-1)


def _dots(one: Tensor, two: Tensor) -> Tensor:
    """Return the real inner products over all axes but the second, shape (M): both are read once, nothing written."""
    rows = [_pairs(tensor).flatten(0, 1).flatten(1) for tensor in (one, two)]
    count = torch.arange(rows[0].shape[0] + 1, dtype=torch.int32, device=one.device)
    identity = count, count[:-1], count, count[:-1], count[:-1], count[:-1]
    return kernels.sddmm(*identity, *rows).view(-1, one.shape[1]).sum(0)


def _pairs(x: Tensor) -> Tensor:
    """Return complex numbers with their parts as a last axis of 2, and real ones with one of 1."""
    return torch.view_as_real(x) if x.is_complex() else x.unsqueeze(-1)


def _numbers(pairs: Tensor) -> Tensor:
    """Undo `_pairs`: without a copy, where complex numbers can be seen to fit over the pairs."""
    if pairs.shape[-1] == 1:
        return pairs.squeeze(-1)
    if not (traced() or is_wrapped(pairs)):
        *strides, last = pairs.stride()
        if last == 1 and not any(number % 2 for number in (pairs.storage_offset(), *strides)):
            return torch.view_as_complex(pairs)
    return torch.complex(*pairs.unbind(-1))
