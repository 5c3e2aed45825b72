"""What every stack of a layer does to the frequencies of its input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from armagnn.arguments import checked
from armagnn.nn import ARMAConv
from armagnn.operators import CSR
from armagnn.spectral.response import empirical_response


@checked
def stack_outputs(conv: nn.Module, x: Tensor | CSR, op: Any) -> Tensor:
    """Return what each of the K stacks of an ARMA layer gives, shape (K, ..., N, F_out); any other layer is one stack.

    The layer is looked at as it is used, without dropout, and left in the mode that it was in.
    """
    training = conv.training
    conv.eval()
    try:
        with torch.no_grad():
            out: Tensor = conv.stacks(x, op) if isinstance(conv, ARMAConv) else conv(x, op).unsqueeze(0)
    finally:
        conv.train(training)
    return out


@checked
def layer_response(conv: nn.Module, x: Tensor | CSR, op: Any, U: Tensor) -> Tensor:
    r"""Return the empirical response (Eq. 20) of every stack of a layer, shape (K, N).

    Args:
        conv: an `ARMAConv`, or any other layer, which counts as one stack.
        x: its input, shape (N, F_in).
        op: the graph, as the layer takes it.
        U: the eigenvectors of the graph's arma operator (and so of L), from ``mu, U = spectrum(op)``.

    Example:
        >>> from armagnn import GraphOperator
        >>> from armagnn.spectral import spectrum
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> mu, U = spectrum(op)
        >>> layer_response(ARMAConv(2, 4, num_stacks=3, num_layers=2), torch.rand(3, 2), op, U).shape
        torch.Size([3, 3])
    """
    return empirical_response(U, x, stack_outputs(conv, x, op))
