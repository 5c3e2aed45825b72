"""Reservoir ARMA and the trained layer (Section 4.1): Cora, Citeseer, Bench-hard and MUTAG.

Nothing of a reservoir is trained but a ridge regression on its states. What has to be chosen (contraction, spread,
input scale, units, pool, strength of the ridge) is chosen by the accuracy on validation data, once for a dataset, or
for a fold where there are folds, with weights of seeds that no run uses.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from itertools import product
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from armagnn.checks import choice, integer
from armagnn.data import Fold, Scaler, folds, load, load_graphs, node_features, nodes_of, own_split
from armagnn.estimators.reservoir import ReservoirARMA, pool_states
from armagnn.operators import CSR, GraphOperator
from armagnn.training import NodesConfig
from armagnn_paper.table import Cell
from armagnn_paper.tables import NODES as TABLE_1
from armagnn_paper.training_time import train_once

NODES: Final = ("cora", "citeseer")
GRAPHS: Final = ("bench-hard", "mutag")
DATASETS: Final = (*NODES, *GRAPHS)
RUNS: Final = 10
SEARCH_SEEDS: Final = (1000, 1001, 1002)
"""Seeds of the weights with which settings are tried; a run has its own number as a seed."""
FINALISTS: Final = 4
"""ReservoirSettings that are tried with all of these seeds."""
TOL: Final = 1e-4
"""Changes of a state's entry that a ridge regression does not see."""
RIDGES: Final = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0)

Array = NDArray[Any]


@dataclass(frozen=True)
class ReservoirSettings:
    """What is chosen: a reservoir, what pools its states (nothing, for nodes), and the strength of the ridge."""

    units: int
    num_stacks: int
    contraction: float
    spread: float
    input_scale: float
    pool: str = ""
    ridge: float = 1.0


@dataclass(frozen=True)
class ReservoirRow:
    """One line of ``results/reservoir.csv``.

    ``seconds`` is the time of the processor for all that was learned in this run, on one thread: states of all nodes
    and the readout; or the training of the layer, without the compilation that the first training of a process waits
    for.
    """

    dataset: str
    method: str
    protocol: str
    run: int
    fold: int
    metric: str
    value: float
    seconds: float
    device: str
    units: int | str = ""
    num_stacks: int | str = ""
    contraction: float | str = ""
    spread: float | str = ""
    input_scale: float | str = ""
    pool: str = ""
    ridge: float | str = ""


def grid(dataset: str) -> list[ReservoirSettings]:
    """Return the parameters that are tried, narrow reservoirs first; each is tried with every ridge."""
    nodes = choice("dataset", dataset, DATASETS) in NODES
    sizes = [(64, 8), (256, 8)] if nodes else [(16, 4), (64, 4)]
    contractions = (0.8, 0.9, 0.95, 0.98) if nodes else (0.8, 0.95) if dataset == "mutag" else (0.9, 0.97)
    scales = (0.03, 0.3) if nodes else (0.3, 1.0) if dataset == "mutag" else (0.3,)
    spreads = (0.0, 1.0) if nodes else (0.0, 1.0, 2.0)
    pools = ("",) if nodes else ("mean", "sum")
    return [
        ReservoirSettings(*size, contraction, spread, scale, pool)
        for size, contraction, spread, scale, pool in product(sizes, contractions, spreads, scales, pools)
    ]


@dataclass(frozen=True, eq=False)
class ReservoirTask:
    """A graph (or many in one), its features, and the labels to predict, of its nodes or of each graph."""

    x: Any
    op: GraphOperator
    y: Array
    fold: Fold
    ptr: torch.Tensor | None = None
    fitted: torch.Tensor | None = None
    """Mask of the nodes that may be seen before anything is learned: those of training graphs; None for all."""

    def states(self, settings: ReservoirSettings, seed: int) -> Array:
        """Return the states of the nodes."""
        reservoir = ReservoirARMA(
            settings.units, settings.num_stacks, settings.contraction, settings.spread, settings.input_scale,
            tol=TOL, random_state=seed,
        )  # fmt: skip
        if self.fitted is None:
            found: Array = reservoir.set_params(graph=self.op).fit_transform(self.x)
        else:  # the weights do not depend on the graph, and their scale on training graphs only
            found = reservoir.fit(self.x[self.fitted.numpy()]).set_params(graph=self.op).transform(self.x)
        return found

    def pooled(self, states: Array, settings: ReservoirSettings) -> Array:
        """Return what the readout sees: the states, or one row for each graph."""
        return states if self.ptr is None else pool_states(states, self.ptr, settings.pool)  # type: ignore[arg-type]

    def readout(self, rows: Array, ridge: float) -> Pipeline:
        """Return a ridge regression that has learned from the rows for training."""
        train = self.fold.train
        return make_pipeline(StandardScaler(), RidgeClassifier(ridge)).fit(rows[train], self.y[train])

    def accuracy(self, model: Pipeline, rows: Array, ids: torch.Tensor) -> float:
        """Return the accuracy on some rows, in per cent."""
        return 100.0 * float(model.score(rows[ids], self.y[ids]))


