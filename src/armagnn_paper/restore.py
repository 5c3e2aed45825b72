"""Trials from exported tables: a clone goes on from the rows that are committed, without the store they came from.

A row has the hash of its configuration, not the configuration itself: that is the one its cell has now, if the hash
says so. A row of other settings is left out, because its configuration is not known any more. Tables that no store
makes are left out, too.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from armagnn import checks
from armagnn.errors import DataError, ParameterError, shown
from armagnn.sealed import read_table
from armagnn.training.config import Config
from armagnn.training.record import COLUMNS, Record, config_hash
from armagnn_paper.table import Cell, Table, data_sha256
from armagnn_paper.tables import TABLES

VALUE: Final = ("metric", "value")
TRIAL: Final = tuple(name for name in COLUMNS if name not in VALUE)
"""The columns that the rows of a trial share."""


class Restored(NamedTuple):
    """What a table gave: its trials, how many have settings that are not the cell's now, datasets that are missing."""

    records: list[Record]
    other: int
    absent: dict[str, str]


def restore(path: str | Path) -> Restored:
    """Read the trials of an exported table, ``NAME.csv``; `export_csv` of them is the same file again.

    The datasets are needed, for their checksums. The versions of the software are not in the table.

    Example:
        >>> restore("results/node-classification.csv")  # doctest: +SKIP
    """
    path = checks.path("path", path)
    if path.stem not in TABLES:
        known = ", ".join(f"{name}.csv" for name in TABLES)
        raise ParameterError(f"{shown(path.name)}: no table of trials; those are {known}.")
    table = TABLES[path.stem]
    records, other = [], 0
    absent: dict[str, str] = {}  # dataset and reason
    for trial, group in groupby(read_table(path, COLUMNS), key=lambda row: tuple(row[name] for name in TRIAL)):
        values = dict(zip(TRIAL, trial, strict=True))
        cell = Cell(values["dataset"], values["method"], values["protocol"])
        config = _config(table, cell, path, values)
        if config is None:
            other += 1
            continue
        if cell.dataset in absent:
            continue
        try:
            digest = data_sha256(config)
        except DataError as error:
            absent[cell.dataset] = str(error)
            continue
        metrics = [(row["metric"], row["value"]) for row in group]
        records.append(_record(path, cell, values, table.stored(cell, config), metrics, digest))
    return Restored(records, other, absent)


def _config(table: Table, cell: Cell, path: Path, values: dict[str, str]) -> Config | None:
    """The configuration of the cell, if it is the trial's."""
    try:
        config = table.config(cell, _integer(path, values, "fold"))
    except ParameterError:  # a cell that the table does not have now
        return None
    return config if config_hash(table.stored(cell, config)) == values["config_hash"] else None


def _record(
    path: Path, cell: Cell, values: dict[str, str], config: dict[str, Any], metrics: list[tuple[str, str]], sha256: str
) -> Record:
    run, fold, seed, epochs = (_integer(path, values, name) for name in ("run", "fold", "seed", "epochs"))
    try:
        found = {name: float(value) for name, value in metrics}
        seconds = float(values["seconds"])
    except ValueError as error:
        raise DataError(f"{path}: run {run} of {cell}: {error}.") from error
    return Record(
        path.stem, *cell, run, fold, seed, config, found, epochs, seconds, {}, sha256, values["device"]
    )  # fmt: skip


def _integer(path: Path, values: dict[str, str], name: str) -> int:
    try:
        return int(values[name])
    except ValueError as error:
        raise DataError(f"{path}: {name} of a row of {values['dataset']} is {values[name]!r}, no integer.") from error
