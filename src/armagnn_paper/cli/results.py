"""``armagnn results``: look into run stores, merge them, write their tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.columns import Columns
from rich.console import Console
from rich.table import Table

from armagnn.cli.app import output_console, table_console, whole_table
from armagnn.cli.progress import mean_std
from armagnn.errors import DataError
from armagnn.files import write_atomic
from armagnn.sealed import seal as write_digests
from armagnn.sealed import write_sealed
from armagnn.training.record import CellName, Record, to_csv
from armagnn.training.results_store import DEFAULT_STORE, Store
from armagnn_paper.page import results_page, with_overview
from armagnn_paper.restore import restore as read_table
from armagnn_paper.tables import TABLES


def merge(
    stores: Annotated[list[Path], typer.Argument(help="The stores to take trials from; they stay as they are.")],
    into: Annotated[Path, typer.Option(help="The store that gets them; made if it is missing.")] = DEFAULT_STORE,
) -> None:
    """Merge stores. A trial that is there already is recognised, and the first stays."""
    console = output_console()
    for path in stores:  # all are opened, and so checked, before anything is made or changed
        Store(path, must_exist=True).close()
    with Store(into) as target:
        for path in stores:
            merged = target.merge(path)
            note = f" ({merged.different} with other metrics: the first stay)" if merged.different else ""
            _say(console, f"{path}: {merged.new} new trials, {merged.double} double{note}")
        _say(console, f"{into}: {len(target)} trials")


def list_cells(
    store: Annotated[Path, typer.Argument(help="The store.", metavar="[STORE]")] = DEFAULT_STORE,
) -> None:
    """Show every cell of every table: how many trials, mean ± deviation of each metric."""
    console = table_console()
    with Store(store, must_exist=True) as opened:
        records = opened.select()
    records = _shown(records, console)
    for name, rows in groupby(records, key=lambda record: record.table):
        trials = list(rows)
        table = _table(name, trials)
        if console.measure(table, options=console.options.update(max_width=10_000)).maximum <= console.width:
            console.print(table)
        else:
            _print_lines(name, trials, console)
    _say(console, f"{store}: {len(records)} trials")


def _table(name: str, records: list[Record]) -> Table:
    """A row for each cell, a column for each metric."""
    metrics = sorted({metric for record in records for metric in record.metrics})
    numbers = ("runs", "trials", *metrics)  # with folds, a run has several trials
    table = whole_table("dataset", "method", "protocol", *numbers, names=3 + len(numbers), title=name)
    for column in table.columns[3:]:
        column.justify = "right"
    for cell, runs, trials, values in _cells(records):
        table.add_row(*cell, str(runs), str(trials), *(values.get(metric, "") for metric in metrics))
    return table


def _print_lines(name: str, records: list[Record], console: Console) -> None:
    """The same for a narrow terminal: two lines, or three, for each cell."""
    console.print(name, style="bold")
    for cell, runs, trials, values in _cells(records):
        _say(console, f"{' '.join(cell)}: {runs} runs, {trials} trials")
        console.print(Columns([f"{metric} {value}" for metric, value in values.items()], padding=(0, 3)))


def _cells(records: list[Record]) -> Iterator[tuple[CellName, int, int, dict[str, str]]]:
    """Every cell, its runs and trials, and mean ± deviation of each metric."""
    for cell, group in groupby(records, key=lambda record: record.cell):
        trials = list(group)
        values: dict[str, list[float]] = {}
        for trial in trials:
            for metric, value in trial.metrics.items():
                values.setdefault(metric, []).append(value)
        shown = {metric: mean_std(each) for metric, each in sorted(values.items())}
        yield cell, len({trial.run for trial in trials}), len(trials), shown


def export(
    store: Annotated[Path, typer.Argument(help="The store.", metavar="[STORE]")] = DEFAULT_STORE,
    out: Annotated[Path, typer.Option(help="The folder for the tables.")] = Path("results"),
) -> None:
    """Write each table as OUT/TABLE.csv, one row per trial and metric.

    A fold with fewer runs than others of its cell, or with gaps between them, is left out: it was interrupted, and
    those of a batch that end first are not its mean.
    """
    console = output_console()
    with Store(store, must_exist=True) as opened:
        records = opened.select()
    records = _without_gaps(_shown(records, console), console)
    for name, rows in groupby(records, key=lambda record: record.table):
        trials = list(rows)
        write_sealed(out / f"{name}.csv", to_csv(trials))
        _say(console, f"{out / name}.csv: {len(trials)} trials")
    if not records:
        _say(console, f"{store}: no trials")


def restore(
    folder: Annotated[Path, typer.Argument(help="The folder of the tables.", metavar="[FOLDER]")] = Path("results"),
    into: Annotated[Path, typer.Option(help="The store that gets them; made if it is missing.")] = DEFAULT_STORE,
) -> None:
    """Take trials back from exported tables, to go on from them without the store that they came from.

    A trial whose settings are not those that its cell has now is left out; so is one whose dataset is not here.
    """
    console = output_console()
    paths = [path for name in TABLES if (path := folder / f"{name}.csv").exists()]
    if not paths:
        names = ", ".join(f"{name}.csv" for name in TABLES)
        raise DataError(
            f"{folder}: has no table of trials ({names}). Name the folder that armagnn results export wrote."
        )
    found = [(path, read_table(path)) for path in paths]  # all are read, and so checked, before anything is made
    with Store(into) as target:
        for path, table in found:
            note = f", {table.other} with other settings are left out" if table.other else ""
            _say(console, f"{path}: {target.add(table.records)} new of {len(table.records)} trials{note}")
            for dataset, reason in table.absent.items():
                _say(console, f"{path}: those of {dataset} are left out ({reason.rstrip('.')}).")
        _say(console, f"{into}: {len(target)} trials")


def seal(
    paths: Annotated[list[Path] | None, typer.Argument(help="Tables, or folders of them.", metavar="[PATHS]")] = None,
) -> None:
    """Write the digests of tables as they are now, after an edit on purpose: see what changed before you do.

    The file SHA256SUMS in the folder of the tables has them; `sha256sum --check` reads it. Sub-folders are included.
    """
    console = output_console()
    changed = write_digests(paths or [Path("results")])
    for path in changed:
        _say(console, f"{path}: a new digest")
    if not changed:
        _say(console, "All digests were right.")


def page(
    folder: Annotated[Path, typer.Option("--results", help="The folder of the tables.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs", "paper", "results.md"),
    overview: Annotated[
        Path | None, typer.Option("--overview", "--readme", help="A text whose short table is made anew, too.")
    ] = None,
) -> None:
    """Write the page of results from the exported tables."""
    texts = {out: results_page(folder)}
    if overview is not None:
        try:
            texts[overview] = with_overview(overview.read_text(encoding="utf-8"), folder)
        except OSError as error:
            raise DataError(f"{overview}: cannot be read ({error.strerror}).") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{overview}: is no text in UTF-8 ({error.reason}).") from error
    for path, text in texts.items():
        write_atomic(path, text.encode())
    _say(output_console(), str(out))


def _shown(records: list[Record], console: Console) -> list[Record]:
    """The trials that belong to tables: not those of a search, nor those with settings that a later one replaced."""
    tables = [record for record in records if not record.table.endswith("-search")]
    current = [record for record in tables if record.table not in TABLES or TABLES[record.table].is_current(record)]
    if len(current) < len(tables):
        _say(console, f"{len(tables) - len(current)} trials with other settings than the table has now are left out")
    return current


def _without_gaps(records: list[Record], console: Console) -> list[Record]:
    """The trials of folds that are not half done; cells that do not have all folds are named."""
    kept = []
    for (name, *cell), group in groupby(records, key=lambda record: (record.table, *record.cell)):
        trials = list(group)
        if name not in TABLES:
            kept += trials
            continue
        table = TABLES[name]
        places = table.finished({(trial.run, trial.fold) for trial in trials})
        whole = [trial for trial in trials if (trial.run, trial.fold) in places]
        if len(whole) < len(trials):
            number = len(trials) - len(whole)
            _say(console, f"{' '.join(cell)}: {number} trials, of half done folds, are left out")
        folds, wanted = len({trial.fold for trial in whole}), 1 if cell[2] in table.one_fold else table.num_folds
        if 0 < folds < wanted:
            _say(console, f"{' '.join(cell)}: {folds} of {wanted} folds are there; reproduce does the others")
        kept += whole
    return kept


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
