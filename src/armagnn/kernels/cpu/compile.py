"""What the kernels for the processor share: numba's compiler, tensors as arrays, and when a second thread pays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from armagnn.kernels import code_cache

Array = npt.NDArray[Any]

MIN_PRODUCTS = 1 << 20
"""Multiply-adds below which a second thread costs more than it brings (about 100 microseconds of work)."""


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that releases the interpreter lock; options as of ``numba.njit``.

    Machine code is kept in the folder of `code_cache`. Where there is none, or where the user chose another kind of
    place by ``$NUMBA_CACHE_LOCATOR_CLASSES``, the code is compiled in every process.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        folder = code_cache.folder()
        kept = None if folder is None else _kept(function, folder, options)
        return numba.njit(nogil=True, error_model="numpy", **options)(function) if kept is None else kept

    return decorate


def _kept(function: Callable[..., Any], folder: Path, options: dict[str, Any]) -> Any:
    """Return the function with machine code in a folder; None where numba has no place, or another, for it."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # numba reads it as it decorates, and looks there first
    try:
        made = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    except RuntimeError:
        return None
    finally:
        numba.config.CACHE_DIR = before
    return made if folder in Path(made.stats.cache_path).parents else None


def to_numpy(x: Tensor, dtype: torch.dtype | None = None) -> Array:
    """Return a tensor's numbers, of a type, row-major; bfloat16 numbers as their bits."""
    if dtype is not None and x.dtype != dtype:
        x = x.to(dtype)
    array = x.view(torch.uint16).numpy() if x.dtype == torch.bfloat16 else x.numpy()
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the type that numbers of a type are computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32
