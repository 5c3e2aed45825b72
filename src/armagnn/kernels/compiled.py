"""numba's compiler, with machine code kept on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from armagnn.kernels import code_cache


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that releases the interpreter lock; options as of ``numba.njit``.

    Machine code is kept in the folder of `code_cache`. Where there is none, the code is compiled in every process.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        folder, before = code_cache.folder(), numba.config.CACHE_DIR
        if folder is None:
            return numba.njit(nogil=True, error_model="numpy", **options)(function)
        numba.config.CACHE_DIR = str(folder)  # numba reads it as it decorates, and looks there first
        try:
            return numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
        finally:
            numba.config.CACHE_DIR = before

    return decorate
