"""The Jacobi layer: each channel has a polynomial in an orthogonal basis (JacobiConv)."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.nn.layer_registry import register_layer
from armagnn.nn.polynomial_conv import OnePolynomialConv


@register_layer("jacobi", stacks="order")
class JacobiConv(OnePolynomialConv):
    r"""The convolution with a trained polynomial for each channel in the basis of Jacobi,

    .. math::
        \bar X_{:f} = \sigma\left( \sum_{k=0}^K \theta_{kf} P_k^{(1, 1)}(M) (X W)_{:f} + b_f \right),

    the filter of `How Powerful are Spectral Graph Neural Networks <https://arxiv.org/abs/2205.11172>`_ as a layer, with
    a = b = 1. The coefficients start at :math:`1 / (k + 1)^2`, so that a term is :math:`1 / (k + 1)` at
    :math:`\mu = 1`. The authors write each coefficient as a product of K numbers; here it is one.

    Arguments and shapes are those of `OnePolynomialConv`; ``theta`` is ((K + 1) F_out).

    Example:
        >>> conv = JacobiConv(8, 16, order=4)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
        >>> conv
        JacobiConv(8, 16, order=4)
        >>> conv.response([0.0, 0.5]).shape  # of 16 channels
        (16, 2)
    """

    basis = "jacobi"

    def _start(self) -> Tensor:
        k = torch.arange(self.order + 1, dtype=torch.float64)
        return ((k + 1) ** -2.0).unsqueeze(1).repeat(1, self.out_channels)

    def coefficients(self) -> Tensor:
        """Return the coefficients of each channel, shape (K + 1, F_out)."""
        return self.theta.view(self.order + 1, self.out_channels)
