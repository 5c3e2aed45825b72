"""Trainable layers, one file each; and `ReservoirARMA`, which is not trained."""

from typing import TYPE_CHECKING, Any

from armagnn.nn.arma_conv import ARMAConv
from armagnn.nn.cayley_conv import CayleyConv
from armagnn.nn.cheb_conv import ChebConv
from armagnn.nn.contraction import NonExpansive
from armagnn.nn.conv import Conv
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gcn_conv import GCNConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.layer_registry import make_conv, register_layer
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.pooling import AvgPool, GraclusPool, SumPool
from armagnn.nn.rational_conv import RationalConv
from armagnn.nn.sage_conv import SAGEConv

if TYPE_CHECKING:
    from armagnn.nn.reservoir import ReservoirARMA

__all__ = [
    "ARMAConv",
    "AvgPool",
    "CayleyConv",
    "ChebConv",
    "Conv",
    "GATConv",
    "GCNConv",
    "GINConv",
    "GraclusPool",
    "MLPConv",
    "NonExpansive",
    "RationalConv",
    "ReservoirARMA",
    "SAGEConv",
    "SumPool",
    "make_conv",
    "register_layer",
]


def __getattr__(name: str) -> Any:
    if name == "ReservoirARMA":  # scikit-learn takes a second to import
        from armagnn.nn.reservoir import ReservoirARMA

        return ReservoirARMA
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
