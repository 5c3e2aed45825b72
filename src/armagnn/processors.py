"""What a process does with the processors that it may use: threads that fit, and freed memory that stays with it.

How many threads there are, and how those of OpenMP wait, is decided before torch is loaded, so torch is imported where
it is asked. A training has fitting threads, and keeps the memory that it frees (`surroundings`).

Threads that have nothing to do spin for milliseconds, in case there is work again. On a machine that is busy with
other work, or in a container with a quota of CPU time, they take that time from the threads that have work: a training
on Cora took 5.5 times the CPU time and the wall time with two threads than with one. libgomp waits briefly if it has
more threads than processors; it does not see other processes or quotas.

What the user has set, by the variables of `WAITING` and `COUNTING`, stays.
"""

from __future__ import annotations

import ctypes
import gc
import math
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

try:
    import resource
except ImportError:  # Windows does not say how often it sets threads aside
    resource = None  # type: ignore[assignment]

WAITING: Final = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables by which a user says how threads wait."""

COUNTING: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")
"""Variables by which a user says how many threads there are."""

SPINS: Final = "1000"
"""Rounds of waiting before a thread sleeps, some ten microseconds: libgomp's own number for too many threads."""

OLD: Final = 100
"""Collections of middle-aged objects from which on Python may go through the old ones; its own number is 10."""


def allowed() -> int:
    """Return the number of processors that this process may run on."""
    count = getattr(os, "process_cpu_count", None)  # Python 3.13; the user may set it by PYTHON_CPU_COUNT
    if count is not None:
        return count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(root: Path = Path("/")) -> float:
    """Return the processors' worth of CPU time that Linux grants, of cgroups v1 or v2; infinity without a limit."""
    return min((_limit(group) for group in _groups("cpu", root)), default=math.inf)


def memory_limit(root: Path = Path("/")) -> float:
    """Return the bytes of memory that Linux grants, of cgroups v1 or v2; infinity without a limit."""
    least = math.inf
    for group in _groups("memory", root):
        for name in ("memory.max", "memory.limit_in_bytes"):  # v2 (or "max"); v1 has nearly 2^63 for no limit
            text = _read(group / name).strip()
            least = min(least, int(text) if text.isdecimal() else math.inf)
    return least


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Yield the control groups of this process that may limit it: a limit of a group holds for all groups in it."""
    groups = root / "sys" / "fs" / "cgroup"
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, own = rest.partition(":")
        names = controllers.split(",")
        if controllers == "":
            base = groups
        elif controller in names:
            base = groups / (controller if (groups / controller).is_dir() else controllers)
        else:
            continue
        parts = [part for part in own.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield base.joinpath(*parts[:depth])


def _limit(group: Path) -> float:
    words = _read(group / "cpu.max").split()  # v2: "max 100000" or "150000 100000"
    if not words:
        words = [*_read(group / "cpu.cfs_quota_us").split(), *_read(group / "cpu.cfs_period_us").split()]
    try:
        time, period = (float(word) for word in words)
    except ValueError:
        return math.inf
    return time / period if time > 0 and period > 0 else math.inf  # v1 has -1 for no limit


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def usable(allowed: int, quota: float) -> int:
    """Return how many threads can run at a time.

    Example:
        >>> usable(8, 1.5), usable(2, float("inf")), usable(4, 0.2)
        (2, 2, 1)
    """
    return max(1, min(allowed, math.ceil(quota) if quota < allowed else allowed))


def to_set(environment: Mapping[str, str], allowed: int, quota: float) -> dict[str, str]:
    """Return the variables to set before torch is loaded.

    Example:
        >>> to_set({}, 8, 1.5), to_set({"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "active"}, 8, 1.5)
        ({'GOMP_SPINCOUNT': '1000', 'OMP_NUM_THREADS': '2'}, {})
    """
    found = {} if any(environment.get(name) for name in WAITING) else {"GOMP_SPINCOUNT": SPINS}
    if usable(allowed, quota) < allowed and not any(environment.get(name) for name in COUNTING):
        found["OMP_NUM_THREADS"] = str(usable(allowed, quota))
    return found


def prepare() -> None:
    """Set them for this process and those it starts, unless torch is there: then it is too late.

    And let this process look for garbage among old objects a tenth as often. There are half a million of them, of torch
    and numba: the first training on a machine, which compiles, went through them ten times, for 1.5 of its 10 seconds.
    Young objects are looked at as often as ever, so what a step leaves behind goes soon.

    For programs, such as the console script; a library leaves the environment and the interpreter alone.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, max(old, OLD))
    if "torch" not in sys.modules:
        os.environ.update(to_set(os.environ, allowed(), quota()))


def is_users_choice(current: int, environment: Mapping[str, str], allowed: int) -> bool:
    """Return whether the user has set torch's number of threads, by `COUNTING` or by ``torch.set_num_threads``.

    Example:
        >>> is_users_choice(8, {}, 8), is_users_choice(3, {}, 8), is_users_choice(8, {"OMP_NUM_THREADS": "8"}, 8)
        (False, True, True)
    """
    default = current in (allowed, allowed // 2)  # of torch: all processors, or with MKL one for two hyperthreads
    return not default or any(environment.get(name) for name in COUNTING)


def threads_for(small: bool, current: int, environment: Mapping[str, str], allowed: int, quota: float) -> int:
    """Return how many threads torch gets for a training, where it has ``current`` ones: one if the training is small.

    A small training gains nothing from a second thread, and on a busy machine loses by it. What the user chose stays.

    Example:
        >>> threads_for(True, 8, {}, 8, float("inf")), threads_for(False, 8, {}, 8, 2.5), threads_for(True, 3, {}, 8, 2)
        (1, 3, 3)
    """
    if is_users_choice(current, environment, allowed):
        return current
    return 1 if small else min(current, usable(allowed, quota))


# ----------------------------------------------------------------------------------------------------------- a training

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
    """Give torch a number of threads that fits a training, until the last training ends; see `threads_for`.

    Example:
        >>> import torch
        >>> with fitting_threads(True) as threads:
        ...     threads.most == torch.get_num_threads()
        True
    """
    import torch

    global _fitting, _before
    with _lock:
        if not _fitting:
            _before = torch.get_num_threads()
        _fitting += 1
        # of several trainings at a time, whichever wants more threads gets them
        usable_here = allowed()
        count = threads_for(small, _before, os.environ, usable_here, quota())
        if _fitting == 1 or count > torch.get_num_threads():
            _set(count)
    try:
        yield Threads(1 if is_users_choice(_before, os.environ, usable_here) else torch.get_num_threads())
    finally:
        with _lock:
            _fitting -= 1
            if not _fitting:
                _set(_before)


def _set(count: int) -> None:
    import torch

    if count != torch.get_num_threads():
        torch.set_num_threads(count)
