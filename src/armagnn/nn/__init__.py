"""Trainable layers, one file each."""

from armagnn.nn.arma import ARMAConv

__all__ = ["ARMAConv"]
