"""What a benchmark gives: rows, a table for people, and JSON for the next run to be compared with."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from armagnn.files import check_writable, write_atomic


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
