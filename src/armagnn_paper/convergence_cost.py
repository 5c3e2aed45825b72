"""What a training step of the convergent layer costs beside the unrolled one, each in a process of its own.

``python -m armagnn_paper.convergence_cost T=50`` (or ``c=0.9,anderson``, ``c=0.9,picard``, ``c=0.9,unrolled``) prints
the steps, the milliseconds of one processor and the MiB of one forward and backward pass of a layer with K = 2 stacks
of 64 units on Cora's graph. Processor time, not the clock: it can be compared on a machine that others use too.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import choice, integer
from armagnn.data import load
from armagnn.nn import ARMAConv
from armagnn.operators import GraphOperator
from armagnn.solvers import FixedPoint

CASES: Final = (
    "T=10", "T=50", "T=200", "c=0.9,unrolled", "c=0.9,picard", "c=0.9,anderson", "c=0.99,picard", "c=0.99,anderson",
    "c=0.999,anderson",
)  # fmt: skip
"""A fixed number of steps; or a bound on the contraction, and how it is solved and differentiated."""
UNITS: Final = 64
STATUS: Final = Path("/proc/self/status")


def options(case: str) -> dict[str, Any]:
    """The arguments of `ARMAConv` for a case.

    Example:
        >>> options("T=50")
        {'num_layers': 50}
        >>> options("c=0.9,unrolled")["fixed_point"].backward
        'unrolled'
    """
    kind, _, number = choice("case", case, CASES).partition("=")
    number, _, way = number.partition(",")
    if kind == "T":
        return {"num_layers": int(number)}
    fixed_point = FixedPoint(1e-4, 5000, float(number))
    if way == "unrolled":
        return {"fixed_point": replace(fixed_point, backward="unrolled")}
    return {"fixed_point": replace(fixed_point, solver=way)}  # type: ignore[arg-type]


def measure(case: str, runs: int = 5) -> tuple[float, float, float]:
    """Return the mean steps of a stack, the median milliseconds and the peak MiB of a training step."""
    integer("runs", runs, 1, 100_000)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    op = load("cora").operator()
    conv = ARMAConv(UNITS, UNITS, 2, act="relu", **options(case))
    with torch.no_grad():  # so that the contraction is as weak as the bound lets it be
        conv.weight.copy_(torch.eye(UNITS).expand_as(conv.weight))
    x = torch.randn(op.num_nodes, UNITS)

    def step(x: Tensor, op: GraphOperator) -> float:
        start = time.process_time()
        conv(x, op).square().mean().backward()
        return 1e3 * (time.process_time() - start)

    step(x[:2], GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]])))  # loads what is needed once
    before = _resident("VmRSS")
    if STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    step(x, op)
    peak = (_resident("VmHWM") - before) / 1024
    taken = conv.num_layers if conv.statistics is None else statistics.fmean(conv.statistics.steps)
    return float(taken), statistics.median(step(x, op) for _ in range(runs)), peak


def table() -> Iterator[tuple[str, float, float, float]]:
    """Yield (case, steps, milliseconds, MiB) for all cases."""
    for case in CASES:
        command = [sys.executable, "-m", "armagnn_paper.convergence_cost", case]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        yield case, *(float(number) for number in printed)  # type: ignore[misc]


def _resident(field: str) -> float:
    if not STATUS.exists():
        return float("nan")
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return float(found.group(1))


if __name__ == "__main__":
    print(*(f"{number:.4g}" for number in measure(sys.argv[1])))
