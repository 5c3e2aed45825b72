"""What the commands that make a table have in common: their options, the plan, and the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from armagnn.cli.consoles import notes_console, table_console
from armagnn.cli.groups import Where
from armagnn.cli.trials_progress import TrialsProgress, duration
from armagnn.paper.jobs import CellTrial, make_jobs, work
from armagnn.paper.plan import assumptions, known_times
from armagnn.paper.plan import plan as plan_of
from armagnn.training.config import torch_device
from armagnn.training.engine import execute
from armagnn.training.store import Store, checkpoints_of

Plan = Annotated[
    bool, typer.Option("--plan", help="Only say how many trainings there are, and about how long they take.")
]
Cell = tuple[str, str, str]


def do_trials(trials: Sequence[CellTrial], table: str, where: Where, *, plan: bool = False) -> None:
    """Do the trials that the store does not have yet, or say what they would take."""
    if plan:  # it may be made for a device that is elsewhere
        show_plan(trials, table, where)
        return
    torch_device(where.device)  # refuses what is not there
    jobs = make_jobs(trials, table=table, device=where.device, checkpoints=checkpoints_of(where.store))
    planned: dict[Cell, int] = {}
    for trial in trials:
        cell = (trial.config.dataset, trial.config.method, trial.config.protocol)
        planned[cell] = planned.get(cell, 0) + 1
    with Store(where.store) as opened, TrialsProgress(notes_console(), planned) as progress:
        execute(jobs, work, opened, where.workers, where.engine, progress)


def show_plan(trials: Sequence[CellTrial], table: str, where: Where) -> None:
    """Print how many trainings each cell has, how many are done, how long the rest may take, and what that rests on."""
    records = []
    if where.store.exists():
        with Store(where.store, must_exist=True) as opened:
            records = opened.select(table=table)
    times = known_times(table, where.results, records)
    lines = plan_of(trials, table, where.device, times, records)
    shown = Table(Column("cell", min_width=16, overflow="fold"), box=box.SIMPLE)
    for name in ("done", "epochs", "s/epoch", "time"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("from")
    for line in lines:
        left = line.trainings - line.done
        known = line.seconds is not None
        pace = f"{line.seconds / left / line.epochs:.3g}" if line.seconds and left else ""
        shown.add_row(
            " ".join(line.cell), f"{line.done}/{line.trainings}", f"{line.epochs:.0f}", pace,
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
