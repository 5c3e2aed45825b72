"""Linear graph filters (Sections 2.1 and 3): one small file each."""

from armagnn.filters.arma import ARMAFilter
from armagnn.filters.base import BoundFilter, Filter
from armagnn.filters.cayley import CayleyFilter
from armagnn.filters.chebyshev import ChebyshevFilter
from armagnn.filters.filter_bank import FilterBank
from armagnn.filters.gcn import GCNFilter
from armagnn.filters.polynomial import PolynomialFilter
from armagnn.filters.spectral import SpectralFilter

__all__ = [
    "ARMAFilter",
    "BoundFilter",
    "CayleyFilter",
    "ChebyshevFilter",
    "Filter",
    "FilterBank",
    "GCNFilter",
    "PolynomialFilter",
    "SpectralFilter",
]
