"""How many processors this process may use, and how threads of OpenMP wait: decided before torch is loaded.

Threads that have nothing to do spin for milliseconds, in case there is work again. On a machine that is busy with
other work, or in a container with a quota of CPU time, they take that time from the threads that have work: a training
on Cora took 5.5 times the CPU time and the wall time with two threads than with one. libgomp waits briefly if it has
more threads than processors; it does not see other processes or quotas.

What the user has set, by the variables of `WAITING` and `COUNTING`, stays.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

WAITING: Final = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Variables by which a user says how threads wait."""

COUNTING: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_THREAD_LIMIT")
"""Variables by which a user says how many threads there are."""

SPINS: Final = "1000"
"""Rounds of waiting before a thread sleeps, some ten microseconds: libgomp's own number for too many threads."""


def allowed() -> int:
    """Return the number of processors that this process may run on."""
    count = getattr(os, "process_cpu_count", None)  # Python 3.13; the user may set it by PYTHON_CPU_COUNT
    if count is not None:
        return count() or 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(root: Path = Path("/")) -> float:
    """Return the processors' worth of CPU time that Linux grants, of cgroups v1 or v2; infinity without a limit."""
    least, groups = math.inf, root / "sys" / "fs" / "cgroup"
    for line in _read(root / "proc" / "self" / "cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, own = rest.partition(":")
        names = controllers.split(",")
        if controllers == "":
            base = groups
        elif "cpu" in names:
            base = groups / ("cpu" if (groups / "cpu").is_dir() else controllers)
        else:
            continue
        parts = [part for part in own.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):  # a limit of a group holds for all groups in it
            least = min(least, _limit(base.joinpath(*parts[:depth])))
    return least


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

    For programs, such as the console script; a library leaves the environment alone.
    """
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
