"""``armagnn reproduce graph-signal`` and ``graph-signal-search``: Table 2."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from armagnn.cli.groups import Where, Written, with_groups
from armagnn.cli.searches import Chosen, cells_of, do_search, trials_of
from armagnn.cli.tables import Plan, do_trials
from armagnn.errors import ParameterError
from armagnn.paper import graph_signal as signals
from armagnn.paper import signal_search as search
from armagnn.paper.published_signals import SIGNAL_METHODS, SIGNAL_SETS

Dataset = Annotated[list[str] | None, typer.Option("--dataset", help="mnist, 20news; may be repeated.")]
Method = Annotated[list[str] | None, typer.Option("--method", help="arma, gcn, chebyshev, cayley; may be repeated.")]


@with_groups
def graph_signal(
    where: Where,
    dataset: Dataset = None,
    method: Method = None,
    protocol: Annotated[
        list[str] | None,
        typer.Option(
            "--protocol",
            help="paper (the letter of the text), defferrard (as in the setting it follows), tuned; may be repeated.",
        ),
    ] = None,
    runs: Annotated[int, typer.Option(help="Trials of a cell.")] = 10,
    chosen: Chosen = None,
    plan: Plan = False,
) -> None:
    """Table 2: MNIST and 20news by GCN, Chebyshev, CayleyNet and ARMA, in two readings of the text, and tuned.

    20news must be prepared once: `armagnn data make 20news`. Finished trials are kept in the store, long ones go on
    from a checkpoint; the same command again does what is missing.
    """
    if runs < 1:
        raise ParameterError(f"runs is {runs}; it must be at least 1.")
    for name in protocol or ():
        signals.check_protocol(name)
    cells = cells_of(dataset or SIGNAL_SETS, method or SIGNAL_METHODS, protocol or signals.PROTOCOLS)
    asked = bool(dataset and method and protocol)  # by name: then a protocol that a cell does not have is refused
    own = [(data, name, way) for data, name, way in cells if asked or way in signals.protocols_of(data, name)]
    trials = trials_of(own or cells, partial(signals.signal_trials, runs=runs, chosen=chosen), asked=asked)
    do_trials(trials, signals.SIGNAL_TABLE, where, plan=plan)


@with_groups
def graph_signal_search(
    where: Where,
    written: Written,
    dataset: Dataset = None,
    method: Method = None,
    settings: Annotated[
        int | None, typer.Option(help="Settings that are tried for each method.", show_default="by dataset")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Trials of each setting.", show_default="by dataset")] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each trial.", show_default="by dataset")] = None,
    plan: Plan = False,
) -> None:
    """The search behind the tuned protocol of Table 2: random settings, the same for all methods, on validation data.

    `--out` writes what is chosen from all that is in the store, `--scores` all that was tried; of other cells they keep
    what they have.
    """
    counts = {"settings": settings, "seeds": seeds, "epochs": epochs}
    asked = {name: count for name, count in counts.items() if count is not None}
    if any(count < 1 for count in asked.values()):
        raise ParameterError("settings, seeds and epochs must all be at least 1.")
    budgets = {data: replace(budget, **asked) for data, budget in search.BUDGETS.items()}
    cells = cells_of(dataset or SIGNAL_SETS, method or SIGNAL_METHODS, ("tuned",))
    for data, name, _ in cells:
        signals.check_signal_cell(data, name)
    trials = [trial for data, name, _ in cells for trial in search.signal_search_trials(data, name, budgets[data])]
    do_search(
        trials, search.SEARCH_TABLE, where, partial(search.choose_signals, budgets=budgets),
        search.signal_scores_csv, written, plan=plan,
    )  # fmt: skip
