"""What the ``tuned`` protocol chooses, and how: a random search, the same for every method, on validation data only.

Every method is tried with the same settings, drawn once for each dataset; the first is the paper's own. Each is trained
from a few seeds; those with the highest mean validation accuracy go to the finals, where fresh seeds decide (the best
of many noisy means is the luckiest as much as the best). No seed is one of the reported runs, and test data is never
looked at. Stopping is on validation loss for all: if the search chose the rule too, "stop on accuracy" would win,
because it picks the luckiest epoch of the very number that the search compares. On PPI, where a training takes long and
its seeds hardly differ, short trainings of a few settings decide alone.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np

from armagnn.checks import integer
from armagnn.paper.choices import FIRST_SEED, log_uniform
from armagnn.paper.jobs import MOST_RUNS, CellTrial
from armagnn.paper.node_classification import NodeConfig, paper_config
from armagnn.paper.published import DATASETS
from armagnn.training.record import Record

TABLE: Final = "node-classification-search"
FINAL_SEED: Final = 2_000_000
"""Seeds of the finals."""


@dataclass(frozen=True)
class Budget:
    """What a search may spend on a cell, the same for every method.

    Attributes:
        settings: that are tried.
        seeds: trials of each.
        finalists: settings that go to the finals; with 0 there are none, and the first stage decides.
        final_seeds: trials of each of them there.
        epochs: most epochs of a trial of the first stage; 0 for those of the reported runs.
    """

    settings: int = 48
    seeds: int = 3
    finalists: int = 8
    final_seeds: int = 20
    epochs: int = 0


BUDGETS: Final = {"ppi": Budget(8, 1, 0, 0, epochs=1000)} | dict.fromkeys(("cora", "citeseer", "pubmed"), Budget())


def space(dataset: str, method: str, count: int) -> list[NodeConfig]:
    """The settings that are tried: the paper's, then `count` - 1 random ones, the same for every method.

    On the citation networks the drop rates are uniform in [0, 0.9], L2 is log-uniform in [5e-5, 2e-2]. PPI needs less
    regularisation: there each rate is 0 or uniform in [0, 0.3], L2 is in [1e-8, 1e-4]. The activation is ReLU or ELU;
    the last layer has K as the first, or 1. What a method does not have (skip connections, K) it ignores.

    Example:
        >>> arma, gcn = (space("cora", method, 9)[5] for method in ("arma", "gcn"))
        >>> arma.input_dropout == gcn.input_dropout, arma.l2 == gcn.l2
        (True, True)
    """
    integer("count", count, 1, MOST_RUNS)
    base = paper_config(dataset, method)
    patience = 300 if dataset == "ppi" else 100
    base = replace(base, protocol="tuned", stop_on="loss", patience=patience)
    generator = np.random.default_rng([2026, DATASETS.index(dataset)])
    most, low, high = (0.3, 1e-8, 1e-4) if dataset == "ppi" else (0.9, 5e-5, 2e-2)
    found = [base]
    for _ in range(count - 1):
        rates = [round(float(rate), 3) for rate in generator.uniform(0, most, 3)]
        if dataset == "ppi":
            rates = [rate * some for rate, some in zip(rates, generator.integers(2, size=3).tolist(), strict=True)]
        l2 = log_uniform(generator, low, high)
        act = ("relu", "elu")[int(generator.integers(2))]
        one = bool(generator.integers(2))
        last = 1 if one and method in ("arma", "chebyshev", "cayley") else base.k
        found.append(
            replace(
                base,
                input_dropout=rates[0],
                hidden_dropout=rates[1],
                skip_dropout=rates[2] if method == "arma" else 0.0,
                l2=l2,
                act=act,
                last_k=last,
            )
        )
    return found


def trials(dataset: str, method: str, budget: Budget) -> list[CellTrial]:
    """All trials of the first stage of the search of one cell.

    Settings that differ only in what a method does not have are one, and are tried once.

    Example:
        >>> [len(trials("ppi", method, BUDGETS["ppi"])) for method in ("arma", "gcn")]
        [8, 7]
    """
    places: dict[NodeConfig, int] = {}
    for index, config in enumerate(space(dataset, method, budget.settings)):
        places.setdefault(config, index)
    return [
        CellTrial(replace(config, epochs=budget.epochs or config.epochs), index * budget.seeds + run, FIRST_SEED + run)
        for config, index in places.items()
        for run in range(budget.seeds)
    ]


def finals(records: Iterable[Record], dataset: str, method: str, budget: Budget) -> list[CellTrial]:
    """The trials of the finals of one cell: the best settings of the search, from fresh seeds."""
    found = _scores(record for record in records if (record.dataset, record.method) == (dataset, method))
    means = {config: statistics.fmean(values) for config, (values, _) in found.items() if values}
    best = sorted(means, key=lambda config: -means[config])[: budget.finalists]  # first of equals: sorting is stable
    return [
        CellTrial(_reported(config), index * budget.final_seeds + run, FINAL_SEED + run)
        for index, config in enumerate(best)
        for run in range(budget.final_seeds)
    ]


def planned(records: Sequence[Record], dataset: str, method: str, budget: Budget) -> list[CellTrial]:
    """All trials of the search of one cell, for a plan: while nobody knows the finalists, the first settings are they.

    Example:
        >>> len(planned([], "cora", "arma", BUDGETS["cora"])) == 48 * 3 + 8 * 20
        True
    """
    first = trials(dataset, method, budget)
    late = finals(records, dataset, method, budget)
    if len(late) < budget.finalists * budget.final_seeds:
        settings = list(dict.fromkeys(trial.config for trial in first))[: budget.finalists]
        epochs = paper_config(dataset, method).epochs
        late = [
            CellTrial(replace(config, epochs=epochs), index * budget.final_seeds + run, FINAL_SEED + run)
            for index, config in enumerate(settings)
            for run in range(budget.final_seeds)
        ]
    return first + late


def _reported(config: str) -> NodeConfig:
    """A setting of the search (as JSON) as it is reported: trained to its end."""
    tried = NodeConfig(**json.loads(config))
    return replace(tried, epochs=paper_config(tried.dataset, tried.method).epochs)


def choose(records: Sequence[Record], budgets: Mapping[str, Budget] = BUDGETS) -> dict[str, dict[str, object]]:
    """The chosen configuration of every cell: the highest mean validation accuracy in the finals.

    Where these were not held, or not to their end, it is that of the first stage.
    """
    cells = sorted({(record.dataset, record.method) for record in records})
    chosen = {}
    for dataset, method in cells:
        scores = _scores(record for record in records if (record.dataset, record.method) == (dataset, method))
        means = {config: statistics.fmean(early) for config, (early, _) in scores.items() if early}
        budget = budgets[dataset]
        late = {config: values for config, (_, values) in scores.items() if len(values) >= max(budget.final_seeds, 1)}
        if late and len(late) >= min(budget.finalists, len(means)):
            means = {config: statistics.fmean(values) for config, values in late.items()}
        chosen[f"{dataset}/{method}"] = asdict(_reported(max(means, key=lambda c: means[c])))
    return chosen


def _scores(records: Iterable[Record]) -> dict[str, tuple[list[float], list[float]]]:
    """Validation accuracies of every setting (as JSON), of the search and of the finals."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for record in sorted(records, key=lambda record: (record.seed >= FINAL_SEED, record.run)):
        early, late = found.setdefault(json.dumps(record.config, sort_keys=True), ([], []))
        (late if record.seed >= FINAL_SEED else early).append(record.metrics["val_accuracy"])
    return found


SHOWN: Final = ("input_dropout", "hidden_dropout", "skip_dropout", "l2", "act", "last_k")


def scores_csv(records: Sequence[Record]) -> str:
    """Every setting that was tried, one row a stage, with its validation accuracies (per cent) and their mean."""
    found: dict[tuple[str, ...], list[Record]] = {}
    for record in sorted(records, key=lambda record: (record.dataset, record.method, record.run)):
        stage = "finals" if record.seed >= FINAL_SEED else "search"
        row = (record.dataset, record.method, stage, *(str(record.config[name]) for name in SHOWN))
        found.setdefault(row, []).append(record)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["dataset", "method", "stage", *SHOWN, "mean_val_accuracy", "val_accuracies", "seeds"])
    for row, trials_of_it in found.items():
        values = [trial.metrics["val_accuracy"] for trial in trials_of_it]
        scores = " ".join(f"{value:.2f}" for value in values)
        seeds = " ".join(str(trial.seed) for trial in trials_of_it)
        writer.writerow([*row, f"{statistics.fmean(values):.3f}", scores, seeds])
    return table.getvalue()
