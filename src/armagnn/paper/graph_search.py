"""What the ``tuned`` protocol of Tables 3 and 4 chooses, and how: a search on validation graphs only.

Every method is tried with the same settings, drawn once for each dataset (those of QM9 are written down, `MOLECULES`);
the first is the paper's own. Each fold chooses for itself: a choice that all folds shared would have seen the test
graphs of each as validation graphs of another. Classification goes by the mean validation accuracy of its seeds (of
equal ones, the lower validation loss); the properties of QM9 by the validation loss of short trainings. The trainings
of the largest sets are short, too (`SHORT`). No seed is one of the reported runs, and test data is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from armagnn.checks import integer
from armagnn.paper.choices import FIRST_SEED, choose, log_uniform, trials_csv
from armagnn.paper.graph_tables import CLASSIFICATION_TABLE, REGRESSION_TABLE, GraphConfig, graph_config
from armagnn.paper.jobs import MOST_RUNS, CellTrial, content_of
from armagnn.paper.published_graphs import CLASSIFICATION, REGRESSION
from armagnn.training.record import Record

SEARCH_TABLES: Final = {True: f"{REGRESSION_TABLE}-search", False: f"{CLASSIFICATION_TABLE}-search"}
SETTINGS: Final = 6
SEEDS: Final = 1
"""Trials of each setting (and fold), for regression and for classification."""

SHORT: Final = {"qm9": 4, "proteins": 60, "dd": 20}
"""Epochs of a trial in the search at most, where whole trainings would take two cores more than a few hours."""

LONG: Final = 40
"""Epochs of a reported trial of QM9, at most: a budget that a processor can pay. Read literally they are 1,000."""

MOLECULES: Final = (
    ("plain", "relu", 0.0, 1e-3),
    ("bond orders", "relu", 0.0, 1e-3),
    ("bond orders", "elu", 0.0, 1e-3),
    ("bond orders", "relu", 0.1, 1e-3),
    ("bond orders", "relu", 0.0, 3e-3),
)
"""Edges, activation, drop rate of skip connections and learning rate of the first settings of QM9 after the paper's.

Written down after a look at the validation losses of mu and u0_atom (fold 0, ARMA, eight epochs, bond orders, with the
paper's drop rate and with none), of which the second were far lower."""

PATIENCE: Final = 100
"""Of the tuned protocol in graph classification, for all methods: some sets have long plateaus."""

SHOWN: Final = ("act", "slots", "hidden_dropout", "skip_dropout", "l2", "lr")
SHOWN_OF_MOLECULES: Final = ("edges", "act", "slots", "skip_dropout", "lr")


def graph_space(dataset: str, method: str, count: int) -> list[GraphConfig]:
    """The settings that are tried: the paper's, then `count` - 1 others, the same for every method.

    Of graph classification these are random. Drop rates are uniform in [0, 0.6] between the layers and [0, 0.8] on skip
    connections, L2 is log-uniform in [1e-6, 1e-2], the learning rate in [3e-4, 5e-3]; the activation is ReLU or ELU.
    QM9 has `MOLECULES` first, then random rates in [0, 0.3] and learning rates; always bond orders, the padded average,
    and no L2.

    Example:
        >>> arma, gcn = (graph_space("mutag", method, 5)[3] for method in ("arma", "gcn"))
        >>> arma.l2 == gcn.l2, arma.skip_dropout > gcn.skip_dropout == 0
        (True, True)
        >>> [config.edges for config in graph_space("qm9/mu", "arma", 3)]
        ['plain', 'plain', 'bond orders']
    """
    integer("count", count, 1, MOST_RUNS)
    base = replace(graph_config(dataset, method), protocol="tuned")
    if dataset in REGRESSION:
        return _of_molecules(replace(base, epochs=LONG), count)
    base = replace(base, patience=PATIENCE)
    generator = np.random.default_rng([2026, 3, CLASSIFICATION.index(dataset)])
    found = [base]
    for _ in range(count - 1):
        hidden, skip = (round(float(rate), 3) for rate in generator.uniform(0, 1, 2))
        l2, lr = log_uniform(generator, 1e-6, 1e-2), log_uniform(generator, 3e-4, 5e-3)
        act, _ = ("relu", "elu")[int(generator.integers(2))], generator.integers(2, size=2)  # once drawn, and kept so
        found.append(
            replace(
                base,
                act=act,
                hidden_dropout=round(0.6 * hidden, 3),
                skip_dropout=round(0.8 * skip, 3) if method == "arma" else 0.0,
                l2=l2,
                lr=lr,
            )
        )
    return found


def _of_molecules(base: GraphConfig, count: int) -> list[GraphConfig]:
    generator = np.random.default_rng([2026, 3, len(CLASSIFICATION)])
    settings = list(MOLECULES)
    while len(settings) < count - 1:
        skip, act = round(float(generator.uniform(0, 0.3)), 3), ("relu", "elu")[int(generator.integers(2))]
        settings.append(("bond orders", act, skip, log_uniform(generator, 3e-4, 5e-3)))
    return [base] + [
        replace(base, edges=edges, act=act, skip_dropout=skip if base.method == "arma" else 0.0, lr=lr)
        for edges, act, skip, lr in settings[: max(count - 1, 0)]
    ]


def search_trials(dataset: str, method: str, count: int, seeds: int, folds: int) -> list[CellTrial]:
    """All trials of the search of one cell, in its first `folds` folds.

    Settings that differ only in what a method does not have are one, and are tried once.

    Example:
        >>> len(search_trials("mutag", "gcn", 12, 3, 10)), len(search_trials("qm9/mu", "gcn", 12, 1, 1))
        (360, 10)
    """
    integer("seeds", seeds, 1, MOST_RUNS)
    integer("folds", folds, 1, 10)
    configs = list(dict.fromkeys(graph_space(dataset, method, count)))
    configs = [replace(config, epochs=SHORT.get(config.data_name, config.epochs)) for config in configs]
    return [
        CellTrial(config, index * seeds + offset, FIRST_SEED + offset, fold)
        for fold in range(folds)
        for index, config in enumerate(configs)
        for offset in range(seeds)
    ]


def choose_graphs(records: Iterable[Record], count: int, seeds: int) -> dict[str, dict[str, object]]:
    """The chosen configuration of every cell and fold, as `graph_config` reads them.

    Only a fold whose search is complete chooses, and only among the settings that are tried now.
    """
    best = choose(records, lambda dataset, method: search_trials(dataset, method, count, seeds, 1))
    chosen = {}
    for (dataset, method, fold), config in best.items():
        whole = replace(config, epochs=graph_space(dataset, method, 1)[0].epochs)
        chosen[f"{dataset}/{method}/{fold}"] = content_of(whole)
    return chosen


def graph_scores_csv(records: Iterable[Record]) -> str:
    """Every setting that was tried in every cell and fold, with its validation scores."""
    whole = [replace(record, config={"edges": GraphConfig.edges} | record.config) for record in records]
    molecules = any(record.dataset in REGRESSION for record in whole)
    return trials_csv(whole, SHOWN_OF_MOLECULES if molecules else SHOWN)
