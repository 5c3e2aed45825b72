"""``armagnn reproduce graph-signal``: Table 2."""

from __future__ import annotations

from typing import Annotated

import typer

from armagnn.cli.reproduce import app
from armagnn.cli.tables import Device, Engine, Plan, StorePath, Workers, do_trials
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.paper import graph_signal as signals
from armagnn.paper.published_signals import SIGNAL_METHODS, SIGNAL_SETS
from armagnn.training.store import DEFAULT_STORE


@app.command("graph-signal")
def graph_signal(
    dataset: Annotated[list[str] | None, typer.Option("--dataset", help="mnist, 20news; may be repeated.")] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help="arma, gcn, chebyshev, cayley; may be repeated.")
    ] = None,
    reading: Annotated[
        list[str] | None,
        typer.Option("--reading", help="text (the letter of it), defferrard (as in the setting it follows); repeated."),
    ] = None,
    runs: Annotated[int, typer.Option(help="Trials of a cell.")] = 10,
    store: StorePath = DEFAULT_STORE,
    device: Device = "cpu",
    workers: Workers = 1,
    engine: Engine = "local",
    plan: Plan = False,
) -> None:
    """Table 2: MNIST and 20news by GCN, Chebyshev, CayleyNet and ARMA, in two readings of the text.

    20news must be prepared once: `armagnn data make 20news`. Finished trials are kept in the store, long ones go on
    from a checkpoint; the same command again does what is missing.
    """
    if runs < 1:
        raise ParameterError(f"runs is {runs}; it must be at least 1.")
    for name in reading or ():
        if name not in signals.READINGS:
            raise UnknownNameError("reading", name, signals.READINGS)
    trials = [
        trial
        for data in dict.fromkeys(dataset or SIGNAL_SETS)
        for name in dict.fromkeys(method or SIGNAL_METHODS)
        for way in signals.readings_of(data, name)
        if not reading or way in reading
        for trial in signals.signal_trials(data, name, way, runs)
    ]
    if not trials:
        raise ParameterError("On mnist only arma has two readings: ask for --reading text.")
    do_trials(trials, signals.SIGNAL_TABLE, store, device, workers, engine, plan=plan)
