"""``armagnn reproduce graph-classification`` and ``graph-regression``: Tables 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from armagnn.cli.groups import Where, Written, with_groups
from armagnn.cli.searches import Chosen, cells_of, do_search, trials_of
from armagnn.cli.tables import Plan, do_trials
from armagnn.errors import ParameterError
from armagnn.paper import graph_search as search
from armagnn.paper import graph_tables as graphs
from armagnn.paper.jobs import CellTrial
from armagnn.paper.published_graphs import CLASSIFICATION, CLASSIFIERS, REGRESSION, REGRESSORS

Method = Annotated[list[str] | None, typer.Option("--method", help="arma, gcn, ...; may be repeated.")]
Protocol = Annotated[list[str] | None, typer.Option("--protocol", help="paper, tuned; may be repeated.")]


@with_groups
def graph_classification(
    where: Where,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            help="enzymes, proteins, dd, mutag, bench-hard (all of these if none is named), bench-hard-small; may be "
            "repeated.",
        ),
    ] = None,
    method: Method = None,
    protocol: Protocol = None,
    runs: Annotated[
        int | None, typer.Option(help="Repetitions of the ten folds.", show_default="10; 1 for gat, sage and gin")
    ] = None,
    chosen: Chosen = None,
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
    do_trials(trials, graphs.CLASSIFICATION_TABLE, where, plan=plan)


@with_groups
def graph_regression(
    where: Where,
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="qm9/mu, qm9/alpha, ...; may be repeated.", show_default="all")
    ] = None,
    method: Method = None,
    protocol: Protocol = None,
    runs: Annotated[int, typer.Option(help="Runs of each property; three share a fold, and train as one batch.")] = 3,
    chosen: Chosen = None,
    plan: Plan = False,
) -> None:
    """Table 4: nine properties of the molecules of QM9; the properties, and three runs of each, train as one batch.

    Finished trials are kept in the store; the same command again does what is missing.
    """
    trials = _trials(
        dataset or REGRESSION, method, REGRESSORS, protocol, runs, chosen, asked=bool(dataset and method and protocol)
    )
    do_trials(trials, graphs.REGRESSION_TABLE, where, plan=plan)


Settings = Annotated[int, typer.Option(help="Settings that are tried for each method.")]


@with_groups
def graph_classification_search(
    where: Where,
    written: Written,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", help="As graph-classification.")] = None,
    method: Method = None,
    settings: Settings = search.SETTINGS,
    seeds: Annotated[int, typer.Option(help="Trials of each setting and fold.")] = search.SEEDS,
    plan: Plan = False,
) -> None:
    """The search behind the tuned protocol of Table 3: every fold chooses on its own validation graphs."""
    cells = [(data, name) for data in dataset or CLASSIFICATION[:-1] for name in method or CLASSIFIERS]
    _search(cells, settings, seeds, 10, search.SEARCH_TABLES[False], where, written, plan=plan)


@with_groups
def graph_regression_search(
    where: Where,
    written: Written,
    dataset: Annotated[list[str] | None, typer.Option("--dataset", help="As graph-regression.")] = None,
    method: Method = None,
    settings: Settings = search.SETTINGS,
    seeds: Annotated[int, typer.Option(help="Trials of each setting.")] = search.SEEDS,
    folds: Annotated[int, typer.Option(help="Folds that choose; three runs share one.", min=1, max=10)] = 1,
    plan: Plan = False,
) -> None:
    """The search behind the tuned protocol of Table 4: short trainings, judged on the validation graphs of a fold."""
    cells = [(data, name) for data in dataset or REGRESSION for name in method or REGRESSORS]
    _search(cells, settings, seeds, folds, search.SEARCH_TABLES[True], where, written, plan=plan)


def _search(
    cells: Sequence[tuple[str, str]],
    settings: int,
    seeds: int,
    folds: int,
    table: str,
    where: Where,
    written: Written,
    *,
    plan: bool,
) -> None:
    if min(settings, seeds) < 1:
        raise ParameterError("settings and seeds must both be at least 1.")
    for cell in cells:
        graphs.check_graph_cell(*cell, CLASSIFICATION if table == search.SEARCH_TABLES[False] else REGRESSION)
    trials = [trial for cell in dict.fromkeys(cells) for trial in search.search_trials(*cell, settings, seeds, folds)]
    choose = partial(search.choose_graphs, count=settings, seeds=seeds)
    do_search(trials, table, where, choose, search.graph_scores_csv, written, plan=plan)


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
    cells = cells_of(datasets, methods or all_methods, protocols or graphs.PROTOCOLS)
    for data, name, _ in cells:
        graphs.check_graph_cell(data, name, CLASSIFICATION if all_methods is CLASSIFIERS else REGRESSION)

    def trials(data: str, name: str, way: str) -> list[CellTrial]:
        return graphs.graph_trials(data, name, way, runs or graphs.usual_runs(name), chosen)

    return trials_of(cells, trials, asked=asked)
