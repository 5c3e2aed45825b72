r"""The Cayley transform of signals by T Jacobi iterations: as a polynomial without self-loops, one by one with them.

With D the diagonal of :math:`hL + iI` and E the part of L off its diagonal, the iterations are

.. math::
    Z^{(0)} = B = D^{-1} (hL - iI) Y, \qquad Z^{(t+1)} = B - h D^{-1} E Z^{(t)}.

Complex signals have shape (N, 2, batch, F), their real and imaginary parts; all arithmetic is real.
"""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.nn.conv import propagate
from armagnn.nn.dense import dense_pays, dense_terms
from armagnn.nn.mix import mix
from armagnn.operators import GraphOperator


def coefficients(zoom: Tensor, iterations: int) -> Tensor:
    r"""Return the complex :math:`\gamma_0, \dots, \gamma_{T+1}`, shape (2, T + 2), float64, with which T iterations are
    :math:`\sum_t \gamma_t E^t Y` where L has ones on its diagonal and E is L - I.

    D is then the number h + i. With :math:`u = (h - i)/(h + i)` and :math:`a = -h/(h + i)` an iteration is
    :math:`Z \leftarrow B + aEZ` for :math:`B = uY - aEY`, so that

    .. math::
        \gamma_0 = u, \qquad \gamma_t = (u - 1) a^t \quad (1 \le t \le T), \qquad \gamma_{T+1} = -a^{T+1}.

    They are found, smoothly for every real h, from the angle :math:`\varphi` of h + i:
    :math:`u = e^{-2i\varphi}`, :math:`u - 1 = -2i \sin\varphi\, e^{-i\varphi}` and
    :math:`a = -\cos\varphi\, e^{-i\varphi}`.

    Example:
        >>> coefficients(torch.tensor(1.0), 1).abs().round(decimals=4)
        tensor([[0.0000, 1.0000, 0.0000],
                [1.0000, 0.0000, 0.5000]], dtype=torch.float64)
    """
    h = zoom.double()
    angle = torch.atan2(torch.ones_like(h), h)
    t = torch.arange(iterations + 2, dtype=torch.float64, device=h.device)
    power, phase = torch.pow(-angle.cos(), t), angle * t  # a^t = power e^(-i phase)
    within = -2.0 * angle.sin() * power * torch.stack([(phase + angle).sin(), (phase + angle).cos()])
    first = torch.stack([(2.0 * angle).cos(), -(2.0 * angle).sin()])
    last = power[-1] * torch.stack([-phase[-1].cos(), phase[-1].sin()])
    return torch.cat([first.unsqueeze(1), within[:, 1:-1], last.unsqueeze(1)], 1)


def powers_of(off: GraphOperator, x: Tensor, degree: int) -> list[Tensor]:
    """Return X, EX, ..., E^degree X."""
    powers = [x]
    for _ in range(degree):
        powers.append(propagate(off, powers[-1]))
    return powers


class Transform:
    """The Cayley transform of signals, in one form or another."""

    def __call__(self, y: Tensor) -> Tensor:
        """Return the transform of complex Y, shape (N, 2, batch, F)."""
        raise NotImplementedError

    def of_real(self, x: Tensor) -> Tensor:
        """Return the transform, shape (N, 2, batch, F), of real X, shape (N, batch, F)."""
        raise NotImplementedError

    def real_part(self, y: Tensor) -> Tensor:
        """Return the real part, shape (N, batch, F), of the transform of complex Y."""
        raise NotImplementedError

    def parts(self, x: Tensor, order: int) -> list[Tensor]:
        """Return the real and the imaginary part of each of the first powers of the transform of real X."""
        powers = [self.of_real(x)]
        for _ in range(order - 1):
            powers.append(self(powers[-1]))
        return [part for power in powers for part in power.unbind(1)]


class Polynomial(Transform):
    """The transform where L has ones on its diagonal: a polynomial in the real E = L - I with complex coefficients.

    Real and imaginary parts do not meet in a product with E, so half of the columns do where the signal is real, and
    where only the real part of the transform is wanted.
    """

    def __init__(self, op: GraphOperator, zoom: Tensor, iterations: int) -> None:
        self.off = op.off_diagonal()
        self.table = coefficients(zoom, iterations).to(op.dtype)

    def __call__(self, y: Tensor) -> Tensor:
        """Return the transform of complex Y."""
        real, imaginary = y.unbind(1)
        return self._horner(y, torch.stack([-imaginary, real], 1))

    def of_real(self, x: Tensor) -> Tensor:
        """Return the transform of real X."""
        powers = powers_of(self.off, x, self.table.shape[1] - 1)
        return mix(self.table, torch.stack(powers).flatten(1)).view(2, *x.shape).transpose(0, 1)

    def real_part(self, y: Tensor) -> Tensor:
        """Return the real part of the transform of complex Y."""
        real, imaginary = y.unbind(1)
        return self._horner(real, -imaginary)

    def _horner(self, y: Tensor, turned: Tensor) -> Tensor:
        """Return the sum of E^t (Re gamma_t Y + Im gamma_t iY), of Y and iY or of the real parts of both.

        One product makes all terms, and each step is one pass over memory.
        """
        terms = mix(self.table.t(), torch.stack([y, turned]).flatten(1))
        *lower, state = terms.view(self.table.shape[1], *y.flatten(1).shape).unbind(0)
        matrix = self.off._arguments()
        for term in reversed(lower):
            state = kernels.gcs(*matrix, state, term, None, None, 0.0, 0, "none", 0.0)
        return state.view(y.shape)


