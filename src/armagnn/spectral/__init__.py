"""Spectrum, empirical response, and pictures of what a filter or a layer does (Section 5)."""

from armagnn.spectral.spectrum import spectrum

__all__ = ["spectrum"]
