"""What the paper claims of its layer, measured on trained networks: a question, jobs, a table and a picture each.

The measurements are rows of a CSV file, one per trial and metric, kept as soon as they are made: a job whose rows are
there is not done again. The networks are the paper's on Cora, all runs trained as one batch.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import integer
from armagnn.data import NodeDataset, load
from armagnn.operators import CSR, GraphOperator
from armagnn.sealed import read_rows, rows_csv, write_sealed
from armagnn.tasks import NodeNet, NodeTask
from armagnn.training import NodesConfig
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.trials import Trials
from armagnn_paper.summaries import LABELS
from armagnn_paper.tables import paper_config

RUNS: Final = 10
METHODS: Final = ("arma", "gcn", "chebyshev")
COLOURS: Final = {"arma": "tab:blue", "gcn": "tab:orange", "chebyshev": "tab:green"}


@dataclass(frozen=True)
class ClaimRow:
    """One number: a method under some level of what is varied.

    Attributes:
        method: the layer, or the way it was trained.
        variable: what is varied, e.g. "edges removed".
        level: how much of it, as text.
        run: the number of the trial, which is its seed.
        metric: what was measured.
        value: the result.
    """

    method: str
    variable: str
    level: str
    run: int
    metric: str
    value: float


@dataclass(frozen=True)
class Measurement:
    """A part of a claim that is measured at once.

    Attributes:
        covers: what its rows have in common and no other job's rows have, by column; so it is known to be done.
        measure: takes the number of runs, trains, and returns the rows.
    """

    covers: Mapping[str, str | int]
    measure: Callable[[int], list[Any]]

    def has(self, row: Any) -> bool:
        """Is this a row of the job?"""
        return all(getattr(row, name) == value for name, value in self.covers.items())

    def done(self, rows: Iterable[Any], runs: int) -> bool:
        """Do these rows hold all runs of the job?"""
        wanted = {self.covers["run"]} if "run" in self.covers else set(range(runs))
        return wanted <= {row.run for row in rows if self.has(row)}


@dataclass(frozen=True)
class Claim:
    """A claim: what is asked, what is measured, and how it is drawn; `jobs_on` measures on a device where that pays."""

    name: str
    question: str
    jobs: Sequence[Measurement]
    draw: Callable[[Sequence[ClaimRow]], Any]
    jobs_on: Callable[[str], Sequence[Measurement]] | None = None


def measure(
    jobs: Iterable[Measurement], path: Path, runs: int, kind: type[Any] = ClaimRow
) -> Iterator[tuple[Measurement, list[Any]]]:
    """Do the jobs that the file at `path` does not hold yet, and keep each in it as soon as it is done."""
    integer("runs", runs, 1, 100_000)
    rows = rows_of(path, kind) if path.exists() else []
    for job in jobs:
        if job.done(rows, runs):
            continue
        new = job.measure(runs)
        rows = [row for row in rows if not job.has(row)] + new  # those of fewer runs are in the new ones again
        write_sealed(path, rows_csv(kind, rows, 6))
        yield job, new


# -------------------------------------------------------------------------------------------------- tables and pictures


def rows_of(path: Path, kind: type[Any] = ClaimRow) -> list[Any]:
    """The rows of a file; anything else is a `DataError`."""
    return read_rows(path, kind, "the rows of a claim", "Remove it to measure again.")


def summary_table(rows: Sequence[ClaimRow], most: int = 8) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table: mean ± deviation, a line per method, variable and metric, a column per level.

    Of many levels, as epochs are, `most` are shown, evenly chosen, with the first and the last.

    Example:
        >>> summary_table([ClaimRow("arma", "noise", "0", run, "accuracy", 80.0 + 2 * run) for run in range(2)])
        (['method', 'varied', 'metric', 'at', 'mean ± deviation'], [['arma', 'noise', 'accuracy', '0', '81 ± 1.4']])
    """
    lines = []
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for (method, variable, metric, level), values in collect(rows, "method", "variable", "metric", "level").items():
        mean, deviation = mean_and_deviation(values)
        groups.setdefault((method, variable, metric), []).append((level, f"{mean:.3g} ± {deviation:.2g}"))
    for (method, variable, metric), cells in groups.items():
        kept = sorted({round(i * (len(cells) - 1) / (most - 1)) for i in range(most)}) if len(cells) > most else None
        for index, (level, cell) in enumerate(cells):
            if kept is None or index in kept:
                lines.append([method, variable, metric, level, cell])
    return ["method", "varied", "metric", "at", "mean ± deviation"], lines


