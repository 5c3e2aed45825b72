"""``armagnn reproduce graph-classification`` and ``graph-regression``: Tables 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from armagnn.cli.reproduce import app
from armagnn.cli.tables import Device, Engine, Plan, StorePath, Workers, do_trials
from armagnn.errors import ParameterError
from armagnn.paper import graph_tables as graphs
from armagnn.paper.jobs import CellTrial
from armagnn.paper.node_classification import NotTunedError
from armagnn.paper.published_graphs import CLASSIFICATION, CLASSIFIERS, REGRESSION, REGRESSORS
from armagnn.tasks import UNBATCHED
from armagnn.training.store import DEFAULT_STORE

Method = Annotated[list[str] | None, typer.Option("--method", help="arma, gcn, ...; may be repeated.")]
Protocol = Annotated[list[str] | None, typer.Option("--protocol", help="paper, tuned; may be repeated.")]
Chosen = Annotated[Path | None, typer.Option(help="Settings of the tuned protocol, as the search's --out writes them.")]


@app.command("graph-classification")
def graph_classification(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="enzymes, proteins, dd, mutag, bench-hard; may be repeated.")
    ] = None,
    method: Method = None,
    protocol: Protocol = None,
    runs: Annotated[
        int | None, typer.Option(help="Repetitions of the ten folds.", show_default="10; 1 for gat, sage and gin")
    ] = None,
    chosen: Chosen = None,
    store: StorePath = DEFAULT_STORE,
    device: Device = "cpu",
    workers: Workers = 1,
    engine: Engine = "local",
    plan: Plan = False,
) -> None:
    """Table 3: five sets of graphs, by every method, ten folds repeated ten times.

    Finished trials are kept in the store; the same command again does what is missing. `armagnn results export` writes
    the table, `armagnn results page` the page.
    """
    trials = _trials(
        dataset or CLASSIFICATION[:-1],
        method,
        CLASSIFIERS,
        protocol,
        runs,
        chosen,
        asked=bool(dataset and method and protocol),
    )
    do_trials(trials, graphs.CLASSIFICATION_TABLE, store, device, workers, engine, plan=plan)


@app.command("graph-regression")
def graph_regression(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="qm9/mu, qm9/alpha, ...; may be repeated.", show_default="all")
    ] = None,
    method: Method = None,
    protocol: Protocol = None,
    runs: Annotated[int, typer.Option(help="Runs of each property; three share a fold, and train as one batch.")] = 3,
    chosen: Chosen = None,
    store: StorePath = DEFAULT_STORE,
    device: Device = "cpu",
    workers: Workers = 1,
    engine: Engine = "local",
    plan: Plan = False,
) -> None:
    """Table 4: nine properties of the molecules of QM9; the properties, and three runs of each, train as one batch.

    Finished trials are kept in the store; the same command again does what is missing.
    """
    trials = _trials(
        dataset or REGRESSION, method, REGRESSORS, protocol, runs, chosen, asked=bool(dataset and method and protocol)
    )
    do_trials(trials, graphs.REGRESSION_TABLE, store, device, workers, engine, plan=plan)


def _trials(
    datasets: Sequence[str],
    methods: Sequence[str] | None,
    all_methods: Sequence[str],
    protocols: Sequence[str] | None,
    runs: int | None,
    chosen: Path | None,
    *,
    asked: bool,
) -> list[CellTrial]:
    if runs is not None and runs < 1:
        raise ParameterError(f"runs is {runs}; it must be at least 1.")
    for data in datasets:
        for name in methods or all_methods:
            graphs.check_graph_cell(data, name)
    trials, untuned = [], []
    for data in dict.fromkeys(datasets):
        for name in dict.fromkeys(methods or all_methods):
            for way in dict.fromkeys(protocols or graphs.PROTOCOLS):
                count = runs or (1 if name in UNBATCHED else 10)
                try:
                    trials += graphs.graph_trials(data, name, way, count, chosen)
                except NotTunedError:
                    if asked:  # by name
                        raise
                    untuned.append(f"{name} on {data}")
    if untuned:
        note = f"Left out, because no search has chosen their settings yet: {', '.join(untuned)} (tuned)."
        Console(stderr=True).print(note, style="yellow", soft_wrap=True)
    return trials
