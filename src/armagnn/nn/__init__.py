"""Trainable layers, one file each."""

from armagnn.nn.arma import ARMAConv
from armagnn.nn.cayley import CayleyConv
from armagnn.nn.chebyshev import ChebConv
from armagnn.nn.gcn import GCNConv
from armagnn.nn.graclus_pool import GraclusPool
from armagnn.nn.make import make_conv
from armagnn.nn.pool import AvgPool, SumPool

__all__ = ["ARMAConv", "AvgPool", "CayleyConv", "ChebConv", "GCNConv", "GraclusPool", "SumPool", "make_conv"]
