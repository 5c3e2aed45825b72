"""Measurements of the paper's claims as rows of a CSV file: one per trial and metric, kept as soon as they are made."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from armagnn.checks import integer
from armagnn.errors import DataError
from armagnn.sealed import read_table, write_sealed


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

    covers: Mapping[str, str]
    measure: Callable[[int], list[ClaimRow]]

    def has(self, row: ClaimRow) -> bool:
        """Is this a row of the job?"""
        return all(getattr(row, name) == value for name, value in self.covers.items())

    def done(self, rows: Iterable[ClaimRow], runs: int) -> bool:
        """Do these rows hold all runs of the job?"""
        return set(range(runs)) <= {row.run for row in rows if self.has(row)}


def measure(jobs: Sequence[Measurement], path: Path, runs: int) -> Iterator[tuple[Measurement, list[ClaimRow]]]:
    """Do the jobs that the file at `path` does not hold yet, and keep each in it as soon as it is done."""
    integer("runs", runs, 1, 100_000)
    for job in jobs:
        rows = read_rows(path) if path.exists() else []
        if job.done(rows, runs):
            continue
        new = job.measure(runs)
        others = [row for row in rows if not job.has(row)]  # of fewer runs, those are in the new ones again
        write_sealed(path, to_csv([*others, *new]).encode())
        yield job, new


def to_csv(rows: Iterable[ClaimRow]) -> str:
    """The rows as text.

    Example:
        >>> print(to_csv([ClaimRow("arma", "noise", "0.5", 0, "accuracy", 81.25)]), end="")
        method,variable,level,run,metric,value
        arma,noise,0.5,0,accuracy,81.25
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow([field.name for field in fields(ClaimRow)])
    for row in rows:
        writer.writerow([*astuple(row)[:-1], f"{row.value:.6g}"])
    return table.getvalue()


def read_rows(path: Path) -> list[ClaimRow]:
    """The rows of a file; anything else is a `DataError`."""
    rows = read_table(path, [field.name for field in fields(ClaimRow)])
    try:
        return [ClaimRow(**{**row, "run": int(row["run"]), "value": float(row["value"])}) for row in rows]  # type: ignore[arg-type]
    except ValueError as error:
        raise DataError(f"{path}: not the rows of a claim ({error}). Remove it to measure again.") from error


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
    axes.plot(x, mean, marker="o", markersize=3, **style)
    low = [m - d for m, d in zip(mean, deviation, strict=True)]
    high = [m + d for m, d in zip(mean, deviation, strict=True)]
    axes.fill_between(x, low, high, alpha=0.15, linewidth=0, color=style.get("color"))
