"""What the ``tuned`` protocol of a table chooses, and how: a search on validation data only, the same for every method.

Every method is tried with the same settings, drawn once for each dataset; the first is the paper's own. Each is trained
from a few seeds. The setting with the highest mean validation accuracy (of equal ones, the lower validation loss) is
chosen. Where a budget has finals, the best settings are trained from fresh seeds, which decide: the best of many noisy
means is the luckiest as much as the best. No seed is one of the reported runs (but on mnist-self, as the page says),
and test data is never looked at.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from armagnn.errors import DataError
from armagnn.sealed import read_sealed, write_sealed
from armagnn.training.config import Config
from armagnn.training.record import Record, canonical
from armagnn_paper.table import Cell, CellTrial, Table

FIRST_SEED: Final = 1_000_000
"""Seeds of the searches; those of the reported runs begin at 0."""

FINAL_SEED: Final = 2_000_000
"""Seeds of the finals."""


def score_of(table: Table, dataset: str) -> str:
    """The validation metric that decides; where a table has none (of numbers), the loss does."""
    return "val_roc_auc" if table.metric_of(dataset) == "roc_auc" else "val_accuracy"


@dataclass(frozen=True)
class Budget:
    """What a search may spend on a cell, the same for every method.

    Attributes:
        settings: that are tried.
        seeds: trials of each.
        finalists: settings that go to the finals; with 0 there are none, and the first stage decides.
        final_seeds: trials of each of them there.
        epochs: most epochs of a trial of the first stage; 0 for those of the reported runs.
        folds: folds that the settings are tried on: each chooses for itself, or the mean of all of them decides.
    """

    settings: int = 6
    seeds: int = 1
    finalists: int = 0
    final_seeds: int = 0
    epochs: int = 0
    folds: int = 1


@dataclass(frozen=True)
class Search:
    """How the settings of a table are searched.

    Attributes:
        space: gives the settings that are tried of a cell, for a cell and their number; the first is the paper's.
        budgets: what may be spent, by dataset.
        shown: the fields of a setting that the table of scores shows, as the store names them.
        drawn: by dataset, the seeds of the settings of datasets that were searched before these became a function of
            the name (then they went by the dataset's place in a list).
    """

    space: Callable[[Cell, int, np.random.Generator], Sequence[Config]]
    budgets: Mapping[str, Budget]
    shown: tuple[str, ...]
    drawn: Mapping[str, Sequence[int]]

    def generator(self, dataset: str) -> np.random.Generator:
        """The generator that draws the settings of a dataset. It depends on the name of the dataset alone."""
        own = [int.from_bytes(hashlib.sha256(dataset.encode()).digest()[:8])]
        return np.random.default_rng(self.drawn.get(dataset, own))

    def settings(self, dataset: str, method: str, count: int) -> list[Config]:
        """The settings that are tried of a dataset and a method, as they are reported: trained to their end."""
        return list(self.space(Cell(dataset, method, "tuned"), count, self.generator(dataset)))


def log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    """A number between `low` and `high` whose logarithm is uniform, to three digits.

    Example:
        >>> log_uniform(np.random.default_rng(0), 1e-6, 1e-2)
        0.000353
    """
    return float(f"{np.exp(generator.uniform(np.log(low), np.log(high))):.3g}")


# --------------------------------------------------------------------------------------------------------------- trials


def search_trials(table: Table, dataset: str, method: str, budget: Budget) -> list[CellTrial]:
    """All trials of the first stage of the search of one cell, in all folds that choose.

    Settings that differ only in what a method does not have are one, and are tried once.

    Example:
        >>> from armagnn_paper.tables import NODES
        >>> [len(search_trials(NODES, "ppi", method, NODES.search.budgets["ppi"])) for method in ("arma", "gcn")]
        [8, 7]
    """
    cell = Cell(dataset, method, "tuned")
    configs = dict.fromkeys(table.search.settings(dataset, method, budget.settings))
    short = [replace(config, epochs=budget.epochs or config.epochs) for config in configs]
    return [trial for fold in range(budget.folds) for trial in _trials(cell, short, budget.seeds, FIRST_SEED, fold)]


def final_trials(table: Table, records: Iterable[Record], dataset: str, method: str, budget: Budget) -> list[CellTrial]:
    """The trials of the finals of one cell: the best settings of the first stage, from fresh seeds."""
    found = _Found(table, records, dataset, method, budget)
    return _trials(Cell(dataset, method, "tuned"), found.finalists(0), budget.final_seeds, FINAL_SEED)


def planned_trials(
    table: Table, records: Sequence[Record], dataset: str, method: str, budget: Budget
) -> list[CellTrial]:
    """All trials of the search of one cell, for a plan: until the finalists are known, the first settings stand in.

    Example:
        >>> from armagnn_paper.tables import NODES
        >>> len(planned_trials(NODES, [], "cora", "arma", NODES.search.budgets["cora"])) == 48 * 3 + 8 * 20
        True
    """
    late = final_trials(table, records, dataset, method, budget)
    if len(late) < budget.finalists * budget.final_seeds:
        settings = list(dict.fromkeys(table.search.settings(dataset, method, budget.settings)))[: budget.finalists]
        late = _trials(Cell(dataset, method, "tuned"), settings, budget.final_seeds, FINAL_SEED)
    return search_trials(table, dataset, method, budget) + late


def _trials(cell: Cell, settings: Sequence[Config], seeds: int, first: int, fold: int = 0) -> list[CellTrial]:
    return [
        CellTrial(cell, config, index * seeds + offset, first + offset, fold)
        for index, config in enumerate(settings)
        for offset in range(seeds)
    ]


def choose(table: Table, records: Iterable[Record], budgets: Mapping[str, Budget]) -> dict[str, dict[str, Any]]:
    """The chosen configuration of every cell (and fold), as `Table.config` reads them: trained to its end.

    Only a cell whose first stage is complete chooses, and only among the settings that are tried now. Where finals were
    held to their end, they decide.
    """
    records = list(records)
    chosen = {}
    places = {(record.dataset, record.method, record.fold if table.by_fold else 0) for record in records}
    for dataset, method, fold in sorted(places):
        config = _Found(table, records, dataset, method, budgets[dataset]).best(fold)
        if config is not None:
            place = f"{dataset}/{method}/{fold}" if table.by_fold else f"{dataset}/{method}"
            chosen[place] = table.stored(Cell(dataset, method, "tuned"), config)
    return chosen


class _Found:
    """The validation scores of one cell: by fold (0 where all decide), and by the setting as it is reported."""

    def __init__(self, table: Table, records: Iterable[Record], dataset: str, method: str, budget: Budget) -> None:
        cell, self.budget, self.shared = Cell(dataset, method, "tuned"), budget, 1 if table.by_fold else budget.folds
        self.configs = list(dict.fromkeys(table.search.settings(dataset, method, budget.settings)))
        names = {}  # of the settings in either stage
        for config in self.configs:
            for epochs in (budget.epochs or config.epochs, config.epochs):
                short = replace(config, epochs=epochs)
                names[canonical(table.stored(cell, short))] = config
        self.scores: dict[tuple[int, bool, Config], dict[tuple[int, int], tuple[float, float]]] = {}
        metric = score_of(table, dataset)
        for record in records:
            tried = names.get(canonical(record.config))
            if tried is not None and (record.dataset, record.method) == (dataset, method):
                score = record.metrics.get(metric, 0.0), -record.metrics.get("val_loss", 0.0)
                place = record.fold if table.by_fold else 0, record.seed >= FINAL_SEED, tried
                if table.by_fold or record.fold < budget.folds:
                    self.scores.setdefault(place, {})[record.fold, record.seed] = score

    def _means(self, fold: int, seeds: int, *, final: bool) -> dict[Config, tuple[float, float]]:
        """The mean scores of the settings that have been tried with all their seeds (and on all folds that decide)."""
        found = {config: self.scores.get((fold, final, config), {}) for config in self.configs}
        wanted = max(seeds, 1) * (1 if final else self.shared)
        complete = {config: list(scores.values()) for config, scores in found.items() if len(scores) >= wanted}
        return {
            config: (statistics.fmean(a for a, _ in scores), statistics.fmean(loss for _, loss in scores))
            for config, scores in complete.items()
        }

    def finalists(self, fold: int) -> list[Config]:
        """The settings that go to the finals, the best first; of equal ones, that which was drawn first."""
        means = self._means(fold, self.budget.seeds, final=False)
        return sorted(means, key=lambda config: means[config], reverse=True)[: self.budget.finalists]

    def best(self, fold: int) -> Config | None:
        """The chosen setting; None if the first stage is not complete."""
        first = self._means(fold, self.budget.seeds, final=False)
        if len(first) < len(self.configs):
            return None
        late = self._means(fold, self.budget.final_seeds, final=True)
        means = late if late and len(late) >= min(self.budget.finalists, len(first)) else first
        return max(means, key=lambda config: means[config])  # first of equals


# ---------------------------------------------------------------------------------------------------------------- files


def scores_csv(table: Table, records: Iterable[Record]) -> str:
    """Every trial of a search, with the setting and its validation scores; seeds of finals begin at 2,000,000."""
    text, shown = io.StringIO(), table.search.shown
    writer = csv.writer(text, lineterminator="\n")
    scores = dict.fromkeys(["val_accuracy", *(score_of(table, dataset) for dataset in table.datasets)])
    writer.writerow(["dataset", "method", "fold", *shown, "seed", *scores, "val_loss", "epochs"])
    for record in sorted(records, key=lambda r: (*r.cell, r.fold, r.seed >= FINAL_SEED, r.run)):
        found = [record.metrics.get(name) for name in scores]
        loss = record.metrics.get("val_loss")
        numbers = [*("" if score is None else f"{score:.2f}" for score in found), "" if loss is None else f"{loss:.5g}"]
        settings = [{**table.kind.LATER, **record.config}[name] for name in shown]  # stored where it is not the default
        writer.writerow([record.dataset, record.method, record.fold, *settings, record.seed, *numbers, record.epochs])
    return text.getvalue()


def write_search(
    table: Table, records: Sequence[Record], budgets: Mapping[str, Budget], out: Path | None, scores: Path | None
) -> None:
    """Write what a search chose, and all that it tried.

    Of cells that the records have no search of, the files keep what they have: it came from other stores.
    """
    own = {(record.dataset, record.method) for record in records}
    if out is not None:
        choices = {place: choice for place, choice in _choices(out).items() if _cell(place) not in own}
        choices |= choose(table, records, budgets)
        write_sealed(out, (json.dumps(dict(sorted(choices.items())), indent=2) + "\n").encode())
    if scores is not None:
        write_sealed(scores, _with_others(scores_csv(table, records), scores, own).encode())


def _cell(place: str) -> tuple[str, str]:
    """Dataset and method of a place in a file of choices: DATASET/METHOD or, with a fold, DATASET/METHOD/FOLD."""
    names = place.split("/")
    last = -2 if names[-1].isdigit() else -1
    return "/".join(names[:last]), names[last]


def _choices(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_sealed(path.parent, path.name, needed=False)) if path.exists() else {}
    except ValueError as error:
        raise DataError(f"{path}: not the choices of a search ({error}). Name another file, or remove it.") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: not the choices of a search. Name another file, or remove it.")
    return found


def _with_others(table: str, path: Path, own: set[tuple[str, str]]) -> str:
    """The rows of a table of scores, and those that the file has of other cells."""
    head, *rows = table.splitlines()
    if path.exists():
        known, *others = read_sealed(path.parent, path.name, needed=False).splitlines() or [head]
        if known != head:
            raise DataError(f"{path}: not the scores of this search. Name another file, or remove it.")
        rows += [row for row in others if tuple(row.split(",")[:2]) not in own]
    rows.sort(key=lambda row: row.split(",")[:2])  # stable: the rows of a cell keep their order
    return "\n".join([head, *rows]) + "\n"
