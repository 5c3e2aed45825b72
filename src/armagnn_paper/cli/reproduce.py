"""``armagnn reproduce TABLE`` and ``TABLE-search``: two commands for each table, made from its declaration."""

# no `from __future__ import annotations`: the help texts in the annotations name the table
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich import box
from rich.table import Column
from rich.table import Table as Shown

from armagnn.checks import choice, integer
from armagnn.cli.app import notes_console, table_console
from armagnn.cli.progress import TableProgress, duration
from armagnn.data import load
from armagnn.errors import ParameterError
from armagnn.files import check_writable
from armagnn.training.config import torch_device
from armagnn.training.engine import execute
from armagnn.training.record import CellName, Record
from armagnn.training.results_store import DEFAULT_STORE, Store, checkpoints_of
from armagnn_paper.cli import TITLES
from armagnn_paper.forecast import assumptions, known_times
from armagnn_paper.forecast import plan as plan_of
from armagnn_paper.grid import FINALISTS, STAGES, Grid, write_choices
from armagnn_paper.heterophily_table import HETEROPHILY
from armagnn_paper.search import final_trials, planned_trials, search_trials, write_search
from armagnn_paper.table import Cell, CellTrial, NotTunedError, Table, work
from armagnn_paper.tables import GRAPHS, GRIDDED, GRIDDED_METHODS, MOLECULAR, NODES, SIGNALS

Names = list[str] | None
Count = int | None
Plan = Annotated[
    bool, typer.Option("--plan", help="Only say how many trainings there are, and about how long they take.")
]
Chosen = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="Settings of the tuned protocol, as the search's --out writes them."
    ),
]
StorePath = Annotated[Path, typer.Option(help="Where finished trials are kept.")]
Device = Annotated[str, typer.Option(help="cpu, cuda or cuda:1.")]
Workers = Annotated[int, typer.Option(help="Processes at a time; on a GPU, trainings that take turns.")]
EngineName = Annotated[str, typer.Option(help="local, or ray for a Ray cluster.")]
Results = Annotated[Path, typer.Option(help="Where the exported tables are: plans go by their times.")]
RESULTS: Final = Path("results")


def named(option: str, *names: str) -> Any:
    """An option whose values are names, several of which may be given."""
    return typer.Option(option, help=f"{', '.join(names)}; may be repeated.")


def searched(what: str, **limits: Any) -> Any:
    """An option of a search: a number that goes by the dataset if it is not given."""
    return typer.Option(help=what, show_default="by dataset", **limits)


class Where(NamedTuple):
    """Where the trials of a table are done, and kept."""

    store: Path
    device: str
    workers: int
    engine: str
    results: Path


def reproduces(table: Table) -> Callable[..., None]:
    """The command that makes a table."""
    runs_help = "Runs of a cell, each with another seed."
    runs_help += f" Each has {table.num_folds} folds." if table.num_folds > 1 else ""

    def command(
        dataset: Annotated[Names, named("--dataset", *table.datasets, *table.beyond_datasets)] = None,
        method: Annotated[Names, named("--method", *table.methods)] = None,
        protocol: Annotated[Names, named("--protocol", *table.protocols, *table.beyond_protocols)] = None,
        runs: Annotated[Count, typer.Option(help=runs_help, show_default="by cell")] = None,
        chosen: Chosen = None,
        plan: Plan = False,
        store: StorePath = DEFAULT_STORE,
        device: Device = "cpu",
        workers: Workers = 1,
        engine: EngineName = "local",
        results: Results = RESULTS,
    ) -> None:
        where = Where(store, device, workers, engine, results)
        if runs is not None:
            integer("runs", runs, 1)
        asked = bool(dataset and method and protocol)  # by name: what cannot be done is refused, not left out
        trials: list[CellTrial] = []
        untuned: list[str] = []
        usual = [way for way in table.protocols if way not in table.by_name]
        for cell in _cells(table, dataset, method, protocol or usual):
            if cell.protocol not in table.own_protocols(cell.dataset, cell.method) and not asked:
                continue
            table.check(*cell)
            try:
                trials += table.trials(cell, runs, chosen)
            except NotTunedError:
                if asked:
                    raise
                untuned.append(f"{cell.method} on {cell.dataset}")
        if untuned:
            note = f"Left out, because no search has chosen their settings yet: {', '.join(untuned)} (tuned)."
            notes_console().print(note, style="yellow", soft_wrap=True)
        _do(table, trials, where, plan=plan)

    command.__doc__ = f"""{TITLES[table.name]}

    Finished trials are kept in the store, long ones go on from a checkpoint; the same command again does what is
    missing. `armagnn results export` writes the table, `armagnn results page` the page.
    """
    return command


