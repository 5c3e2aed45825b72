"""numba's compiler, with machine code kept on disk where there is a place for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function that releases the interpreter lock; options as of ``numba.njit``.

    An installation that cannot be written to, of a user without a home, has no place for numba's cache, and numba says
    so at once: there the code is compiled in every process.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
        except RuntimeError:
            return numba.njit(nogil=True, error_model="numpy", **options)(function)

    return decorate
