"""Ten seeds as one batch, beside the same ten one after the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Final

from armagnn.bench.report import Comparison
from armagnn.bench.timing import check_sizes
from armagnn.data import NodeDataset, load
from armagnn.training import NodesConfig

REQUIRED: Final = 3.0


def seconds(dataset: NodeDataset, seeds: Sequence[int], epochs: int) -> float:
    """Return how long the paper's ARMA network trains on Cora from these seeds at once, validation and all."""
    config = NodesConfig(epochs=epochs, patience=epochs, stop_on="accuracy")
    trials = config.experiment(dataset).trials([config.setting(seed) for seed in seeds])
    began = time.perf_counter()
    for _ in trials.run():
        pass
    return time.perf_counter() - began


def compare_trials(rounds: int = 3, count: int = 10, epochs: int = 100) -> Iterator[Comparison]:
    """Measure both ways in turns, after a short training of each."""
    check_sizes(rounds=rounds, count=count, epochs=epochs)
    dataset, seeds = load("cora"), range(count)
    for warmup in ([0], seeds):
        seconds(dataset, warmup, 5)
    batch, alone = [], []
    for _ in range(rounds):
        batch.append(seconds(dataset, seeds, epochs))
        alone.append(sum(seconds(dataset, [seed], epochs) for seed in seeds))
    ours, theirs = statistics.median(batch), statistics.median(alone)
    work = f"{count} seeds of ARMA on Cora, {epochs} epochs, as one batch, against one after the other (ours)"
    yield Comparison(work, "s", ours, theirs, theirs / ours, REQUIRED)
