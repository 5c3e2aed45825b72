"""Tables 3 and 4: graph classification on five sets of graphs, and nine properties of the molecules of QM9.

``paper`` is the text read literally. Classification: three convolutions of 32 units, average pooling, one fully
connected layer, L2 1e-4, Adam 1e-3, batches of 32; ten folds, each with ten seeds, a tenth of the training graphs for
early stopping with patience 50. The text does not say on what: here it is validation accuracy (of equal accuracies, the
lower loss), for every method, and what three other rules give is kept beside it. Regression: one convolution of 64
units, average pooling, 128 units, Adam 1e-3, batches of 64, no L2, stopping on validation loss with patience 50. Its
average runs over the 9 slots that a molecule has in a zero-padded batch, as the published numbers need.

``tuned`` changes what the text leaves open, chosen on the validation graphs of each fold
(`armagnn.paper.graph_search`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import torch

from armagnn.checks import choice, integer
from armagnn.data import Fold, GraphsDataset, NodeFeatures, folds, load_graphs, node_features, with_bond_orders
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.paper.choices import chosen_config
from armagnn.paper.jobs import MOST_RUNS, CellTrial, content_of
from armagnn.paper.published_graphs import (
    CLASSIFICATION,
    CLASSIFIERS,
    ORDERS,
    REGRESSION,
    REGRESSORS,
    graph_order,
    group,
)
from armagnn.tasks import PEERS, GraphNet, GraphTask, conv_options
from armagnn.training.record import Record
from armagnn.training.setting import Setting
from armagnn.training.trials import Trials

CLASSIFICATION_TABLE: Final = "graph-classification"
REGRESSION_TABLE: Final = "graph-regression"
PROTOCOLS: Final = ("paper", "tuned")
EDGES: Final = ("plain", "bond orders")
BESIDE: Final = ("loss", "last", "first")
"""Stopping rules whose results are kept beside those of the one that is reported."""

SLOTS: Final = 9
"""Heavy atoms of the largest molecule of QM9."""

SHARING: Final = 3
"""Runs of QM9 that share a fold (and so a batch): runs 0, 1, 2 are on fold 0, runs 3, 4, 5 on fold 1, ..."""


@dataclass(frozen=True)
class GraphConfig:
    """All that determines a trial but its fold and its seed.

    Attributes:
        dataset: e.g. "mutag" or "qm9/mu".
        method: "arma", "gcn", ...
        protocol: "paper" or "tuned".
        k: stacks, or order.
        t: steps, Jacobi iterations, or layers.
        hidden: units of each convolution.
        depth: convolutions.
        head: units of the hidden fully connected layer; 0 if there is none.
        act: activation.
        slots: places of a graph in the average; 0 for the plain mean.
        hidden_dropout: drop rate between the layers.
        skip_dropout: drop rate of ARMA's skip connections.
        l2: weight of the L2 penalty.
        lr: learning rate.
        batch: graphs of a batch.
        epochs: most epochs.
        patience: epochs without improvement after which a trial stops.
        stop_on: "accuracy" or "loss".
        edges: "plain", or "bond orders" for edges of QM9 that are weighted by them.
    """

    dataset: str
    method: str
    protocol: str
    k: int
    t: int
    hidden: int
    depth: int
    head: int
    act: str
    slots: int
    hidden_dropout: float
    skip_dropout: float
    l2: float
    lr: float
    batch: int
    epochs: int
    patience: int
    stop_on: str
    edges: str = "plain"

    def setting(self, seed: int) -> Setting:
        """What may differ between the trials of a batch: the nine properties of QM9 too."""
        target = REGRESSION.index(self.dataset) if self.dataset in REGRESSION else 0
        return Setting(seed, self.lr, self.l2, (self.hidden_dropout, self.skip_dropout), target)

    @property
    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch."""
        network = (self.method, self.protocol, self.k, self.t, self.hidden, self.depth, self.head, self.act, self.slots)
        return self.data_name, *network, self.batch, self.epochs, self.patience, self.stop_on, self.edges

    @property
    def data_name(self) -> str:
        """The dataset's name in the catalogue."""
        return self.dataset.split("/")[0]

    @property
    def most(self) -> int:
        """Trials of a batch, at most."""
        return 40

    def data_sha256(self) -> str:
        """Checksum of the dataset."""
        return _load(self.data_name, "plain")[0].sha256

    def make(self, settings: Sequence[Setting], fold: int, device: torch.device) -> Trials:
        """The trials, ready to run; the order of the batches is the fold's."""
        dataset, features, splits = _load(self.data_name, self.edges)
        net = self.network(dataset, features)
        task = GraphTask(
            dataset, net, splits[fold], batch_size=self.batch, order=fold, features=features, device=device
        )  # fmt: skip
        return Trials(
            lambda: self.network(dataset, features), task, settings, epochs=self.epochs, patience=self.patience,
            stop_on=self.stop_on, beside=() if dataset.regression else BESIDE, device=device,
        )  # fmt: skip

    def network(self, dataset: GraphsDataset, features: NodeFeatures) -> GraphNet:
        """The network, with new weights from torch's global generator."""
        return GraphNet(
            self.method,
            features.x.shape[1],
            1 if dataset.regression else dataset.num_classes,
            hidden=self.hidden,
            depth=self.depth,
            head=(self.head,) if self.head else (),
            act=self.act,
            slots=self.slots or None,
            options=conv_options(self.method, self.k, self.t),
        )


