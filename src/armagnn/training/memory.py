"""Memory that is freed stays with the process while it trains on a processor."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Final

TRIM_THRESHOLD: Final = (-1, 1 << 30)
MMAP_THRESHOLD: Final = (-3, 1 << 25)
"""Parameters of glibc's ``mallopt`` and our values, in bytes: free memory above the first goes back to the system, and
a block above the second (32 MiB, the most that glibc allows) always does."""


@cache
def keep_freed_memory() -> bool:
    """Ask glibc to keep what is freed for what is taken next; return whether it took note. Asked once for a process.

    Every epoch takes and frees the same tensors of a few MB. Left alone, glibc may give them back in between, and the
    system must clear every page again: up to 7,000 page faults an epoch of ten trials on Cora, in some processes and
    not in others. It may hold back 1 GiB of free memory for that. Where the user has set a variable of glibc's own, or
    the C library is another, nothing is changed.

    Example:
        >>> keep_freed_memory() in (True, False)
        True
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        library = ctypes.CDLL("libc.so.6")
        return all(library.mallopt(*option) == 1 for option in (TRIM_THRESHOLD, MMAP_THRESHOLD))
    except (OSError, AttributeError):
        return False
