"""Trainable layers, one file each.

`ReservoirARMA`, which is not trained, is in `armagnn.estimators`; ``from armagnn.nn import ReservoirARMA`` still works.
"""

from importlib import import_module
from typing import Any

from armagnn.nn.arma_conv import ARMAConv
from armagnn.nn.bernstein_conv import BernsteinConv
from armagnn.nn.cayley_conv import CayleyConv
from armagnn.nn.cheb_conv import ChebConv
from armagnn.nn.contraction import NonExpansive
from armagnn.nn.conv import Conv
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gcn_conv import GCNConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.gpr_conv import GPRConv
from armagnn.nn.jacobi_conv import JacobiConv
from armagnn.nn.layer_registry import make_conv, register_layer
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.pooling import AvgPool, GraclusPool, SumPool
from armagnn.nn.rational_conv import RationalConv
from armagnn.nn.sage_conv import SAGEConv

__all__ = [
    "ARMAConv",
    "AvgPool",
    "BernsteinConv",
    "CayleyConv",
    "ChebConv",
    "Conv",
    "GATConv",
    "GCNConv",
    "GINConv",
    "GPRConv",
    "GraclusPool",
    "JacobiConv",
    "MLPConv",
    "NonExpansive",
    "RationalConv",
    "SAGEConv",
    "SumPool",
    "make_conv",
    "register_layer",
]


def __getattr__(name: str) -> Any:
    if name == "ReservoirARMA":  # its place before it moved to a room above this one
        return import_module("armagnn.estimators").ReservoirARMA
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
