"""Trials from exported tables: a clone goes on from the rows that are committed, without the store they came from.

A row has the hash of its configuration, not the configuration itself: that is the one its cell has now, if the hash
says so. A row of other settings cannot be told again and is left out, as are tables that no store makes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from armagnn.errors import DataError, ParameterError, shown
from armagnn.paper import node_classification as node
from armagnn.paper.graph_signal import SIGNAL_TABLE, signal_config
from armagnn.paper.graph_tables import CLASSIFICATION_TABLE, REGRESSION_TABLE, graph_config
from armagnn.paper.jobs import content_of
from armagnn.paper.sealed import read_table
from armagnn.training.export import COLUMNS
from armagnn.training.record import Record, config_hash

Make = Callable[[str, str, str, int], Any]

CONFIGS: Final[dict[str, Make]] = {
    node.TABLE: lambda dataset, method, protocol, fold: node.config_of(dataset, method, protocol),
    SIGNAL_TABLE: lambda dataset, method, protocol, fold: signal_config(dataset, method, protocol),
    CLASSIFICATION_TABLE: graph_config,
    REGRESSION_TABLE: graph_config,
}
"""The configuration that a cell (and its fold) has now, by the table."""


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
    if not isinstance(path, str | Path):
        raise ParameterError(f"path must be that of an exported table, got {shown(path)}.")
    path = Path(path)
    if path.stem not in CONFIGS:
        raise ParameterError(
            f"{shown(path.name)}: no table of trials; those are {', '.join(f'{name}.csv' for name in CONFIGS)}."
        )
    records, other = [], 0
    checksums: dict[str, str] = {}
    absent: dict[str, str] = {}  # dataset and reason
    for trial, group in groupby(read_table(path, COLUMNS), key=lambda row: tuple(row[name] for name in TRIAL)):
        values = dict(zip(TRIAL, trial, strict=True))
        config = _config(path, values)
        if config is None:
            other += 1
            continue
        dataset = values["dataset"]
        if dataset not in checksums and dataset not in absent:
            try:
                checksums[dataset] = config.data_sha256()
            except DataError as error:
                absent[dataset] = str(error)
        if dataset in checksums:
            metrics = [(row["metric"], row["value"]) for row in group]
            records.append(_record(path, values, content_of(config), metrics, checksums[dataset]))
    return Restored(records, other, absent)


def _config(path: Path, values: dict[str, str]) -> Any:
    """The configuration of the cell, if it is the trial's."""
    cell = values["dataset"], values["method"], values["protocol"]
    try:
        config = CONFIGS[path.stem](*cell, _integer(path, values, "fold"))
    except ParameterError:  # a cell that the table does not have now
        return None
    return config if config_hash(content_of(config)) == values["config_hash"] else None


def _record(
    path: Path, values: dict[str, str], config: dict[str, Any], metrics: list[tuple[str, str]], sha256: str
) -> Record:
    run, fold, seed, epochs = (_integer(path, values, name) for name in ("run", "fold", "seed", "epochs"))
    cell = values["dataset"], values["method"], values["protocol"]
    try:
        found = {name: float(value) for name, value in metrics}
        seconds = float(values["seconds"])
    except ValueError as error:
        raise DataError(f"{path}: run {run} of {' '.join(cell)}: {error}.") from error
    return Record(
        path.stem, *cell, run, fold, seed, config, found, epochs, seconds, {}, sha256, values["device"]
    )  # fmt: skip


def _integer(path: Path, values: dict[str, str], name: str) -> int:
    try:
        return int(values[name])
    except ValueError as error:
        raise DataError(f"{path}: {name} of a row of {values['dataset']} is {values[name]!r}, no integer.") from error
