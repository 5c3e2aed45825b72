"""Memory that is freed stays with the process while it trains on a processor."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Final

TRIM_THRESHOLD: Final = (-1, 1 << 30)
MMAP_MAX: Final = (-4, 0)
"""Parameters of glibc's ``mallopt`` and our values: free memory above so many bytes goes back to the system, and no
block is taken from it (and given back to it) by itself, however large: the states of a batch of D&D are."""


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
        return all(library.mallopt(*option) == 1 for option in (TRIM_THRESHOLD, MMAP_MAX))
    except (OSError, AttributeError):
        return False
