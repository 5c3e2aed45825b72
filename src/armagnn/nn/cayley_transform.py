r"""The Cayley transform of signals by T Jacobi iterations: a polynomial where it can be one, or one by one.

With D the diagonal of :math:`hL + iI` and E the part of L off its diagonal, the iterations are

.. math::
    Z^{(0)} = B = D^{-1} (hL - iI) Y, \qquad Z^{(t+1)} = B - h D^{-1} E Z^{(t)}.

Complex signals have shape (N, 2, batch, F), their real and imaginary parts; all arithmetic is real.
"""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.nn.conv import propagate
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


def responses(zoom: Tensor, iterations: int, order: int, e: Tensor) -> Tensor:
    r"""Return 1 and :math:`2 \mathrm{Re}\, p^j, -2 \mathrm{Im}\, p^j` for j = 1, ..., K, shape (M, 1 + 2 K), float64.

    They are what the weights C_0, Re C_1, Im C_1, ... meet at frequencies :math:`\lambda = 1 + e`, given as e of shape
    (M), where p, of degree T + 1, is the transform: :math:`p(e) = \sum_t \gamma_t e^t` (see `coefficients`).

    Example:
        >>> responses(torch.tensor(1.0), 60, 1, torch.tensor([0.0], dtype=torch.float64)).round(decimals=4) + 0.0
        tensor([[1., 0., 2.]], dtype=torch.float64)
    """
    real, imaginary = (torch.linalg.vander(e, N=iterations + 2) @ coefficients(zoom, iterations).t()).split(1, 1)
    while real.shape[1] < order:  # p, ..., p^m times p^m: twice as many with every step
        last, turned = real[:, -1:], imaginary[:, -1:]
        real, imaginary = (
            torch.cat([real, last * real - turned * imaginary], 1),
            torch.cat([imaginary, last * imaginary + turned * real], 1),
        )
    pairs = torch.stack([2.0 * real[:, :order], -2.0 * imaginary[:, :order]], 2)
    return torch.cat([torch.ones_like(real[:, :1]), pairs.flatten(1)], 1)


class Jacobi:
    """The transform by the iterations themselves: where the diagonal of L differs from node to node, or edges have a
    direction.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="laplacian")
        >>> Jacobi(op, torch.tensor(1.0), 50)(torch.tensor([[[[1.0]], [[0.0]]], [[[-1.0]], [[0.0]]]])).flatten()
        tensor([ 0.6000, -0.8000, -0.6000,  0.8000])
    """

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
