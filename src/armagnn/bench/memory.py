"""Peak memory of a training step, measured in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from armagnn.checks import choice

STATUS = Path("/proc/self/status")


def peak_of_training_step(which: str) -> float:
    """Return the peak resident memory that a training step adds, in MiB; not a number where the system hides it."""
    choice("layer", which, ("ours", "pyg", "edges"))
    if not STATUS.exists():
        return float("nan")
    command = [sys.executable, "-c", "import sys; from armagnn.bench.memory import main; main(sys.argv[1])", which]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # what went wrong stays visible
    return float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")


def _resident(field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found.group(1))


def main(which: str) -> None:
    """Run one training step of the large case and print what it added at its peak, in MiB."""
    from armagnn.bench.problems import large_case

    large_case(nodes=64, nonzeros=512).training_step(which)()  # compile and load everything that is needed once
    step = large_case().training_step(which)
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step()
    print((_resident("VmHWM") - before) / 1024)