def searches(table: Table) -> Callable[..., None]:
    """The command that searches the settings of a table's protocol `tuned`."""

    def command(
        dataset: Annotated[Names, named("--dataset", *table.datasets, *table.beyond_datasets)] = None,
        method: Annotated[Names, named("--method", *table.methods)] = None,
        settings: Annotated[Count, searched("Settings that are tried for each method.")] = None,
        seeds: Annotated[Count, searched("Trials of each setting.")] = None,
        finalists: Annotated[Count, searched("Settings that go to the finals; 0: none.")] = None,
        final_seeds: Annotated[Count, searched("Trials of each of them there.")] = None,
        epochs: Annotated[Count, searched("Most epochs of a trial.")] = None,
        folds: Annotated[Count, searched("Folds that the settings are tried on.", min=1, max=10)] = None,
        plan: Plan = False,
        store: StorePath = DEFAULT_STORE,
        device: Device = "cpu",
        workers: Workers = 1,
        engine: EngineName = "local",
        results: Results = RESULTS,
        out: Annotated[Path | None, typer.Option(help="Write the choices to this JSON file.")] = None,
        scores: Annotated[
            Path | None, typer.Option(help="Write every setting and its scores to this CSV file.")
        ] = None,
    ) -> None:
        where = Where(store, device, workers, engine, results)
        counts = {"settings": settings, "seeds": seeds, "epochs": epochs, "folds": folds}
        counts |= {"finalists": finalists, "final_seeds": final_seeds}
        asked = {name: count for name, count in counts.items() if count is not None}
        for name, count in asked.items():
            integer(name.replace("_", "-"), count, 0 if name.startswith("final") else 1)
        if (table.by_fold or table.fixed_splits) and (finalists or final_seeds):
            raise ParameterError(f"{table.name} has no finals: folds choose from the first stage.")
        if not (table.by_fold or table.fixed_splits) and folds not in (None, 1):
            raise ParameterError(f"folds is {folds}, but {table.name} makes one choice for a cell.")
        budgets = {name: replace(budget, **asked) for name, budget in table.search.budgets.items()}
        cells = [(cell.dataset, cell.method) for cell in _cells(table, dataset, method, ("tuned",))]
        if plan:
            records = _records(table, where)
            trials = [t for d, m in cells for t in planned_trials(table, records, d, m, budgets[d])]
            _do(table, trials, where, search=True, plan=True)
            return
        check_writable(out, scores)
        _do(table, [t for d, m in cells for t in search_trials(table, d, m, budgets[d])], where, search=True)
        records = _records(table, where)
        finals = [t for d, m in cells for t in final_trials(table, records, d, m, budgets[d])]
        if finals:
            _do(table, finals, where, search=True)
            records = _records(table, where)
        write_search(table, records, budgets, out, scores)

    command.__doc__ = f"""The search behind the tuned protocol: on validation data, the same settings for all methods.

    {TITLES[table.name]} `--out` writes what is chosen from all that is in the store, `--scores` all that was
    tried; of other cells they keep what they have.
    """
    return command


def _cells(table: Table, datasets: Names, methods: Names, protocols: Sequence[str]) -> list[Cell]:
    """All cells of these names, each once."""
    columns = [dict.fromkeys(names) for names in (datasets or table.datasets, methods or table.methods, protocols)]
    cells = [Cell(data, name, way) for data in columns[0] for name in columns[1] for way in columns[2]]
    for cell in cells:
        table.check(cell.dataset, cell.method)
        choice("protocol", cell.protocol, (*table.protocols, *table.beyond_protocols))
    return cells


def _records(table: Table, where: Where) -> list[Record]:
    """What the store has of the search of a table."""
    if not where.store.exists():
        return []
    with Store(where.store) as opened:
        return opened.select(table=f"{table.name}-search")


