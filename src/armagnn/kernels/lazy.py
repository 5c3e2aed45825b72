"""Compiled code that costs nothing until it is called, and needs no numba."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from armagnn.kernels import code_cache  # noqa: F401  reads the sources now, not when the first function is compiled


@functools.cache
def compiled_or_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled by numba; without numba, the function itself, which does the same slowly.

    Example:
        >>> compiled_or_plain(max)(2, 3)  # doctest: +SKIP
        3
    """
    try:
        from armagnn.kernels.compiled import compiled  # numba takes half a second to import
    except ModuleNotFoundError:
        return function
    return compiled()(function)  # type: ignore[no-any-return]
