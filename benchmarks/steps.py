"""What a recorded training step of the networks of Tables 1 to 4 costs on a GPU, and its largest kernels.

The table of docs/paper/notes/performance.md: ``python benchmarks/steps.py``, with the data in ``$ARMAGNN_DATA``; seeds
0, 1, ..., the first fold, the paper's hyperparameters (20news: Defferrard's reading); the mean of the replays of one
run. With names of datasets behind it, theirs only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch

from armagnn.tasks.contract import Room
from armagnn.training import Trials
from armagnn.training.cuda_graphs import EAGER, Recorder
from armagnn_paper.table import Cell, experiment_of
from armagnn_paper.tables import MOLECULAR, TABLES

DEVICE = torch.device("cuda")
WARMUP, PROFILED, SHOWN = 2, 2, 24
CASES = [
    ("mnist", "arma", 1, 145), ("proteins", "arma", 10, 23), ("mnist", "cayley", 1, 145), ("qm9", "arma", 3, 145),
    ("mnist", "chebyshev", 1, 145), ("proteins", "cayley", 10, 23), ("20news", "chebyshev", 1, 55),
    ("dd", "arma", 10, 23), ("ppi", "sage", 6, 5), ("ppi", "gin", 10, 5), ("ppi", "gat", 5, 5), ("ppi", "cayley", 5, 5),
    ("mnist", "gcn", 3, 100), ("mnist", "chebyshev", 3, 100), ("mnist", "cayley", 3, 100),
    ("qm9", "gcn", 3, 145), ("qm9", "chebyshev", 3, 145), ("qm9", "cayley", 3, 145), ("qm9", "mlp", 3, 145),
    ("dd", "gcn", 10, 23), ("dd", "chebyshev", 10, 23), ("dd", "cayley", 10, 23), ("dd", "gat", 1, 23),
    ("bench-hard", "arma", 10, 23), ("bench-hard", "gcn", 10, 23), ("bench-hard", "chebyshev", 10, 23),
    ("bench-hard", "cayley", 10, 23), ("bench-hard", "gat", 1, 23), ("bench-hard", "sage", 1, 23),
]  # fmt: skip
"""Dataset, method, seeds (of QM9: of each property), replays."""


def make(dataset: str, method: str, seeds: int, device: torch.device = DEVICE) -> Trials:
    """The trials of a cell, ready for the first epoch; all properties of QM9 are one batch."""
    names = MOLECULAR.datasets if dataset == "qm9" else (dataset,)
    table = next(table for table in TABLES.values() if names[0] in table.datasets)
    protocol = "defferrard" if dataset == "20news" else "paper"
    experiments = [experiment_of(table.config(Cell(name, method, protocol))) for name in names]
    settings = [experiment.setting(seed) for experiment in experiments for seed in range(seeds)]
    trials = experiments[0].trials(settings, 0, device)
    trials.task.start(0)
    return trials


def go(trials: Trials, work: Callable[..., None], rooms: Sequence[Room]) -> None:
    """Do the first steps of an epoch, and wait for them."""
    trials.step.zero_()
    for room in rooms:
        work(room)
    torch.cuda.synchronize()


def measure(dataset: str, method: str, seeds: int, replays: int) -> None:
    """Print what a step of a cell costs, and its largest kernels."""
    trials, recorder = make(dataset, method, seeds), Recorder(DEVICE)
    rooms = [trials.task.room(step % trials.task.steps) for step in range(replays)]
    go(trials, trials._one_step, rooms[:WARMUP])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        go(trials, trials._one_step, rooms[:PROFILED])
    kernels = sorted(profile.key_averages(), key=lambda row: -row.self_device_time_total)
    record = partial(recorder.do, trials._one_step)
    for _ in range(EAGER + 1):  # then every room has been recorded
        go(trials, record, rooms)
    began = time.perf_counter()
    go(trials, record, rooms)
    milliseconds = (time.perf_counter() - began) / replays * 1e3
    launches = sum(row.count for row in kernels) / PROFILED
    print(
        f"{dataset} {method}, {len(trials.settings)} trials: {milliseconds:.3f} ms a step, {launches:.0f} launches",
        flush=True,
    )
    for row in kernels[:SHOWN]:
        print(f"  {row.self_device_time_total / PROFILED / 1e3:7.3f} ms {row.count / PROFILED:5.0f} x {row.key[:100]}")


if __name__ == "__main__":
    for case in CASES:
        if case[0] in (sys.argv[1:] or case):
            measure(*case)
