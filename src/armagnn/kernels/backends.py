"""Which module's kernels run on a device."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Final

import torch
from torch import Tensor

from armagnn.kernels import reference
from armagnn.torch_private import traced

_HAS_NUMBA: Final = importlib.util.find_spec("numba") is not None
_HAS_TRITON: Final = importlib.util.find_spec("triton") is not None


def backend(device: torch.device | str) -> ModuleType:
    """Return the module whose kernels run on a device: the one place where that is decided.

    Example:
        >>> backend("cpu").__name__
        'armagnn.kernels.cpu'
    """
    if torch.device(device).type == "cpu" and _HAS_NUMBA:
        from armagnn.kernels import cpu  # the import compiles nothing, but numba takes half a second

        return cpu
    if torch.device(device).type == "cuda" and _HAS_TRITON:
        from armagnn.kernels import gpu

        return gpu
    return reference


def keep_rows_whole(rowptr: Tensor) -> None:
    """Say that no row of a matrix is to be cut: kernels then need not look for long rows, and wait for no device."""
    tell = getattr(backend(rowptr.device), "keep_rows_whole", None)
    if tell is not None and not traced():  # what is traced has no rows yet
        tell(rowptr)


def cut_rows(rowptr: Tensor, nonzeros: int) -> None:
    """Say that a matrix of so many nonzeros may have long rows: kernels then cut them without waiting for the device.

    For matrices that serve one batch; of one that lasts, the kernels look for long rows once. They do so, too, where
    they do not meet this very tensor: under ``torch.func.grad``, or compiled.
    """
    tell = getattr(backend(rowptr.device), "cut_rows", None)
    if tell is not None and not traced():
        tell(rowptr, nonzeros)
