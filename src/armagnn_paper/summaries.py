"""Rows of a table summed up: cells with mean and deviation, tests between them, and tables in Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scipy import stats

from armagnn.data.splits import FOLDS
from armagnn.errors import DataError
from armagnn.sealed import read_table
from armagnn.training.record import CellName
from armagnn_paper.published import Published

LABELS: Final = {
    "arma": "ARMA", "gcn": "GCN", "chebyshev": "Chebyshev", "cayley": "CayleyNet", "gat": "GAT", "sage": "GraphSAGE",
    "gin": "GIN", "mlp": "MLP (no graph)", "cora": "Cora", "citeseer": "Citeseer", "pubmed": "Pubmed",
    "ppi": "PPI (rebuilt: 98.75 % of node labels)", "enzymes": "Enzymes", "proteins": "Proteins", "dd": "D&D",
    "mutag": "MUTAG", "bench-hard": "Bench-hard (regenerated)", "bench-hard-small": "Bench-hard, 300 graphs",
    "mnist": "MNIST", "mnist-self": "MNIST (a pixel is among its own 8 neighbours)", "20news": "20news",
    "20news-plain": "20news (plain words)", "rational": "Rational", "gpr": "GPR", "bernstein": "Bernstein",
    "jacobi": "Jacobi", "chameleon-filtered": "Chameleon (filtered)", "squirrel-filtered": "Squirrel (filtered)",
    "actor": "Actor", "minesweeper": "Minesweeper", "tolokers": "Tolokers", "texas": "Texas", "cornell": "Cornell",
    "wisconsin": "Wisconsin",
}  # fmt: skip
"""What methods and datasets are called on pages."""

TITLES: Final = {
    "paper": "text read literally", "defferrard": "Defferrard's reading", "all": "all documents, last epoch",
    "tuned": "tuned", "grid": "grid", "split": "the file's split", "leak": "once more", "wide": "wide",
}  # fmt: skip
"""What the protocols are called on pages."""

PROCESSORS: Final = ("cpu", "CPU", "x86_64", "aarch64", "arm64")
"""What rows made on a processor call it."""


@dataclass(frozen=True)
class Summary:
    """The values of a metric in one cell, and the fold that each is of (some tables have none)."""

    values: tuple[float, ...]
    devices: frozenset[str]
    folds: tuple[str, ...] = ()

    @property
    def mean(self) -> float:
        """Their mean."""
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Their sample deviation; 0 of a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    def shown(self, digits: int = 1) -> str:
        """Mean, deviation and the number of values; a single one has no deviation."""
        deviation = f" ± {self.deviation:.{digits}f}" if len(self.values) > 1 else ""
        return f"{self.mean:.{digits}f}{deviation} ({len(self.values)})"

    def __str__(self) -> str:
        return self.shown()


def read_cells(path: Path, metric: str) -> dict[CellName, Summary]:
    """The cells of a table's CSV file for one metric."""
    values: dict[CellName, list[float]] = {}
    devices: dict[CellName, set[str]] = {}
    folds: dict[CellName, list[str]] = {}
    seen: set[tuple[CellName, str, str]] = set()
    rows = read_table(path)
    try:
        for row in rows:
            if row["metric"] == metric:
                cell = (row["dataset"], row["method"], row["protocol"])
                place = cell, row["run"], row.get("fold", "0")  # some tables have no folds
                if place in seen:
                    raise ValueError(f"two rows of run {place[1]}, fold {place[2]} of {' '.join(cell)}")
                seen.add(place)
                values.setdefault(cell, []).append(float(row["value"]))
                devices.setdefault(cell, set()).add(row.get("device", ""))
                folds.setdefault(cell, []).append(place[2])
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: not a table of results ({error}). Make it with: armagnn results export.") from error
    return {cell: Summary(tuple(found), frozenset(devices[cell]), tuple(folds[cell])) for cell, found in values.items()}


def welch(ours: Summary, theirs: Summary) -> float:
    """The p-value of Welch's t-test that two cells have the same mean; nan of single runs."""
    if min(len(ours.values), len(theirs.values)) < 2 or ours.deviation == theirs.deviation == 0:
        return math.nan
    return float(stats.ttest_ind(ours.values, theirs.values, equal_var=False).pvalue)


def fold_leads(ours: Summary, theirs: Summary) -> tuple[float, ...]:
    """The mean of our runs minus that of theirs on each fold that both have.

    Example:
        >>> ours = Summary((3.0, 5.0, 8.0, 9.0), frozenset(), ("0", "0", "1", "2"))
        >>> fold_leads(ours, Summary((5.0, 3.0), frozenset(), ("1", "0")))
        (1.0, 3.0)
    """
    means: list[dict[str, float]] = []
    for cell in (ours, theirs):
        by_fold: dict[str, list[float]] = {}
        for fold, value in zip(cell.folds, cell.values, strict=True):
            by_fold.setdefault(fold, []).append(value)
        means.append({fold: statistics.fmean(values) for fold, values in by_fold.items()})
    return tuple(mean - means[1][fold] for fold, mean in means[0].items() if fold in means[1])