def _do(table: Table, trials: Sequence[CellTrial], where: Where, *, search: bool = False, plan: bool = False) -> None:
    """Do the trials that the store does not have yet, or say what they would take."""
    if plan:  # it may be made for a device that is elsewhere
        _show_plan(table, trials, where, search=search)
        return
    torch_device(where.device)  # refuses what is not there
    jobs = table.jobs(trials, checkpoints=checkpoints_of(where.store), device=where.device, search=search)
    planned: dict[CellName, int] = {}
    for trial in trials:
        planned[trial.cell] = planned.get(trial.cell, 0) + 1
    with Store(where.store) as opened, TableProgress(notes_console(), planned) as progress:
        execute(jobs, work, opened, where.workers, where.engine, progress)


def _show_plan(table: Table, trials: Sequence[CellTrial], where: Where, *, search: bool) -> None:
    """Print how many trainings each cell has, how many are done, how long the rest may take, and what that rests on."""
    records = []
    if where.store.exists():
        with Store(where.store, must_exist=True) as opened:
            records = opened.select(table=f"{table.name}-search" if search else table.name)
    times = known_times(table, where.results, records, search=search)
    lines = plan_of(table, trials, where.device, times, records, search=search)
    shown = Shown(Column("cell", min_width=16, overflow="fold"), box=box.SIMPLE)
    for name in ("done", "epochs", "s/epoch", "time"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("from")
    for line in lines:
        left = line.trainings - line.done
        known = line.seconds is not None
        pace = f"{line.seconds / left / line.epochs:.3g}" if line.seconds and left else ""
        shown.add_row(
            str(line.cell), f"{line.done}/{line.trainings}", f"{line.epochs:.0f}", pace,
            duration(line.seconds) if line.seconds is not None else "?", line.source if left or not known else "",
        )  # fmt: skip
    console = table_console()
    console.print(shown)
    left = sum(line.trainings - line.done for line in lines)
    unknown = sum(line.trainings - line.done for line in lines if line.seconds is None)
    total = duration(sum(line.seconds or 0.0 for line in lines))
    without = f", without the {unknown} of which nothing is known" if unknown else ""
    console.print(f"{left} trainings to do: about {total} by one worker on {where.device}{without}.", soft_wrap=True)
    console.print("Assumed: a training has as many epochs as those before, or else as it may have;")
    for source, text in assumptions([line for line in lines if line.done < line.trainings], times).items():
        console.print(f"  {source}: {text};", soft_wrap=True)
    console.print("  the trials of the store are of the same data.")


node_classification, node_classification_search = reproduces(NODES), searches(NODES)


def node_classification_grid(
    dataset: Annotated[Names, named("--dataset", *GRIDDED)] = None,
    method: Annotated[Names, named("--method", *GRIDDED_METHODS)] = None,
    plan: Plan = False,
    scores: Annotated[Path, typer.Option(help="Every training and its scores; it goes on from what is there.")] = Path(
        "grid-scores.csv"
    ),
    out: Annotated[Path | None, typer.Option(help="Write the choices to this JSON file.")] = None,
    device: Device = "cpu",
) -> None:
    """The search of the protocol grid: cross-validation on the labelled nodes, the same values for all methods.

    Scores are kept batch by batch; the same command again does what is missing.
    """
    console = notes_console()
    torch_device(device)
    check_writable(out, scores)
    chosen = {}
    for cell in _cells(NODES, dataset or list(GRIDDED), method or list(GRIDDED_METHODS), ("grid",)):
        grid = Grid(cell.dataset, cell.method, scores)
        if plan:
            held = len(grid.missing(2)) if grid.finalists() else FINALISTS * len(STAGES[2])
            console.print(f"{cell}: {len(grid.missing(1))} trainings of stage 1, {held} of stage 2 to do")
            continue
        for stage in STAGES:
            grid.train(load(cell.dataset), stage, device, lambda text: console.print(text, highlight=False))
        config = grid.chosen()
        if config is not None:
            chosen[cell.dataset, cell.method] = config
    if out is not None and chosen:
        write_choices(chosen, out)


graph_signal, graph_signal_search = reproduces(SIGNALS), searches(SIGNALS)
graph_classification, graph_classification_search = reproduces(GRAPHS), searches(GRAPHS)
graph_regression, graph_regression_search = reproduces(MOLECULAR), searches(MOLECULAR)
heterophily, heterophily_search = reproduces(HETEROPHILY), searches(HETEROPHILY)
