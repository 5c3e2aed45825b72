"""What the commands that make a table have in common: their options, the plan, and the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from armagnn.cli.consoles import table_console
from armagnn.cli.groups import Where
from armagnn.cli.trials_progress import TrialsProgress, duration
from armagnn.paper.jobs import CellTrial, Job, make_jobs, work
from armagnn.training.config import torch_device
from armagnn.training.engine import execute
from armagnn.training.store import Store, checkpoints_of

Plan = Annotated[bool, typer.Option("--plan", help="Only say how many trainings there are and how long they may take.")]
Cell = tuple[str, str, str]


def do_trials(trials: Sequence[CellTrial], table: str, where: Where, *, plan: bool = False) -> None:
    """Do the trials that the store does not have yet, or say what they would take."""
    torch_device(where.device)  # refuses what is not there
    jobs = make_jobs(trials, table=table, device=where.device, checkpoints=checkpoints_of(where.store))
    if plan:
        show_plan(jobs, where.store)
        return
    planned: dict[Cell, int] = {}
    for trial in trials:
        cell = (trial.config.dataset, trial.config.method, trial.config.protocol)
        planned[cell] = planned.get(cell, 0) + 1
    with Store(where.store) as opened, TrialsProgress(Console(stderr=True), planned) as progress:
        execute(jobs, work, opened, where.workers, where.engine, progress)


def show_plan(jobs: Sequence[Job], store: Path) -> None:
    """Print how many trainings each cell has, how many are done, and the time that the rest may take.

    A batch of each kind is probed for a few steps. A training lasts from its patience to its most epochs; where the
    store has trials of the cell, also the epochs that those took are used.
    """
    notes = Console(stderr=True)
    console, counts = table_console(), ("done", "batches", "s/epoch")
    columns = [Column(name, justify="right", no_wrap=True) for name in counts]
    columns += [Column(name, min_width=7) for name in ("least", "most", "as done")]
    shown = Table(Column("cell", min_width=16), *columns, box=box.SIMPLE)  # so it has room in 80 columns
    kinds: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        kinds.setdefault(job.trials[0].config.shape, []).append(job)
    kept = Store(store, must_exist=True) if store.exists() else None
    total = [0.0, 0.0, 0.0]
    for group in kinds.values():
        done = [record for job in group for key in job.keys if kept and (record := kept.get(key))]
        left = [job for job in group if not kept or kept.missing(job.keys)]
        config = group[0].trials[0].config
        with notes.status(f"a few steps of {config.dataset} {config.method} {config.protocol}"):
            seconds = left[0].make().probe() if left else 0.0
        lasting = sum(record.epochs for record in done) / len(done) if done else None
        least = min(config.patience + 1, config.epochs)
        times = [len(left) * seconds * n for n in (least, config.epochs, lasting or config.epochs)]
        total = [sum(pair) for pair in zip(total, times, strict=True)]
        configs = [trial.config for job in group for trial in job.trials]
        names = list(dict.fromkeys(f"{c.dataset} {c.method} {c.protocol}" for c in configs))
        cell = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        shown.add_row(
            cell, f"{len(done)}/{len(configs)}", str(len(left)), f"{seconds:.3g}", duration(times[0]),
            duration(times[1]), "" if lasting is None else duration(times[2]),
        )  # fmt: skip
    if kept:
        kept.close()
    console.print(shown)
    console.print(f"{sum(len(job.trials) for job in jobs)} trainings: at least {duration(total[0])} by one worker, "
                  f"at most {duration(total[1])}.", highlight=False, soft_wrap=True)  # fmt: skip
