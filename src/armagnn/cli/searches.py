"""What the commands of the tuned protocols have in common: cells without a choice, the search, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from armagnn.cli.consoles import notes_console
from armagnn.cli.groups import Where, Written
from armagnn.cli.tables import Cell, do_trials
from armagnn.errors import DataError
from armagnn.paper.choices import NotTunedError
from armagnn.paper.jobs import CellTrial
from armagnn.paper.sealed import read_sealed, write_sealed
from armagnn.training.atomic import check_writable
from armagnn.training.record import Record
from armagnn.training.store import Store

Chosen = Annotated[
    Path | None,
    typer.Option(
        exists=True, dir_okay=False, help="Settings of the tuned protocol, as the search's --out writes them."
    ),
]


def cells_of(datasets: Iterable[str], methods: Iterable[str], protocols: Iterable[str]) -> list[Cell]:
    """All cells of these names, each once."""
    datasets, methods, protocols = (list(dict.fromkeys(names)) for names in (datasets, methods, protocols))
    return [(data, name, way) for data in datasets for name in methods for way in protocols]


def trials_of(cells: Iterable[Cell], make: Callable[..., list[CellTrial]], *, asked: bool) -> list[CellTrial]:
    """The trials of all cells.

    One whose settings no search has chosen yet is left out with a note, or refused if it was asked for by name.
    """
    trials, untuned = [], []
    for data, name, way in cells:
        try:
            trials += make(data, name, way)
        except NotTunedError:
            if asked:
                raise
            untuned.append(f"{name} on {data}")
    if untuned:
        note = f"Left out, because no search has chosen their settings yet: {', '.join(untuned)} (tuned)."
        notes_console().print(note, style="yellow", soft_wrap=True)
    return trials


def do_search(
    trials: Sequence[CellTrial],
    table: str,
    where: Where,
    choose: Callable[[list[Record]], dict[str, Any]],
    scores_csv: Callable[[list[Record]], str],
    written: Written,
    *,
    plan: bool,
) -> None:
    """Do the trials of a search, or say what they would take; write its choices and its scores."""
    if not plan:
        check_writable(written.out, written.scores)
    do_trials(trials, table, where, plan=plan)
    if not plan:
        write_search(table, where.store, choose, scores_csv, written)


def write_search(
    table: str,
    store: Path,
    choose: Callable[[list[Record]], dict[str, Any]],
    scores_csv: Callable[[list[Record]], str],
    written: Written,
) -> None:
    """Write what a search chose, and all that it tried, from all that is in the store.

    Of cells that the store has no search of, the files keep what they have: it came from other stores.
    """
    out, scores = written.out, written.scores
    if out is None and scores is None:
        return
    with Store(store) as opened:
        records = opened.select(table=table)
    own = {(record.dataset, record.method) for record in records}
    if out is not None:
        choices = {place: choice for place, choice in _choices(out).items() if _cell(place) not in own}
        choices |= choose(records)
        write_sealed(out, (json.dumps(dict(sorted(choices.items())), indent=2) + "\n").encode())
    if scores is not None:
        write_sealed(scores, _with_others(scores_csv(records), scores, own).encode())


def _cell(place: str) -> tuple[str, str]:
    """Dataset and method of a place in a file of choices: DATASET/METHOD or, with a fold, DATASET/METHOD/FOLD."""
    names = place.split("/")
    last = -2 if names[-1].isdigit() else -1
    return "/".join(names[:last]), names[last]


def _choices(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_sealed(path.parent, path.name, needed=False)) if path.exists() else {}
    except ValueError as error:
        raise DataError(f"{path}: not the choices of a search ({error}). Name another file, or remove it.") from error
    if not isinstance(found, dict):
        raise DataError(f"{path}: not the choices of a search. Name another file, or remove it.")
    return found


def _with_others(table: str, path: Path, own: set[tuple[str, str]]) -> str:
    """The rows of a table of scores, and those that the file has of other cells."""
    head, *rows = table.splitlines()
    if path.exists():
        known, *others = read_sealed(path.parent, path.name, needed=False).splitlines() or [head]
        if known != head:
            raise DataError(f"{path}: not the scores of this search. Name another file, or remove it.")
        rows += [row for row in others if tuple(row.split(",")[:2]) not in own]
    rows.sort(key=lambda row: row.split(",")[:2])  # stable: the rows of a cell keep their order
    return "\n".join([head, *rows]) + "\n"