def collect(rows: Iterable[ClaimRow], *columns: str) -> dict[tuple[str, ...], list[float]]:
    """The values by some of the columns, in the order in which they first come."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(str(getattr(row, name)) for name in columns), []).append(row.value)
    return groups


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample deviation of what is finite; of one value the deviation is 0, of none both are NaN.

    Example:
        >>> mean_and_deviation([1.0, 3.0, math.nan]), mean_and_deviation([math.nan])
        ((2.0, 1.4142135623730951), (nan, nan))
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.nan, math.nan
    return statistics.fmean(finite), statistics.stdev(finite) if len(finite) > 1 else 0.0


def line_of(
    rows: Sequence[ClaimRow], metric: str, method: str, variable: str
) -> tuple[list[str], list[float], list[float]]:
    """Levels, means and deviations of one line of a plot."""
    chosen = [row for row in rows if (row.metric, row.method, row.variable) == (metric, method, variable)]
    groups = collect(chosen, "level")
    summary = [mean_and_deviation(values) for values in groups.values()]
    return [level for (level,) in groups], [mean for mean, _ in summary], [deviation for _, deviation in summary]


def draw_line(axes: Any, rows: Sequence[ClaimRow], metric: str, method: str, variable: str, **style: Any) -> None:
    """Draw the mean over runs against the level, with the deviation as a band."""
    levels, mean, deviation = line_of(rows, metric, method, variable)
    x = [float(level) for level in levels]
    axes.plot(x, mean, **{"marker": "o", "markersize": 3} | style)
    low = [m - d for m, d in zip(mean, deviation, strict=True)]
    high = [m + d for m, d in zip(mean, deviation, strict=True)]
    axes.fill_between(x, low, high, alpha=0.15, linewidth=0, color=style.get("color"))


def draw_methods(axes: Any, rows: Sequence[ClaimRow], metric: str, variable: str) -> None:
    """Draw the line of each method."""
    for method in METHODS:
        draw_line(axes, rows, metric, method, variable, color=COLOURS[method], label=LABELS[method])


# ------------------------------------------------------------------------------------------------------------- training


@cache
def cora() -> NodeDataset:
    """Cora, read once."""
    return load("cora")


def config(method: str) -> NodesConfig:
    """The paper's hyperparameters for Cora, the same for every method, but stopping on validation loss, patience 100.

    Example:
        >>> config("arma").hidden, config("arma").stacks, config("arma").stop_on
        (16, 2, 'loss')
    """
    return replace(paper_config("cora", method), stop_on="loss", patience=100)


def train_all(
    build: Callable[[], NodeNet],
    dataset: NodeDataset,
    settings: Sequence[Setting],
    *,
    epochs: int = 2000,
    patience: int = 100,
    look: Callable[[Trials], None] | None = None,
) -> list[Outcome]:
    """Train one network per setting as one batch, stopping on validation loss; outcomes in their order."""
    trials = Trials(build, NodeTask(dataset, build()), settings, epochs=epochs, patience=patience, stop_on="loss")
    outcomes = {outcome.setting: outcome for outcome in trials.run(look)}
    return [outcomes[setting] for setting in settings]


def train_on_cora(method: str, runs: int) -> list[NodeNet]:
    """The trained networks of a method on Cora, one per run."""
    chosen, dataset = config(method), cora()
    build = chosen.experiment(dataset).network
    outcomes = train_all(build, dataset, [chosen.setting(seed) for seed in range(runs)], patience=chosen.patience)
    return [restored(build, outcome) for outcome in outcomes]


def restored(build: Callable[[], NodeNet], outcome: Outcome) -> NodeNet:
    """The network of an outcome, with its best weights, ready to be used."""
    net = build().eval()
    net.load_state_dict(outcome.state)
    return net


@torch.no_grad()
def accuracy(net: NodeNet, x: Tensor | CSR, op: GraphOperator | None, y: Tensor, nodes: Tensor | None = None) -> float:
    """The accuracy in per cent, on some nodes or on all."""
    right: Tensor = net(x, op).argmax(-1) == y
    return 100.0 * (right if nodes is None else right[nodes]).double().mean().item()
