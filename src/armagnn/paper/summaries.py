"""Rows of a table summed up: cells with mean and deviation, tests between them, and tables in Markdown."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scipy import stats

from armagnn.errors import DataError

LABELS: Final = {
    "arma": "ARMA", "gcn": "GCN", "chebyshev": "Chebyshev", "cayley": "CayleyNet", "gat": "GAT", "sage": "GraphSAGE",
    "gin": "GIN", "mlp": "MLP (no graph)", "cora": "Cora", "citeseer": "Citeseer", "pubmed": "Pubmed",
    "ppi": "PPI (rebuilt: 98.75 % of node labels)", "enzymes": "Enzymes", "proteins": "Proteins", "dd": "D&D",
    "mutag": "MUTAG", "bench-hard": "Bench-hard (regenerated)", "bench-hard-small": "Bench-hard, 300 graphs",
}  # fmt: skip
"""What methods and datasets are called on pages."""

Cell = tuple[str, str, str]  # dataset, method, protocol
Published = Mapping[str, Mapping[str, tuple[float, float]]]  # by method and dataset


@dataclass(frozen=True)
class Summary:
    """The values of a metric in one cell."""

    values: tuple[float, ...]
    devices: frozenset[str]

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Their sample deviation; 0 of a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def shown(self, digits: int = 1) -> str:
        """Mean, deviation and the number of values."""
        return f"{self.mean:.{digits}f} ± {self.deviation:.{digits}f} ({len(self.values)})"

    def __str__(self) -> str:
        return self.shown()


def read_cells(path: Path, metric: str) -> dict[Cell, Summary]:
    """The cells of a table's CSV file for one metric."""
    values: dict[Cell, list[float]] = {}
    devices: dict[Cell, set[str]] = {}
    seen: set[tuple[Cell, str, str]] = set()
    try:
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                if row["metric"] == metric:
                    cell = (row["dataset"], row["method"], row["protocol"])
                    place = cell, row["run"], row.get("fold", "0")  # some tables have no folds
                    if place in seen:
                        raise ValueError(f"two rows of run {place[1]}, fold {place[2]} of {' '.join(cell)}")
                    seen.add(place)
                    values.setdefault(cell, []).append(float(row["value"]))
                    devices.setdefault(cell, set()).add(row.get("device", ""))
    except (OSError, KeyError, ValueError) as error:
        raise DataError(f"{path}: not a table of results ({error}). Make it with: armagnn results export.") from error
    return {cell: Summary(tuple(found), frozenset(devices[cell])) for cell, found in values.items()}


def welch(ours: Summary, theirs: Summary) -> float:
    """The p-value of Welch's t-test that two cells have the same mean; nan of single runs."""
    if min(len(ours.values), len(theirs.values)) < 2 or ours.deviation == theirs.deviation == 0:
        return math.nan
    return float(stats.ttest_ind(ours.values, theirs.values, equal_var=False).pvalue)


def against(arma: Summary, other: Summary, digits: int = 1) -> str:
    """ARMA's lead over a method, the difference of the means, with the p-value of Welch's test."""
    p = welch(arma, other)
    lead = f"{arma.mean - other.mean:+.{digits}f}"
    return lead if math.isnan(p) else f"{lead} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown.

    Example:
        >>> print(markdown(["a", "b"], [["1", "2"]]))
        | a | b |
        | --- | --- |
        | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def comparison(
    dataset: str, cells: Mapping[Cell, Summary], published: Published, methods: Sequence[str], digits: int = 1
) -> str:
    """The table of one dataset: the paper's numbers and ours in both protocols; "" if there are no rows of it."""
    shown = [method for method in methods if any((dataset, method, way) in cells for way in ("paper", "tuned"))]
    rows = []
    for method in shown:
        paper = published.get(method, {}).get(dataset)
        row = [LABELS[method], "" if paper is None else f"{paper[0]:.{digits}f} ± {paper[1]:.{digits}f}"]
        for way in ("paper", "tuned"):
            ours, arma = cells.get((dataset, method, way)), cells.get((dataset, "arma", way))
            row.append("" if ours is None else ours.shown(digits))
            row.append("" if ours is None or arma is None or method == "arma" else against(arma, ours, digits))
        tuned = cells.get((dataset, method, "tuned"))
        row.append("" if tuned is None or paper is None else f"{tuned.mean - paper[0]:+.{digits}f}")
        rows.append(row)
    head = ["", "paper", "ours, text read literally", "ARMA's lead", "ours, tuned", "ARMA's lead", "tuned - paper"]
    return markdown(head, rows) if rows else ""


def devices_of(dataset: str, cells: Mapping[Cell, Summary]) -> str:
    """Where the rows of a dataset were made."""
    return ", ".join(sorted({name for cell, found in cells.items() if cell[0] == dataset for name in found.devices}))
