"""What a process does for a training on a processor: freed memory stays with it, and torch has fitting threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import torch

from armagnn import processors

ALWAYS: Final = ((-1, 1 << 30), (-3, 1 << 25))
MMAP_MAX: Final = -4
MANY: Final = 1 << 16
"""Parameters of glibc's ``mallopt`` and our values. Free memory above 1 GiB goes back to the system. A block above
32 MiB, the most that can be asked for, is taken from the system by itself, and goes back to it at once; but not in a
training, where there may be no such blocks, and after it there may again be many."""

_lock = threading.Lock()
_keeping = _fitting = 0  # trainings that keep memory, and that have fitting threads
_before = 1


@contextmanager
def keep_freed_memory() -> Iterator[bool]:
    """Let glibc keep what is freed for what is taken next, in a training; tell whether it does.

    Every step takes and frees the same tensors. Left alone, glibc may give them back in between, and the system must
    clear every page again: up to 7,000 page faults an epoch of ten trials on Cora, in some processes and not in others,
    and in all of them for blocks as large as the states of a batch of D&D. When the last training ends, what is free
    goes back; after that, up to 1 GiB may be held. Where the user has set a variable of glibc's own, or the C library
    is another, nothing is changed.

    Example:
        >>> with keep_freed_memory() as kept:
        ...     kept in (True, False)
        True
    """
    global _keeping
    library = _glibc()
    if library is None:
        yield False
        return
    with _lock:
        _keeping += 1
        kept = bool(library.mallopt(MMAP_MAX, 0))
    try:
        yield kept
    finally:
        with _lock:
            _keeping -= 1
            if not _keeping:
                library.mallopt(MMAP_MAX, MANY)
                library.malloc_trim(0)


@cache
def _glibc() -> Any:
    """Return the C library, told what always holds; None if it is not to be told anything. Asked once for a process."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if all(library.mallopt(*option) for option in ALWAYS) else None
    except (OSError, AttributeError):
        return None


@contextmanager
def fitting_threads(small: bool) -> Iterator[int]:
    """Give torch a number of threads that fits a training, until the last training ends; see `processors.threads_for`.

    Example:
        >>> with fitting_threads(True) as count:
        ...     count == torch.get_num_threads()
        True
    """
    global _fitting, _before
    with _lock:
        if not _fitting:
            _before = torch.get_num_threads()
        _fitting += 1
        # of several trainings at a time, whichever wants more threads gets them
        count = processors.threads_for(small, _before, os.environ, processors.allowed(), processors.quota())
        if _fitting == 1 or count > torch.get_num_threads():
            _set(count)
    try:
        yield torch.get_num_threads()
    finally:
        with _lock:
            _fitting -= 1
            if not _fitting:
                _set(_before)


def _set(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)
