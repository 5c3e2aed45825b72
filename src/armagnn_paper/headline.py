"""The paper's twenty cells of ARMA in one table, and the best honest protocol of each method in short.

A protocol is honest if nothing in it was chosen on test data. Where a cell has several, the best mean is shown, for
every method alike, and named: the better of two means flatters a little, which `results.md` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from armagnn.training.record import CellName
from armagnn_paper.published import READINGS, Published
from armagnn_paper.summaries import LABELS, Summary, markdown
from armagnn_paper.table import Table

HONEST: Final = {
    "paper": "literal", "defferrard": "Defferrard", "all": "all documents", "tuned": "tuned", "grid": "grid",
}  # fmt: skip
"""Protocols that count, with short names."""

TESTED: Final = {
    "cora": 1000, "citeseer": 1000, "pubmed": 1000, "mnist": 10_000, "20news": 7_071,
    "enzymes": 600, "proteins": 1113, "dd": 1178, "mutag": 188, "bench-hard": 1800,
}  # fmt: skip
"""Nodes, signals or graphs that are tested; of folds, in all of them together. Others have no sampling error here."""

Cells = Mapping[CellName, Summary]


class Best(NamedTuple):
    """The best honest protocol of a method on a dataset: how it is called, and what it gave."""

    name: str
    cell: Summary


def best_of(table: Table, cells: Cells, dataset: str, method: str) -> Best | None:
    """The honest protocol with the best mean, on the dataset or another reading of it; the first of equals.

    An older reading counts only where the dataset has no trial of the method.
    """
    others = [other for other, of in READINGS.items() if of == dataset]
    found = list(_protocols(table, cells, dataset, method))
    for other in others:
        if not found or other == "mnist-self":
            label = LABELS[other].partition(" (")[2].rstrip(")")
            found += [Best(f"{best.name}; {label}", best.cell) for best in _protocols(table, cells, other, method)]
    sign = -1 if table.metric == "mse" else 1
    return max(found, key=lambda best: sign * best.cell.mean, default=None)


def _protocols(table: Table, cells: Cells, dataset: str, method: str) -> Iterator[Best]:
    for way, name in HONEST.items():
        cell = cells.get((dataset, method, way))
        if cell is not None and (table.num_folds == 1 or len(set(cell.folds)) == table.num_folds):
            yield Best(name, cell)


def sampling_error(dataset: str, accuracy: float) -> float | None:
    r"""The deviation of an accuracy (in per cent) over test sets of that size, :math:`\sqrt{p (1 - p) / n}`.

    Example:
        >>> round(sampling_error("cora", 83.3), 2), sampling_error("qm9/mu", 1.0)
        (1.18, None)
    """
    if dataset not in TESTED:
        return None
    share = min(max(accuracy / 100, 0.0), 1.0)
    return 100 * math.sqrt(share * (1 - share) / TESTED[dataset])


def verdict(ours: float, paper: tuple[float, float], *, lower: bool, error: float | None, digits: int) -> str:
    """Is the paper's number reached, up to its own deviation? If not, by how much, in sampling errors too.

    Example:
        >>> verdict(81.0, (83.4, 0.6), lower=False, error=1.2, digits=1)
        'short by 2.4 (2.0 sampling errors)'
        >>> verdict(0.3, (0.394, 0.005), lower=True, error=None, digits=3)
        'reached'
    """
    mean, deviation = paper
    behind = ours - mean if lower else mean - ours
    if behind <= deviation + 1e-9:  # up to rounding
        return "reached"
    return f"short by {behind:.{digits}f}" + (f" ({behind / error:.1f} sampling errors)" if error else "")


def arma_cells(tables: Sequence[tuple[Table, Cells, int]]) -> str:
    """A row for every cell of ARMA that the paper has, from tables with their cells and digits."""
    rows = []
    for table, cells, digits in tables:
        for dataset in table.datasets:
            paper, best = table.published["arma"][dataset], best_of(table, cells, dataset, "arma")
            row = [LABELS.get(dataset, dataset), f"{paper[0]:.{digits}f} ± {paper[1]:.{digits}f}"]
            if best is None:
                rows.append([*row, "", "", "", "", "not run"])
                continue
            cell, error = best.cell, sampling_error(dataset, best.cell.mean)
            lower = table.metric == "mse"
            rows.append(
                [*row, f"{cell.mean:.{digits}f} ± {cell.deviation:.{digits}f}", best.name, str(len(cell.values)),
                 "" if error is None else f"{error:.{digits}f}",
                 verdict(cell.mean, paper, lower=lower, error=error, digits=digits)]
            )  # fmt: skip
    return markdown(["ARMA", "paper", "ours", "protocol", "trainings", "sampling error", "verdict"], rows)


def in_short(table: Table, cells: Cells, published: Published, digits: int = 1) -> str:
    """For each method the paper's number and ours in its best honest protocol (trainings, protocol)."""
    rows = []
    for method in table.methods:
        row = [LABELS[method]]
        for dataset in table.datasets:
            paper, best = published.get(method, {}).get(dataset), best_of(table, cells, dataset, method)
            theirs = "-" if paper is None else f"{paper[0]:.{digits}f}"
            ours = "-"
            if best is not None:
                shown = best.cell.shown(digits)
                ours = f"{shown[:-1]}, {best.name})"
            row.append(f"{theirs} / {ours}")
        rows.append(row)
    names = [LABELS.get(dataset, dataset).split(" (")[0] for dataset in table.datasets]
    return markdown(["paper / ours, best honest protocol", *names], rows)
