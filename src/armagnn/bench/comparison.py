"""What a benchmark gives, fairly timed: rows, a table for people, and JSON for the next run to be compared with."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import torch
from rich.table import Table

from armagnn.checks import integer
from armagnn.files import check_writable, write_atomic

MOST_ROUNDS: Final = 10_000
"""Of a comparison; more would take days."""

MOST_SIZE: Final = 2**28
"""Of a graph, a batch, a training."""

BURST: Final = 0.2
"""Seconds that a burst lasts at least, if a run is short."""

STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True)
class Comparison:
    """One comparison.

    ``required`` is the least ratio wanted, the most if negative, and 0 where none is promised; ``limit`` is the most
    that our own number may be, likewise.
    """

    work: str
    unit: str
    ours: float
    peer: float
    ratio: float
    required: float = 0.0
    limit: float = 0.0

    @property
    def met(self) -> bool | None:
        """Whether the promise is kept; None where there is none."""
        if self.limit:
            return self.ours <= self.limit
        if self.required == 0:
            return None
        return self.ratio >= self.required if self.required > 0 else self.ratio <= -self.required


def compared(work: str, unit: str, ours: float, peer: float, required: float = 0.0, limit: float = 0.0) -> Comparison:
    """A comparison whose ratio is the peer's number over ours."""
    return Comparison(work, unit, ours, peer, peer / ours, required, limit)


def in_turns(
    work: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    rounds: int,
    required: float = 0.0,
    limit: float = 0.0,
) -> Comparison:
    """Time our function and the peer's in turns, in milliseconds."""
    times = medians({"ours": ours, "peer": peer}, rounds)
    return compared(work, "ms", times["ours"], times["peer"], required, limit)


# --------------------------------------------------------------------------------------------------------------- timing


def check_sizes(**sizes: Any) -> None:
    """Refuse what is no number of rounds, nodes, epochs, ...: before minutes of work, and by name."""
    for name, size in sizes.items():
        integer(name, size, 1, MOST_ROUNDS if name in ("rounds", "runs") else MOST_SIZE)


def medians(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median time of each function in milliseconds.

    The functions take turns, so that what the machine does besides (a slow minute, another process) meets all of them.
    A turn is a burst of at least four runs, more of a short function, whose first quarter does not count: it pays for
    the caches that the other function left behind.

    Example:
        >>> sorted(medians({"one": lambda: None, "two": lambda: None}, rounds=1))
        ['one', 'two']
    """
    check_sizes(rounds=rounds)
    times: dict[str, list[float]] = {name: [] for name in functions}
    runs = {name: _runs(function) for name, function in functions.items()}
    for _ in range(rounds):
        for name, function in functions.items():
            burst = [_milliseconds(function) for _ in range(runs[name])]
            times[name] += burst[len(burst) // 4 :]
    return {name: statistics.median(values) for name, values in times.items()}


def _milliseconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return (time.perf_counter() - start) * 1e3


def _runs(function: Callable[[], object]) -> int:
    """Return how many runs make a burst; the first calls also compile and load what is needed once."""
    _milliseconds(function)
    return min(100, max(4, round(BURST * 1e3 / max(_milliseconds(function), 1e-3))))


def seconds_of_a_step(step: Callable[[], object], steps: int, warmup: int, device: str) -> float:
    """Return the mean time of a step on a device, after some that do not count."""
    for _ in range(warmup):
        step()
    _wait(device)
    began = time.perf_counter()
    for _ in range(steps):
        step()
    _wait(device)
    return (time.perf_counter() - began) / steps


def _wait(device: str) -> None:
    """Wait until a GPU has done what was launched."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def peak_mib(step: Callable[[], object]) -> float:
    """Return what a step adds to the memory of this process at its peak, in MiB; NaN where the system hides it."""
    if not STATUS.exists():
        step()
        return float("nan")
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step()
    return (_resident("VmHWM") - before) / 1024


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found.group(1))


# --------------------------------------------------------------------------------------------------------------- report


def machine() -> dict[str, Any]:
    """Return what the numbers depend on: processor, threads, versions. No names of hosts or users."""
    packages = ("armagnn", "torch", "torch-geometric", "numba", "numpy")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: _version(name) for name in packages},
    } | ({"gpu": torch.cuda.get_device_name()} if torch.cuda.is_available() else {})


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # run from a source tree
        return "source"


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def table(rows: Sequence[Comparison], peer: str = "PyG") -> Table:
    """Return the rows as a table for the terminal."""
    out = Table("work", title="Benchmarks")
    for name in ("armagnn", peer, "ratio", "required"):
        out.add_column(name, justify="right", overflow="fold")
    for row in rows:
        wanted = "" if row.required == 0 else f"{'≥' if row.required > 0 else '≤'} {abs(row.required):g}×"
        wanted = f"≤ {row.limit:g} {row.unit}" if row.limit else wanted
        mark = {None: "", True: " ✓", False: " ✗"}[row.met]
        out.add_row(
            row.work, f"{row.ours:.2f} {row.unit}", f"{row.peer:.2f} {row.unit}", f"{row.ratio:.2f}×", wanted + mark
        )
    return out


def write(path: Path, rows: Sequence[Comparison], command: str) -> None:
    """Write rows and machine as JSON."""
    path = Path(path)
    check_writable(path)
    content = {
        "command": command,
        "machine": machine(),
        "rows": [{**{k: _rounded(v) for k, v in asdict(row).items()}, "met": row.met} for row in rows],
    }
    write_atomic(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def _rounded(value: object) -> object:
    return round(value, 3) if isinstance(value, float) else value
