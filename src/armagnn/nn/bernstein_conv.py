"""The Bernstein layer: a polynomial that is nowhere negative (BernNet)."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn.nn.layer_registry import register_layer
from armagnn.nn.polynomial_conv import OnePolynomialConv


@register_layer("bernstein", stacks="order")
class BernsteinConv(OnePolynomialConv):
    r"""The convolution with a trained polynomial in the Bernstein basis,

    .. math::
        \bar X = \sigma\Big( \sum_{k=0}^K \theta_k \frac{1}{2^K} \binom{K}{k} L^k (2I - L)^{K-k} X W + b \Big),
        \qquad \theta_k = \max(0, t_k), \quad L = I - M,

    the filter of `BernNet <https://arxiv.org/abs/2106.10994>`_ as a layer. The coefficients are the values that the
    response tends to at :math:`\lambda = 2k / K`, so it is nowhere negative. The :math:`t_k` start at 1, where the
    response is 1 everywhere.

    Arguments and shapes are those of `OnePolynomialConv`; the parameter ``theta`` holds the t.

    Example:
        >>> conv = BernsteinConv(8, 16, order=4)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
        >>> conv
        BernsteinConv(8, 16, order=4)
        >>> conv.response([-1.0, 0.5, 1.0]).round(4)
        array([1., 1., 1.])
    """

    basis = "bernstein"

    def _start(self) -> Tensor:
        return torch.ones(self.order + 1, dtype=torch.float64)

    def coefficients(self) -> Tensor:
        """Return the coefficients in the basis, none of which is negative."""
        return self.theta.relu()
