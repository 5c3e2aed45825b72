"""Spectrum, empirical response, and pictures of what a filter or a layer does (Section 5)."""

from armagnn.spectral.layers import layer_response, stack_outputs
from armagnn.spectral.response import band_response, components, empirical_gain, empirical_response
from armagnn.spectral.spectrum import spectrum

__all__ = [
    "band_response",
    "components",
    "empirical_gain",
    "empirical_response",
    "layer_response",
    "spectrum",
    "stack_outputs",
]
