"""Graph neural networks with convolutional ARMA filters."""

from armagnn.operators import CSR, GraphOperator

__version__ = "0.1.0"
__all__ = ["CSR", "GraphOperator", "__version__"]
