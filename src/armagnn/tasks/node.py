"""Node classification (Section 6): the 2-layer network, its loss and its metric."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from armagnn import kernels
from armagnn.errors import ParameterError
from armagnn.kernels.random import draw_seed
from armagnn.nn import ARMAConv
from armagnn.operators import CSR, GraphOperator


class ARMANet(nn.Module):
    """logits = ARMA_linear(dropout(ARMA_act(dropout(X)))): the paper's network for the citation graphs.

    The first layer has `hidden` units and the activation `act`; the second has one output per class and is
    linear. Both have `num_stacks` = K stacks of `num_layers` = T steps, and skip dropout `skip_dropout` on
    X V_k. `dropout` acts on the input features and on the hidden ones; sparse features are dropped among their
    nonzero values (a dropped zero is a zero), so they are never densified.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> net = ARMANet(cora.num_features, cora.num_classes)
        >>> tuple(net(cora.x, cora.operator()).shape)
        (2708, 7)
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_stacks: int = 2,
        num_layers: int = 1,
        dropout: float = 0.75,
        skip_dropout: float = 0.75,
        act: str = "relu",
        init: Literal["linear", "zero", "tied"] = "linear",
    ) -> None:
        super().__init__()
        if hidden < 1:
            raise ParameterError(f"hidden is {hidden}; the network needs at least 1 hidden unit.")
        for name, rate in (("dropout", dropout), ("skip_dropout", skip_dropout)):
            if not 0.0 <= rate < 1.0:
                raise ParameterError(f"{name} is {rate}; it must lie in [0, 1).")
        self.dropout = dropout
        self.conv1 = ARMAConv(
            in_channels,
            hidden,
            num_stacks=num_stacks,
            num_layers=num_layers,
            init=init,
            act=act,
            dropout=skip_dropout,
        )
        self.conv2 = ARMAConv(
            hidden,
            num_classes,
            num_stacks=num_stacks,
            num_layers=num_layers,
            init=init,
            act=None,
            dropout=skip_dropout,
        )

    def forward(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        """Logits (N, C) from features (N, F), dense or sparse."""
        x = x.with_value(self._drop(x.value)) if isinstance(x, CSR) else self._drop(x)
        logits: Tensor = self.conv2(self._drop(self.conv1(x, op)), op)
        return logits

    def _drop(self, x: Tensor) -> Tensor:
        if not self.training or self.dropout == 0.0:
            return x
        return kernels.dropout(x, draw_seed(x.device), self.dropout, 0)


def cross_entropy(logits: Tensor, y: Tensor, idx: Tensor) -> Tensor:
    """-mean over i in idx of log softmax(logits_i)[y_i]: the loss of the nodes `idx` alone.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(3, 2), torch.tensor([0, 1, -1]), torch.tensor([0, 1])).item()  # log 2
        0.6931471824645996
    """
    return F.cross_entropy(logits.index_select(0, idx), y.index_select(0, idx))


def accuracy(logits: Tensor, y: Tensor, idx: Tensor) -> float:
    """|{i in idx: argmax logits_i = y_i}| / |idx|.

    Example:
        >>> import torch
        >>> accuracy(torch.eye(3), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 2]))
        0.6666666666666666
    """
    hits = (logits.index_select(0, idx).argmax(dim=-1) == y.index_select(0, idx)).sum()
    return int(hits) / len(idx)