class Dense(Transform):
    """The same polynomial as one complex matrix, made anew as the zoom h changes: for many signals on a small graph."""

    def __init__(self, op: GraphOperator, zoom: Tensor, iterations: int) -> None:
        off = op.off_diagonal()
        powers = dense_terms(op, ("powers", iterations), lambda eye: powers_of(off, eye, iterations + 1))
        table = coefficients(zoom, iterations).to(op.dtype)
        self.matrix = mix(table, powers.flatten(1)).view(2, *powers.shape[1:])

    def __call__(self, y: Tensor) -> Tensor:
        """Return the transform of complex Y."""
        products = (self.matrix.flatten(0, 1) @ y.flatten(1)).view(2, *y.shape)
        of_real, of_imaginary = products.unbind(2)
        return torch.stack([of_real[0] - of_imaginary[1], of_real[1] + of_imaginary[0]], 1)

    def of_real(self, x: Tensor) -> Tensor:
        """Return the transform of real X."""
        return (self.matrix.flatten(0, 1) @ x.flatten(1)).view(2, *x.shape).transpose(0, 1)

    def real_part(self, y: Tensor) -> Tensor:
        """Return the real part of the transform of complex Y."""
        real, imaginary = y.flatten(2).unbind(1)
        return (self.matrix[0] @ real - self.matrix[1] @ imaginary).view(y[:, 0].shape)

    def parts(self, x: Tensor, order: int) -> list[Tensor]:
        """Return them with one product for each power: of a real matrix that acts on both parts."""
        real, imaginary = self.matrix
        both = torch.cat([torch.cat([real, -imaginary], 1), torch.cat([imaginary, real], 1)])
        powers = [self.matrix.flatten(0, 1) @ x.flatten(1)]
        for _ in range(order - 1):
            powers.append(both @ powers[-1])
        return list(torch.stack(powers).view(2 * order, *x.shape).unbind(0))


class Jacobi(Transform):
    """The transform where the diagonal of L differs from node to node: the iterations themselves."""

    def __init__(self, op: GraphOperator, zoom: Tensor, iterations: int) -> None:
        self.op, self.off, self.zoom, self.iterations = op, op.off_diagonal(), zoom, iterations
        scaled = zoom * op.diagonal()[:, None, None, None]
        # -i (u + iv) = v - iu: the parts exchanged, with the signs 1 and -1, made where they are needed: no transfer
        self.turn = 1.0 - 2.0 * torch.arange(2, dtype=op.dtype, device=op.device)[:, None, None]
        # division by h d + i, as the factor of Y and that of Y with its parts exchanged
        square = scaled.square() + 1.0
        self.real, self.turned = scaled / square, self.turn / square

    def __call__(self, y: Tensor) -> Tensor:
        """Return the transform of complex Y."""
        y = self.zoom * propagate(self.op, y) + self.turn * y.flip(1)
        right = self.real * y + self.turned * y.flip(1)
        real, turned = self.zoom * self.real, self.zoom * self.turned
        state = right
        for _ in range(self.iterations):
            off = propagate(self.off, state)
            state = right.addcmul(real, off, value=-1).addcmul(turned, off.flip(1), value=-1)
        return state

    def of_real(self, x: Tensor) -> Tensor:
        """Return the transform of real X."""
        return self(torch.stack([x, torch.zeros_like(x)], 1))

    def real_part(self, y: Tensor) -> Tensor:
        """Return the real part of the transform of complex Y."""
        return self(y)[:, 0]


def transform(op: GraphOperator, zoom: Tensor, iterations: int, signals: int = 1) -> Transform:
    """Return the transform in the form that suits the operator and the number of signals; no value is looked at.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> transform(op, torch.tensor(1.0), 50).of_real(torch.tensor([[[1.0]], [[-1.0]]])).flatten()
        tensor([ 0.6000, -0.8000, -0.6000,  0.8000])
    """
    if not op.unit_diagonal:
        return Jacobi(op, zoom, iterations)
    return (Dense if dense_pays(op, signals, iterations + 2) else Polynomial)(op, zoom, iterations)
