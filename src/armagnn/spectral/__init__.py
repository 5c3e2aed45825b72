"""Spectrum, empirical response, and pictures of what a filter or a layer does (Section 5)."""

from armagnn.solvers.eigen import extremal
from armagnn.spectral.density import Density, spectral_density
from armagnn.spectral.plot import plot_signal
from armagnn.spectral.response import (
    band_response,
    components,
    empirical_gain,
    empirical_response,
    layer_response,
    stack_outputs,
)
from armagnn.spectral.spectrum import spectrum

__all__ = [
    "Density",
    "band_response",
    "components",
    "empirical_gain",
    "empirical_response",
    "extremal",
    "layer_response",
    "plot_signal",
    "spectral_density",
    "spectrum",
    "stack_outputs",
]