def problems(dataset: str) -> list[ReservoirTask]:
    """Return the problem of a dataset with its own split, or one for each fold."""
    if choice("dataset", dataset, DATASETS) in NODES:
        data = load(dataset)
        assert isinstance(data.x, CSR)
        x = data.x.to_scipy()
        split = Fold(data.train_idx, data.val_idx, data.test_idx)
        return [ReservoirTask(x, data.operator(), data.y.numpy(), split)]
    graphs = load_graphs(dataset)
    features, op = node_features(graphs), GraphOperator.from_edge_index(graphs.edge_index, graphs.num_nodes)
    found = []
    for fold in folds(graphs) if graphs.split is None else [own_split(graphs)]:
        seen = nodes_of(graphs, fold.train)
        x = Scaler.fit(features.x, seen, columns=features.numeric)(features.x).numpy()
        found.append(ReservoirTask(x, op, graphs.y.numpy(), fold, graphs.ptr, seen))
    return found


def choose(problem: ReservoirTask, settings: list[ReservoirSettings]) -> ReservoirSettings:
    """Return the settings with the highest accuracy on validation data, the first of them where there are several.

    All are tried with one seed, at every strength of the ridge; the best of them then with more seeds.
    """
    scores = _scores(problem, settings, SEARCH_SEEDS[:1])
    best = {some: max(scores[replace(some, ridge=ridge)] for ridge in RIDGES) for some in settings}
    finalists = sorted(settings, key=lambda some: -best[some])[:FINALISTS]
    scores = _scores(problem, finalists, SEARCH_SEEDS)
    return max(scores, key=lambda some: scores[some])


def _scores(
    problem: ReservoirTask, settings: list[ReservoirSettings], seeds: tuple[int, ...]
) -> dict[ReservoirSettings, float]:
    """Return the mean accuracy on validation data over seeds, for every strength of the ridge."""
    scores = {replace(some, ridge=ridge): 0.0 for some in settings for ridge in RIDGES}
    for seed in seeds:
        states, reservoir = np.empty(0), None
        for some in settings:
            if replace(some, pool="") != reservoir:  # what differs in the pool only has the same states
                reservoir = replace(some, pool="")
                states = problem.states(some, seed)
            rows = problem.pooled(states, some)
            for ridge in RIDGES:
                value = problem.accuracy(problem.readout(rows, ridge), rows, problem.fold.val)
                scores[replace(some, ridge=ridge)] += value / len(seeds)
    return scores


def measure(dataset: str, runs: int = RUNS, settings: list[ReservoirSettings] | None = None) -> Iterator[ReservoirRow]:
    """Choose settings on validation data, then run with fresh weights; then time a training of the layer, on nodes.

    Args:
        dataset: ``"cora"``, ``"citeseer"``, ``"bench-hard"`` or ``"mutag"``.
        runs: the number of runs, each with another seed; in every fold, where there are folds.
        settings: what is tried, `grid` by default.
    """
    choice("dataset", dataset, DATASETS)
    integer("runs", runs, 1, 100_000)
    for number, problem in enumerate(problems(dataset)):
        chosen = choose(problem, settings or grid(dataset))
        for run in range(runs):
            start = time.process_time()
            rows = problem.pooled(problem.states(chosen, run), chosen)
            model = problem.readout(rows, chosen.ridge)
            seconds = time.process_time() - start
            for metric, ids in (("accuracy", problem.fold.test), ("val_accuracy", problem.fold.val)):
                value = problem.accuracy(model, rows, ids)
                cell = (dataset, "reservoir", "tuned", run, number, metric, round(value, 4), round(seconds, 3), "CPU")
                yield ReservoirRow(*cell, *astuple(chosen))
    if dataset in NODES:
        yield from _trained(dataset)


def _trained(dataset: str) -> Iterator[ReservoirRow]:
    """Train the layer once on the same processor; its accuracy over 100 seeds is in ``node-classification.csv``."""
    config, data, device = TABLE_1.config(Cell(dataset, "arma", "tuned")), load(dataset), torch.device("cpu")
    assert isinstance(config, NodesConfig)
    train_once(replace(config, epochs=3), data, device)  # compiles what there is to compile
    start = time.process_time()
    outcome = train_once(config, data, device)
    seconds = round(time.process_time() - start, 3)
    for metric, part in (("accuracy", outcome.test), ("val_accuracy", outcome.val)):
        value = round(100 * part["accuracy"], 4)
        yield ReservoirRow(dataset, "arma", "tuned", 0, 0, metric, value, seconds, "CPU")
