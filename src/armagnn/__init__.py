"""Graph neural networks with convolutional ARMA filters."""

from importlib import import_module
from typing import TYPE_CHECKING

from armagnn.importing import after_import, lazily

if TYPE_CHECKING:
    from armagnn.operators import CSR, GraphOperator

__version__ = "0.1.0"
__all__ = ["CSR", "GraphOperator", "__version__"]

lazily(__name__, {"armagnn.operators": "CSR GraphOperator"})
# torch then knows the operators of the kernels: a program that torch.export saved needs them to load.
after_import("torch", lambda: import_module("armagnn.operators"))
