"""``armagnn reproduce``: the tables of the paper, made again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from armagnn.cli.groups import Where, Written, with_groups
from armagnn.cli.searches import Chosen, cells_of, trials_of, write_search
from armagnn.cli.tables import Cell, Plan, do_trials
from armagnn.errors import ParameterError
from armagnn.paper import node_classification as node
from armagnn.paper import search
from armagnn.paper.jobs import CellTrial
from armagnn.paper.published import DATASETS, METHODS
from armagnn.paper.sealed import write_sealed
from armagnn.tasks import PEERS
from armagnn.training.atomic import check_writable
from armagnn.training.record import Record
from armagnn.training.store import Store

Dataset = Annotated[list[str] | None, typer.Option("--dataset", help="cora, citeseer, pubmed, ppi; may be repeated.")]
Method = Annotated[list[str] | None, typer.Option("--method", help="arma, gcn, ...; may be repeated.")]


@with_groups
def node_classification(
    where: Where,
    dataset: Dataset = None,
    method: Method = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="paper, tuned (wide: beyond the paper, for ppi); may be repeated.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Trials of a cell.", show_default="100; 10 for gat, sage, gin and on PPI")
    ] = None,
    chosen: Chosen = None,
    plan: Plan = False,
) -> None:
    """Table 1: Cora, Citeseer, Pubmed and PPI, by every method, read literally (paper) and tuned on validation data.

    Finished trials are kept in the store; the same command again does what is missing. `armagnn results export` writes
    the table, `armagnn results page` the page.
    """
    if runs is not None and runs < 1:
        raise ParameterError(f"runs is {runs}; it must be at least 1.")

    def cell_trials(data: str, name: str, way: str) -> list[CellTrial]:
        config = node.config_of(data, name, way, chosen)
        count = runs or (10 if name in PEERS or data == "ppi" else 100)
        return [CellTrial(config, run, run) for run in range(count)]

    cells = _cells(dataset or DATASETS, method or METHODS, protocol or node.PROTOCOLS)
    trials = trials_of(cells, cell_trials, asked=bool(dataset and method and protocol))
    do_trials(trials, node.TABLE, where, plan=plan)


@with_groups
def node_classification_search(
    where: Where,
    written: Written,
    dataset: Dataset = None,
    method: Method = None,
    settings: Annotated[
        int | None, typer.Option(help="Settings that are tried for each method.", show_default="by dataset")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Trials of each setting.", show_default="by dataset")] = None,
    finalists: Annotated[
        int | None, typer.Option(help="Settings that go to the finals.", show_default="by dataset")
    ] = None,
    final_seeds: Annotated[
        int | None, typer.Option(help="Trials of each of them there.", show_default="by dataset")
    ] = None,
    plan: Plan = False,
) -> None:
    """The search behind the tuned protocol: random settings, the same for all methods, judged on validation data.

    `--out` writes what is chosen from all that is in the store, `--scores` all that was tried; of other cells they keep
    what they have.
    """
    counts = {"settings": settings, "seeds": seeds, "finalists": finalists, "final_seeds": final_seeds}
    asked = {name: count for name, count in counts.items() if count is not None}
    if any(count < 1 for count in asked.values()):
        raise ParameterError("settings, seeds, finalists and final-seeds must all be at least 1.")
    budgets = {data: replace(budget, **asked) for data, budget in search.BUDGETS.items()}
    cells = _cells(dataset or DATASETS, method or METHODS, ("tuned",))
    if plan:
        records = _records(where)
        trials = [trial for data, name, _ in cells for trial in search.planned(records, data, name, budgets[data])]
        do_trials(trials, search.TABLE, where, plan=True)
        return
    trials = [trial for data, name, _ in cells for trial in search.trials(data, name, budgets[data])]
    check_writable(written.out, written.scores)
    do_trials(trials, search.TABLE, where)
    records = _records(where)
    trials = [trial for data, name, _ in cells for trial in search.finals(records, data, name, budgets[data])]
    do_trials(trials, search.TABLE, where)
    write_search(search.TABLE, where.store, partial(search.choose, budgets=budgets), search.scores_csv, written)


def reservoir_table(
    dataset: Annotated[
        list[str] | None, typer.Option("--dataset", help="cora, citeseer, bench-hard, mutag; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs, each with a seed of its own.")] = 10,
    out: Annotated[Path, typer.Option(help="The table.")] = Path("results", "reservoir.csv"),
) -> None:
    """Reservoir ARMA (Section 4.1): random stacks and a trained readout; about 25 minutes on a CPU."""
    from armagnn.paper import reservoir  # scikit-learn takes a second to import

    check_writable(out)
    rows = [row for name in dataset or reservoir.DATASETS for row in reservoir.measure(name, runs)]
    write_sealed(out, reservoir.to_csv(rows).encode())


def _records(where: Where) -> list[Record]:
    if not where.store.exists():
        return []
    with Store(where.store) as opened:
        return opened.select(table=search.TABLE)


def _cells(datasets: Sequence[str], methods: Sequence[str], protocols: Sequence[str]) -> list[Cell]:
    cells = cells_of(datasets, methods, protocols)
    for data, name, _ in cells:
        node.check_cell(data, name)
    return cells