def corrected(leads: Sequence[float], tests: float = 1 / FOLDS) -> float:
    r"""The two-sided p-value of the corrected resampled t-test of Nadeau and Bengio (2003) that the mean lead is 0.

    .. math:: t = \bar d \Big/ \sqrt{\Big(\frac1J + \frac{n_2}{n_1}\Big)\, s^2(d)}

    with J - 1 degrees of freedom, for the leads d on J folds: on each, a share `tests` of the graphs, n2, tests what
    was learnt from the others, n1 (those for early stopping among them). Without n2 / n1 it is the paired t-test, which
    takes the folds as independent; but any two of them share most of their training graphs. Nan of fewer than two
    folds, or where all leads are the same.

    Example:
        >>> round(corrected([1.0, 2.0, 3.0, 4.0]), 4)
        0.0485
    """
    if len(leads) < 2 or len(set(leads)) == 1:
        return math.nan
    variance = (1 / len(leads) + tests / (1 - tests)) * statistics.variance(leads)
    return float(2 * stats.t.sf(abs(statistics.fmean(leads)) / math.sqrt(variance), len(leads) - 1))


def against(arma: Summary, other: Summary, digits: int = 1, *, paired: bool = False) -> str:
    """ARMA's lead over a method with its p-value: of the means of all runs, by Welch's test; or, paired, fold by fold.

    Paired, lead and test (`corrected`) are over the folds that both have; "" if there are none.
    """
    if paired:
        leads = fold_leads(arma, other)
        if not leads:
            return ""
        lead, p = statistics.fmean(leads), corrected(leads)
    else:
        lead, p = arma.mean - other.mean, welch(arma, other)
    shown = f"{lead:+.{digits}f}"
    return shown if math.isnan(p) else f"{shown} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"


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
    dataset: str,
    cells: Mapping[CellName, Summary],
    published: Published,
    methods: Sequence[str],
    digits: int = 1,
    *,
    paired: bool = False,
    protocols: Mapping[str, str],
) -> str:
    """The table of one dataset: the paper's numbers and ours in all protocols; "" if there is no trial of it.

    Every method has a row: what was not run shows as an empty cell. A protocol that was not run has no column. ARMA's
    lead is tested as `against` does it, paired by folds or not. `protocols` names the columns.
    """
    if not any((dataset, method, way) in cells for method in methods for way in protocols):
        return ""
    protocols = {way: name for way, name in protocols.items() if any((dataset, each, way) in cells for each in methods)}
    rows = []
    for method in methods:
        paper = published.get(method, {}).get(dataset)
        row = [LABELS[method], "" if paper is None else f"{paper[0]:.{digits}f} ± {paper[1]:.{digits}f}"]
        for way in protocols:
            ours, arma = cells.get((dataset, method, way)), cells.get((dataset, "arma", way))
            row.append("" if ours is None else ours.shown(digits))
            if ours is None or arma is None or method == "arma":
                row.append("")
            else:
                row.append(against(arma, ours, digits, paired=paired))
        tuned = cells.get((dataset, method, "tuned"))
        row.append("" if tuned is None or paper is None else f"{tuned.mean - paper[0]:+.{digits}f}")
        rows.append(row)
    ways = [column for name in protocols.values() for column in (f"ours, {name}", "ARMA's lead")]
    return markdown(["", "paper", *ways, "tuned - paper"], rows)


def overview(
    cells: Mapping[CellName, Summary],
    published: Published,
    datasets: Sequence[str],
    methods: Sequence[str],
    way: str,
    digits: int = 1,
) -> str:
    """A table in short: for each method that was run, the paper's number and ours (in brackets how many runs)."""
    rows = []
    for method in methods:
        row = [LABELS[method]]
        for dataset in datasets:
            paper, ours = published.get(method, {}).get(dataset), cells.get((dataset, method, way))
            row.append(
                f"{'-' if paper is None else f'{paper[0]:.{digits}f}'} / {'-' if ours is None else ours.shown(digits)}"
            )
        if any((dataset, method, way) in cells for dataset in datasets):
            rows.append(row)
    names = [LABELS.get(dataset, dataset.removeprefix("qm9/")).split(" (")[0] for dataset in datasets]
    return markdown([f"paper / ours, {TITLES[way]} (runs)", *names], rows)


def leads_of(
    cells: Mapping[CellName, Summary],
    datasets: Sequence[str],
    methods: Sequence[str],
    way: str,
    digits: int = 1,
    *,
    paired: bool = False,
) -> str:
    """ARMA's lead over every other method that was run, as `against` tests it; "" if none was."""
    rows = []
    for method in methods[1:]:
        pairs = [(cells.get((dataset, "arma", way)), cells.get((dataset, method, way))) for dataset in datasets]
        leads = ["" if a is None or b is None else against(a, b, digits, paired=paired) for a, b in pairs]
        if any(leads):
            rows.append([LABELS[method], *leads])
    names = [dataset.removeprefix("qm9/") for dataset in datasets]
    return markdown([f"ARMA's lead, {TITLES[way]}", *names], rows) if rows else ""


def devices_of(datasets: Sequence[str], cells: Mapping[CellName, Summary]) -> str:
    """Where the rows of some datasets were made."""
    names = {name for cell, found in cells.items() if cell[0] in datasets for name in found.devices}
    # early rows have what some systems call their processors, which says no more
    return ", ".join(sorted({"cpu" if name in PROCESSORS else name for name in names}))
