"""The generalised PageRank layer: a polynomial in powers of the operator (GPR-GNN)."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from armagnn.nn.layer_registry import register_layer
from armagnn.nn.polynomial_conv import OnePolynomialConv

TELEPORT: Final = 0.1
"""The alpha of personalised PageRank, where the coefficients start: the authors' default."""


@register_layer("gpr", stacks="order")
class GPRConv(OnePolynomialConv):
    r"""The convolution with a trained polynomial in powers of the operator,

    .. math::
        \bar X = \sigma\left( \sum_{k=0}^K \gamma_k M^k X W + b \right),

    the filter of `Adaptive Universal Generalized PageRank Graph Neural Network <https://arxiv.org/abs/2006.07988>`_ as
    a layer. The :math:`\gamma_k` start from personalised PageRank, :math:`\alpha (1 - \alpha)^k` with
    :math:`\alpha = 0.1` (the last is :math:`(1 - \alpha)^K`, so that they sum to one), and are free of any sign.
    The authors' operator has self-loops, this one has none: with :math:`\gamma_0`, the polynomials are as many.

    Arguments and shapes are those of `OnePolynomialConv`.

    Example:
        >>> conv = GPRConv(8, 16, order=4)
        >>> conv(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
        >>> conv
        GPRConv(8, 16, order=4)
        >>> conv.response([1.0]).round(4)
        array([1.])
    """

    basis = "gpr"

    def _start(self) -> Tensor:
        k = torch.arange(self.order + 1, dtype=torch.float64)
        theta = TELEPORT * (1 - TELEPORT) ** k
        theta[-1] = (1 - TELEPORT) ** self.order
        return theta
