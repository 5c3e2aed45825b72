"""What the ``tuned`` protocol of Table 2 chooses, and how: a random search on validation signals only.

Every method is tried with the same settings, drawn once for each dataset; the first is the paper's own in Defferrard's
reading. The highest mean validation accuracy is chosen, of equal ones the lower validation loss. No seed is one of the
reported runs, and test data is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Final

import numpy as np

from armagnn.checks import integer
from armagnn.paper.choices import FIRST_SEED, choose, log_uniform, trials_csv
from armagnn.paper.graph_signal import SIGNAL_TABLE, SignalConfig, published_config
from armagnn.paper.jobs import MOST_RUNS, CellTrial
from armagnn.paper.published_signals import SIGNAL_SETS
from armagnn.paper.search import Budget
from armagnn.training.record import Record

SEARCH_TABLE: Final = f"{SIGNAL_TABLE}-search"
BUDGETS: Final = {
    "mnist": Budget(8, 1, finalists=0, final_seeds=0, epochs=2),
    "20news": Budget(8, 2, finalists=0, final_seeds=0),
}
"""What the search of a cell may spend, the same for every method. A training on MNIST takes minutes: there two epochs
from one seed must tell the settings apart. What they choose is trained for all epochs."""

SHOWN: Final = ("hidden_dropout", "skip_dropout", "l2", "lr")


def signal_space(dataset: str, method: str, count: int) -> list[SignalConfig]:
    """The settings that are tried: the paper's in Defferrard's reading, then `count` - 1 random ones.

    They are the same for every method. The drop rate before the last layer is uniform in [0, 0.9], that of skip
    connections 0 or uniform in [0, 0.9] with equal chance, L2 is log-uniform in [1e-7, 1e-3], the learning rate in
    [3e-4, 5e-3]. What a method does not have (skip connections) it ignores.

    Example:
        >>> arma, gcn = (signal_space("20news", method, 8)[1] for method in ("arma", "gcn"))
        >>> arma.l2 == gcn.l2, arma.lr == gcn.lr, arma.hidden_dropout == gcn.hidden_dropout
        (True, True, True)
    """
    integer("count", count, 1, MOST_RUNS)
    base = published_config(dataset, method, "tuned")
    generator = np.random.default_rng([2026, 2, SIGNAL_SETS.index(dataset)])
    found = [base]
    for _ in range(count - 1):
        hidden, skip = (round(float(rate), 3) for rate in generator.uniform(0, 0.9, 2))
        none = bool(generator.integers(2))
        l2, lr = log_uniform(generator, 1e-7, 1e-3), log_uniform(generator, 3e-4, 5e-3)
        skip = 0.0 if none or method != "arma" else skip
        found.append(replace(base, hidden_dropout=hidden, skip_dropout=skip, l2=l2, lr=lr))
    return found


def signal_search_trials(dataset: str, method: str, budget: Budget) -> list[CellTrial]:
    """All trials of the search of one cell.

    Example:
        >>> [len(signal_search_trials(dataset, "gcn", BUDGETS[dataset])) for dataset in ("mnist", "20news")]
        [8, 16]
    """
    return [
        CellTrial(replace(config, epochs=budget.epochs or config.epochs), index * budget.seeds + run, FIRST_SEED + run)
        for index, config in enumerate(signal_space(dataset, method, budget.settings))
        for run in range(budget.seeds)
    ]


def choose_signals(records: Iterable[Record], budgets: Mapping[str, Budget] = BUDGETS) -> dict[str, dict[str, object]]:
    """The chosen configuration of every cell, as `signal_config` reads them: trained for all epochs.

    Only a cell whose search is complete chooses, and only among the settings that are tried now.
    """
    best = choose(records, lambda dataset, method: signal_search_trials(dataset, method, budgets[dataset]))
    return {
        f"{dataset}/{method}": asdict(replace(config, epochs=published_config(dataset, method, "tuned").epochs))
        for (dataset, method, _), config in best.items()
    }


def signal_scores_csv(records: Iterable[Record]) -> str:
    """Every setting that was tried, with its validation scores."""
    return trials_csv(records, SHOWN)
