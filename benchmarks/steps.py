"""What a recorded training step of the networks of Tables 1 to 4 costs on a GPU, and its largest kernels.

The table of docs/performance.md: ``python benchmarks/steps.py``, with the data in ``$ARMAGNN_DATA``; seeds 0, 1, ...,
the first fold, the paper's hyperparameters (20news: Defferrard's reading); the mean of the replays of one run.
"""

from __future__ import annotations

import time

import torch

from armagnn.paper.graph_signal import signal_config
from armagnn.paper.graph_tables import graph_config
from armagnn.paper.node_classification import paper_config
from armagnn.paper.published_graphs import REGRESSION
from armagnn.training import Trials
from armagnn.training.capture import capture

DEVICE = torch.device("cuda")
WARMUP, PROFILED, SHOWN = 2, 2, 10
CASES = [
    ("mnist", "arma", 1, 145), ("proteins", "arma", 10, 23), ("mnist", "cayley", 1, 145), ("qm9", "arma", 3, 145),
    ("mnist", "chebyshev", 1, 145), ("proteins", "cayley", 10, 23), ("20news", "chebyshev", 1, 55),
    ("dd", "arma", 10, 23), ("ppi", "sage", 6, 5), ("ppi", "gin", 10, 5), ("ppi", "gat", 5, 5), ("ppi", "cayley", 5, 5),
    ("mnist", "gcn", 3, 100), ("mnist", "chebyshev", 3, 100), ("mnist", "cayley", 3, 100),
]  # fmt: skip
"""Dataset, method, seeds (of QM9: of each property), replays."""


def make(dataset: str, method: str, seeds: int) -> Trials:
    """The trials of a cell, ready for the first epoch."""
    if dataset in ("mnist", "20news"):
        signals = signal_config(dataset, method, "paper" if dataset == "mnist" else "defferrard")
        trials = signals.make([signals.setting(seed) for seed in range(seeds)], 0, DEVICE)
    elif dataset == "ppi":
        nodes = paper_config(dataset, method)
        trials = nodes.make([nodes.setting(seed) for seed in range(seeds)], 0, DEVICE)
    else:
        configs = [graph_config(name, method) for name in (REGRESSION if dataset == "qm9" else [dataset])]
        settings = [config.setting(seed) for config in configs for seed in range(seeds)]
        trials = configs[0].make(settings, 0, DEVICE)
    trials.task.start(0)
    return trials


for dataset, method, seeds, replays in CASES:
    trials = make(dataset, method, seeds)
    for _ in range(WARMUP):
        trials._one_step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(PROFILED):
            trials._one_step()
        torch.cuda.synchronize()
    kernels = sorted(profile.key_averages(), key=lambda row: -row.self_device_time_total)
    replay = capture(trials._one_step, warmup=0)
    trials.step.zero_()
    replay()
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(replays):
        replay()
    torch.cuda.synchronize()
    milliseconds = (time.perf_counter() - began) / replays * 1e3
    launches = sum(row.count for row in kernels) / PROFILED
    print(f"{dataset} {method}, {len(trials.settings)} trials: {milliseconds:.3f} ms a step, {launches:.0f} launches")
    for row in kernels[:SHOWN]:
        print(f"  {row.self_device_time_total / PROFILED / 1e3:7.3f} ms {row.count / PROFILED:5.0f} x {row.key[:100]}")
    del trials, replay