@cache
def _load(name: str, edges: str) -> tuple[GraphsDataset, NodeFeatures, list[Fold]]:
    if edges not in EDGES:
        raise UnknownNameError("edges", edges, EDGES)
    if edges == "bond orders":
        plain, features, splits = _load(name, "plain")
        return with_bond_orders(plain), features, splits
    dataset = load_graphs(name)
    return dataset, node_features(dataset), folds(dataset)


def graph_config(
    dataset: str, method: str, protocol: str = "paper", fold: int = 0, chosen: Path | None = None
) -> GraphConfig:
    """The configuration of a cell, read literally or (of one fold) as its search chose it.

    Example:
        >>> config = graph_config("enzymes", "arma")
        >>> config.k, config.t, config.skip_dropout, config.hidden, config.batch, config.stop_on
        (2, 2, 0.6, 32, 32, 'accuracy')
        >>> graph_config("qm9/mu", "gcn").slots
        9
    """
    check_graph_cell(dataset, method)
    integer("fold", fold, 0, 9)
    if choice("protocol", protocol, PROTOCOLS) == "tuned":
        table = REGRESSION_TABLE if dataset in REGRESSION else CLASSIFICATION_TABLE
        return chosen_config(GraphConfig, table, dataset, method, fold, chosen)
    k, t = graph_order(dataset, method)
    skip = ORDERS[group(dataset)][0] if method == "arma" else 0.0
    if dataset in REGRESSION:
        return GraphConfig(
            dataset, method, "paper", k, t, hidden=64, depth=1, head=128, act="relu", slots=SLOTS, hidden_dropout=0.0,
            skip_dropout=skip, l2=0.0, lr=1e-3, batch=64, epochs=1000, patience=50, stop_on="loss",
        )  # fmt: skip
    return GraphConfig(
        dataset, method, "paper", k, t, hidden=32, depth=3, head=0, act="relu", slots=0, hidden_dropout=0.0,
        skip_dropout=skip, l2=1e-4, lr=1e-3, batch=32, epochs=2000, patience=50, stop_on="accuracy",
    )  # fmt: skip


def check_graph_cell(dataset: str, method: str, datasets: Sequence[str] = CLASSIFICATION + REGRESSION) -> None:
    """Refuse a dataset or a method that the tables (or one of them, with these datasets) do not have."""
    choice("dataset of this table", dataset, datasets)
    methods = CLASSIFIERS if dataset in CLASSIFICATION else REGRESSORS
    choice("method", method, methods)


def graph_trials(dataset: str, method: str, protocol: str, runs: int, chosen: Path | None = None) -> list[CellTrial]:
    """All trials of a cell.

    Classification has ten folds of `runs` seeds each, regression `runs` runs, of which three share a fold.

    Example:
        >>> len(graph_trials("mutag", "arma", "paper", 10)), len(graph_trials("qm9/mu", "arma", "paper", 3))
        (100, 3)
    """
    check_graph_cell(dataset, method)
    integer("runs", runs, 1, MOST_RUNS)
    if dataset in REGRESSION:
        places = [(run, run // SHARING % 10) for run in range(runs)]
    else:
        places = [(run, fold) for fold in range(10) for run in range(runs)]
    configs = {fold: graph_config(dataset, method, protocol, fold, chosen) for fold in {fold for _, fold in places}}
    return [CellTrial(configs[fold], run, run, fold) for run, fold in places]


def usual_runs(method: str) -> int:
    """Repetitions of the ten folds unless others are asked for: those of the batched methods are cheap.

    Example:
        >>> usual_runs("arma"), usual_runs("gat")
        (10, 1)
    """
    return 1 if method in PEERS else 10


def finished(table: str, trials: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Of the trials (fold, run) of a cell, those that are not of half done folds, whose first to end are not its mean.

    Such folds have fewer runs than another, or gaps between them. Runs of QM9 have folds of their own: there all below
    the first that is missing count.

    Example:
        >>> sorted(finished("graph-classification", [(0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (3, 0)]))
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        >>> sorted(finished("graph-regression", [(0, 0), (0, 1), (0, 2), (1, 3), (1, 5)]))
        [(0, 0), (0, 1), (0, 2), (1, 3)]
    """
    if table == REGRESSION_TABLE:
        runs = {run for _, run in trials}
        missing = min(set(range(len(runs) + 1)) - runs)
        return {(fold, run) for fold, run in trials if run < missing}
    folds: dict[int, set[int]] = {}
    for fold, run in trials:
        folds.setdefault(fold, set()).add(run)
    most = set(range(max(map(len, folds.values()), default=0)))
    return {(fold, run) for fold, run in trials if folds[fold] == most}


def is_current_graph(record: Record) -> bool:
    """Has a trial of Table 3 or 4 the configuration that its cell has now?"""
    if record.table not in (CLASSIFICATION_TABLE, REGRESSION_TABLE):
        return True
    try:
        return record.config == content_of(graph_config(*record.cell, fold=record.fold))
    except ParameterError:
        return False
