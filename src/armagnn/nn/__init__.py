"""Trainable layers, one file each."""

from armagnn.nn.arma import ARMAConv
from armagnn.nn.cayley import CayleyConv
from armagnn.nn.chebyshev import ChebConv
from armagnn.nn.gcn import GCNConv
from armagnn.nn.make import make_conv

__all__ = ["ARMAConv", "CayleyConv", "ChebConv", "GCNConv", "make_conv"]
