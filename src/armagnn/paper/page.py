"""The page of results: made from the committed rows, one per trial, and from nothing else."""

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
from armagnn.paper.published import ACCURACY, DATASETS, METHODS

LABELS: Final = {
    "arma": "ARMA", "gcn": "GCN", "chebyshev": "Chebyshev", "cayley": "CayleyNet", "gat": "GAT", "sage": "GraphSAGE",
    "gin": "GIN", "mlp": "MLP (no graph)", "cora": "Cora", "citeseer": "Citeseer", "pubmed": "Pubmed",
    "ppi": "PPI (rebuilt: 98.75 % of node labels)",
}  # fmt: skip
Cell = tuple[str, str, str]  # dataset, method, protocol
MARKS: Final = ("<!-- table 1 -->", "<!-- end of table 1 -->")


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

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.deviation:.1f} ({len(self.values)})"


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
                    if (cell, row["run"], row["fold"]) in seen:
                        raise ValueError(f"two rows of run {row['run']}, fold {row['fold']} of {' '.join(cell)}")
                    seen.add((cell, row["run"], row["fold"]))
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


def node_classification(path: Path) -> str:
    """The section of Table 1."""
    accuracy, f1 = read_cells(path, "accuracy"), read_cells(path, "micro_f1")
    parts = [_accuracy_section(dataset, accuracy) for dataset in DATASETS]
    parts += [_f1_section(f1)] if f1 else []
    return "\n\n".join(part for part in parts if part)


def _accuracy_section(dataset: str, cells: Mapping[Cell, Summary]) -> str:
    methods = [method for method in METHODS if any((dataset, method, way) in cells for way in ("paper", "tuned"))]
    if not methods:
        return ""
    rows = []
    for method in methods:
        published = ACCURACY.get(method, {}).get(dataset)
        row = [LABELS[method], "" if published is None else f"{published[0]:.1f} ± {published[1]:.1f}"]
        for way in ("paper", "tuned"):
            ours, arma = cells.get((dataset, method, way)), cells.get((dataset, "arma", way))
            row.append("" if ours is None else str(ours))
            row.append("" if ours is None or arma is None or method == "arma" else _against(arma, ours))
        tuned = cells.get((dataset, method, "tuned"))
        row.append("" if tuned is None or published is None else f"{tuned.mean - published[0]:+.1f}")
        rows.append(row)
    head = ["", "paper", "ours, text read literally", "ARMA's lead", "ours, tuned", "ARMA's lead", "tuned - paper"]
    command = f"`armagnn reproduce node-classification --dataset {dataset} --method METHOD --protocol PROTOCOL`"
    devices = sorted({device for cell, found in cells.items() if cell[0] == dataset for device in found.devices})
    return (
        f"### {LABELS[dataset]}\n\nTest accuracy in per cent, mean ± sample deviation (runs); seeds are 0, 1, 2, ... "
        f"Made on {', '.join(devices)} by {command}.\n\n{_table(head, rows)}"
    )


def _against(arma: Summary, other: Summary) -> str:
    p = welch(arma, other)
    lead = f"{arma.mean - other.mean:+.1f}"
    return lead if math.isnan(p) else f"{lead} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"


def _f1_section(cells: Mapping[Cell, Summary]) -> str:
    rows = [
        [LABELS[method], *(str(cells.get(("ppi", method, way), "")) for way in ("paper", "tuned", "wide"))]
        for method in METHODS
        if any(("ppi", method, way) in cells for way in ("paper", "tuned", "wide"))
    ]
    return f"### PPI: micro-F1\n\nIn per cent.\n\n{_table(['', 'text read literally', 'tuned', 'wide'], rows)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def overview(folder: Path) -> str:
    """Table 1 in short, for the README: the paper's number and ours (tuned; in brackets how many runs)."""
    cells = read_cells(folder / "node-classification.csv", "accuracy")
    rows = []
    for method in METHODS:
        row = [LABELS[method]]
        for dataset in DATASETS:
            published = ACCURACY.get(method, {}).get(dataset)
            ours = cells.get((dataset, method, "tuned"))
            row.append(f"{'-' if published is None else f'{published[0]:.1f}'} / {'-' if ours is None else ours}")
        if any(" / -" not in entry for entry in row[1:]):
            rows.append(row)
    return _table(["paper / ours, tuned (runs)", *(LABELS[dataset].split(" (")[0] for dataset in DATASETS)], rows)


def with_overview(text: str, folder: Path) -> str:
    """A text with the table between its two marks made anew."""
    if not all(mark in text for mark in MARKS):
        raise DataError(f"The text has no place for the table: put {MARKS[0]} and {MARKS[1]} where it belongs.")
    before, rest = text.split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    return f"{before}{MARKS[0]}\n{overview(folder)}\n{MARKS[1]}{after}"


def finals_held(path: Path) -> str:
    """A sentence that names the cells whose choice was made in finals."""
    try:
        with path.open(newline="") as file:
            held = {(row["dataset"], row["method"]) for row in csv.DictReader(file) if row["stage"] == "finals"}
    except (OSError, KeyError) as error:
        raise DataError(f"{path}: not the scores of a search ({error}).") from error
    cells = [f"{LABELS[m]} on {d}" for d in DATASETS for m in METHODS if (d, m) in held]
    return f"Finals were held for: {', '.join(cells) or 'none yet'}. The other choices are those of the first stage."


def results_page(folder: Path) -> str:
    """The whole page, from the CSV files of a folder."""
    section = node_classification(folder / "node-classification.csv")
    return f"{INTRODUCTION}\n{finals_held(folder / 'search' / 'node-classification.csv')}\n\n{section}\n"


INTRODUCTION: Final = """# Results

This page is made by `armagnn results page` from the rows of `results/*.csv`, one per trial and metric. No number in its
tables is typed by hand. "Paper" is the published number. "Text read literally" is the paper's architecture,
hyperparameters and stopping rule (validation accuracy, patience 50). "Tuned" changes what the text leaves open (drop
rates, L2, activation, K of the last layer), chosen by a random search on validation data alone: 48 settings, the same
for every method, 3 seeds each; then the 8 best from 20 fresh seeds each; no seed is one of the reported runs; stopping
on validation loss (patience 100; 300 on PPI). Every setting that was tried and its validation scores are in
`results/search/node-classification.csv`, the choices in `src/armagnn/paper/chosen/`. ARMA's lead over a method is the
difference of the means, with the p-value of Welch's t-test.

On Cora the choice of the first stage for ARMA was reported first (81.5 ± 0.7 over 100 runs, H200); finals were then
held there for ARMA and GCN, and ARMA's row shows what they chose (100 runs on a CPU). Until finals are held everywhere,
leads compare methods with different budgets. Rows of GAT, GraphSAGE, GIN, CayleyNet, the MLP and PPI are still to come.

## Table 1: node classification
"""
