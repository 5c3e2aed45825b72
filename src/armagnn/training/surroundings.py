"""What a process does for a training on a processor: freed memory stays with it, and torch has fitting threads."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from statistics import median
from typing import Any, Final

import torch

from armagnn import processors

try:
    import resource
except ImportError:  # Windows does not say how often it sets threads aside
    resource = None  # type: ignore[assignment]

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
def surroundings(device: torch.device, small: bool) -> Iterator[Threads | None]:
    """Keep freed memory, and give torch fitting threads, in a training on a processor; on a GPU change nothing."""
    if device.type != "cpu":
        yield None
        return
    with keep_freed_memory(), fitting_threads(small) as threads:
        yield threads


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
    """Return the C library, with the options of `ALWAYS` set; None where they must stay as they are. Runs once."""
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return None
    try:
        library = ctypes.CDLL("libc.so.6")
        return library if all(library.mallopt(*option) for option in ALWAYS) else None
    except (OSError, AttributeError):
        return None


class Threads:
    """The threads of torch during a training: all that fit it, or one while other programs make one faster.

    Where threads of other programs run, a parallel loop waits for the thread that the system has set aside. So a
    training that is set aside often tries both numbers, in turns, and goes on with the faster one for a while. The
    number changes no bit of a result.
    """

    OFTEN: Final = 30.0
    """Times a second that the system sets threads aside on a busy machine. A quiet one has less than ten."""
    TRIES: Final = 3
    """Rounds with each number."""
    HOLD: Final = 60
    """Rounds that the faster number stays."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._plan: list[int] = []  # numbers still to be tried; the first is that of the round that runs
        self._seconds: dict[int, list[float]] = {}
        self._hold = 1  # the first round may compile
        self._aside = _set_aside()

    def round(self, seconds: float, work: float) -> None:
        """Note how long a round took, in which so much work was done, and set the number for the next one."""
        before, self._aside = self._aside, _set_aside()
        if self.most == 1 or _fitting > 1:
            return
        if self._plan:
            self._seconds[self._plan.pop(0)].append(seconds / work)
            if not self._plan:
                self._hold = self.HOLD
                _set(min(self._seconds, key=lambda count: median(self._seconds[count])))
                return
        else:
            self._hold -= 1
            if self._hold > 0:
                return
            if self._aside - before < self.OFTEN * seconds:
                _set(self.most)
                return
            self._plan, self._seconds = [self.most, 1] * self.TRIES, {self.most: [], 1: []}
        _set(self._plan[0])


def _set_aside() -> int:
    """Return how often the system has taken a processor from this process; 0 where it does not say."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw if resource else 0


@contextmanager
def fitting_threads(small: bool) -> Iterator[Threads]:
    """Give torch a number of threads that fits a training, until the last training ends; see `processors.threads_for`.

    Example:
        >>> with fitting_threads(True) as threads:
        ...     threads.most == torch.get_num_threads()
        True
    """
    global _fitting, _before
    with _lock:
        if not _fitting:
            _before = torch.get_num_threads()
        _fitting += 1
        # of several trainings at a time, whichever wants more threads gets them
        allowed = processors.allowed()
        count = processors.threads_for(small, _before, os.environ, allowed, processors.quota())
        if _fitting == 1 or count > torch.get_num_threads():
            _set(count)
    try:
        yield Threads(1 if processors.is_users_choice(_before, os.environ, allowed) else torch.get_num_threads())
    finally:
        with _lock:
            _fitting -= 1
            if not _fitting:
                _set(_before)


def _set(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


def make_current(device: torch.device) -> None:
    """Launch, and record, kernels on this device from now on; "cuda" without a number is the current one already."""
    if device.type == "cuda" and device.index is not None:  # torch refuses one without a number
        torch.cuda.set_device(device)
