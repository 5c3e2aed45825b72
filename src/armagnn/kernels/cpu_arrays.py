"""What the kernels for the processor share: tensors as arrays, and when a second thread pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]

MIN_PRODUCTS = 1 << 20
"""Multiply-adds below which a second thread costs more than it brings (about 100 microseconds of work)."""


def to_numpy(x: Tensor, dtype: torch.dtype | None = None) -> Array:
    """Return a tensor's numbers, of a type, row-major; bfloat16 numbers as their bits."""
    if dtype is not None and x.dtype != dtype:
        x = x.to(dtype)
    array = x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the type that numbers of a type are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32
