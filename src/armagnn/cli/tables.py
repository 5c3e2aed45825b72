"""What the commands that make a table have in common: their options, the plan, and the work."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Column, Table

from armagnn.cli.consoles import notes_console, table_console
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
        show_plan(jobs, where.store, Path("results", f"{table}.csv"))
        return
    planned: dict[Cell, int] = {}
    for trial in trials:
        cell = (trial.config.dataset, trial.config.method, trial.config.protocol)
        planned[cell] = planned.get(cell, 0) + 1
    with Store(where.store) as opened, TrialsProgress(notes_console(), planned) as progress:
        execute(jobs, work, opened, where.workers, where.engine, progress)


def show_plan(jobs: Sequence[Job], store: Path, table: Path) -> None:
    """Print how many trainings each cell has, how many are done, and the time that the rest may take.

    A batch of each kind is probed for a few steps. A training lasts from its patience to its most epochs; where the
    store, or else the exported `table`, has trials of the cell, also the epochs that those took are used.
    """
    notes = notes_console()
    console, counts = table_console(), ("done", "batches", "s/epoch")
    columns = [Column(name, justify="right", no_wrap=True) for name in counts]
    columns += [Column(name, min_width=7) for name in ("least", "most", "as done")]
    shown = Table(Column("cell", min_width=16), *columns, box=box.SIMPLE)  # so it has room in 80 columns
    kinds: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        kinds.setdefault(job.trials[0].config.shape, []).append(job)
    titles = _titles(kinds.values())
    before = _epochs(table)
    kept = Store(store, must_exist=True) if store.exists() else None
    total, known = [0.0, 0.0, 0.0], True
    for title, group in zip(titles, kinds.values(), strict=True):
        done = [record for job in group for key in job.keys if kept and (record := kept.get(key))]
        left = [job for job in group if not kept or kept.missing(job.keys)]
        config = group[0].trials[0].config
        with notes.status(f"a few steps of {config.dataset} {config.method} {config.protocol}"):
            seconds = left[0].make().probe() if left else 0.0
        lasting = before.get((config.dataset, config.method, config.protocol))
        if done:
            lasting = sum(record.epochs for record in done) / len(done)
        least = min(config.patience + 1, config.epochs)
        times = [len(left) * seconds * n for n in (least, config.epochs, lasting or 0.0)]
        total = [sum(pair) for pair in zip(total, times, strict=True)]
        known = known and (lasting is not None or not left)
        trials = sum(len(job.trials) for job in group)
        shown.add_row(
            title, f"{len(done)}/{trials}", str(len(left)), f"{seconds:.3g}", duration(times[0]), duration(times[1]),
            "" if lasting is None else duration(times[2]),
        )  # fmt: skip
    if kept:
        kept.close()
    console.print(shown)
    likely = f", about {duration(total[2])} if they last as those before" if known else ""
    console.print(f"{sum(len(job.trials) for job in jobs)} trainings: at least {duration(total[0])} by one worker, "
                  f"at most {duration(total[1])}{likely}.", highlight=False, soft_wrap=True)  # fmt: skip


def _titles(kinds: Iterable[Sequence[Job]]) -> list[str]:
    """The names of the cells of each kind of batch; where one cell has several kinds, with their numbers."""
    names = []
    for group in kinds:
        configs = [trial.config for job in group for trial in job.trials]
        cells = list(dict.fromkeys(f"{c.dataset} {c.method} {c.protocol}" for c in configs))
        names.append(cells[0] if len(cells) == 1 else f"{cells[0]} and {len(cells) - 1} more")
    return [
        f"{name}, kind {names[: place + 1].count(name)}" if names.count(name) > 1 else name
        for place, name in enumerate(names)
    ]


def _epochs(table: Path) -> dict[Cell, float]:
    """The mean epochs of the trials of every cell of an exported table; of none where there is no such file."""
    found: dict[Cell, list[int]] = {}
    try:
        with table.open(newline="") as file:
            for row in csv.DictReader(file):
                found.setdefault((row["dataset"], row["method"], row["protocol"]), []).append(int(row["epochs"]))
    except (OSError, LookupError, TypeError, ValueError, csv.Error):
        return {}  # it is only an estimate
    return {cell: sum(epochs) / len(epochs) for cell, epochs in found.items()}
