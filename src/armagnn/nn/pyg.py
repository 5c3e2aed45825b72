"""Conversion from and to PyTorch Geometric's ``ARMAConv``: the same function, weight for weight."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import ARMAConv as PyGConv

from armagnn.errors import DTypeError, ParameterError
from armagnn.nn import activations
from armagnn.nn.arma import ARMAConv


def from_pyg(conv: Any) -> ARMAConv:
    """Return our layer with the weights of PyG's; equal while dropout is off (PyG drops entries of X, not of X V)."""
    if not isinstance(conv, PyGConv):
        raise DTypeError(f"expected a torch_geometric.nn.ARMAConv, got {type(conv).__name__}.")
    if isinstance(conv.init_weight, UninitializedParameter):
        raise ParameterError("this PyG layer is lazy and has not seen an input yet: run it once, then convert.")
    if conv.flow != "source_to_target" or conv.aggr != "add":
        raise ParameterError(
            "only flow='source_to_target' with aggr='add' is the ARMA layer, "
            f"got flow={conv.flow!r}, aggr={conv.aggr!r}."
        )
    ours: ARMAConv = ARMAConv(
        conv.init_weight.shape[1],
        conv.out_channels,
        conv.num_stacks,
        conv.num_layers,
        conv.shared_weights,
        act=conv.act,
        dropout=conv.dropout,
        bias=conv.bias is not None,
    ).to(conv.init_weight.device, conv.init_weight.dtype)
    steps = 1 if conv.shared_weights else conv.num_layers  # a formerly lazy PyG layer may hold a second, unused V
    with torch.no_grad():
        ours.initial_weight.copy_(conv.init_weight.transpose(0, 1))
        ours.skip_weight.copy_(conv.root_weight[:steps].transpose(1, 2))
        if ours.weight is not None:
            ours.weight.copy_(conv.weight)
        if ours.bias is not None:
            ours.bias.copy_(conv.bias.squeeze(2))
    ours.train(conv.training)
    return ours


def to_pyg(conv: ARMAConv) -> PyGConv:
    """Return PyG's layer with our weights: X(0) = 0 becomes a zero W0, a tied W0 a copy of V."""
    if conv.in_channels == -1:
        raise ParameterError("this layer is lazy and has not seen an input yet: run it once, then convert.")
    theirs = PyGConv(
        conv.in_channels,
        conv.out_channels,
        conv.num_stacks,
        conv.num_layers,
        conv.shared_weights,
        act=activations.module(conv.act),
        dropout=conv.dropout,
        bias=conv.bias is not None,
    ).to(conv.skip_weight.device, conv.skip_weight.dtype)
    first: Tensor | None = {"linear": conv.initial_weight, "tied": conv.skip_weight[0], "zero": None}[conv.init]
    with torch.no_grad():
        theirs.init_weight.zero_() if first is None else theirs.init_weight.copy_(first.transpose(0, 1))
        theirs.root_weight.copy_(conv.skip_weight.transpose(1, 2))
        if conv.weight is not None:
            theirs.weight.copy_(conv.weight)
        if conv.bias is not None:
            theirs.bias.copy_(conv.bias.unsqueeze(2))
    return theirs.train(conv.training)
