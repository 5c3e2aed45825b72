"""How many seconds an epoch takes, measured once for every cell: what plans go by where no trial ran before."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

import torch

from armagnn.errors import DataError, ParameterError
from armagnn.sealed import read_table, write_sealed
from armagnn.training.config import Config, torch_device
from armagnn_paper.summaries import PROCESSORS
from armagnn_paper.table import Cell, Table, experiment_of

PACE: Final = "pace.csv"
MOST: Final = 10
"""Trainings of the batch that is measured, at most: their share is that of a larger one, or nearly."""

STEPS: Final = 2


@dataclass(frozen=True)
class Pace:
    """How long an epoch takes.

    Attributes:
        dataset: the dataset.
        method: the method.
        protocol: the protocol.
        device: where it was measured.
        trainings: of the batch.
        seconds: of an epoch with its validation, divided by the trainings.
    """

    dataset: str
    method: str
    protocol: str
    device: str
    trainings: int
    seconds: float


def cells(table: Table) -> list[Cell]:
    """Every cell of a table; of QM9 one property, as the others take as long.

    Example:
        >>> from armagnn_paper.tables import MOLECULAR, SIGNALS
        >>> cells(SIGNALS)[0], len(cells(MOLECULAR))
        (Cell(dataset='mnist', method='arma', protocol='paper'), 10)
    """
    datasets = table.datasets[:1] if all("/" in dataset for dataset in table.datasets) else table.datasets
    return [
        Cell(dataset, method, protocol)
        for dataset in (*datasets, *table.beyond_datasets)
        for method in table.methods
        for protocol in table.own_protocols(dataset, method)
        if protocol not in table.beyond_protocols
    ]


def is_processor(device: str) -> bool:
    """Is this the name of a processor, not of a GPU?"""
    return device in PROCESSORS


def measure(table: Table, wanted: Sequence[tuple[Cell, Config]], path: Path, device: str = "cpu") -> Iterator[Pace]:
    """Measure the cells that the file at `path` does not have on this kind of device, and keep each as it comes."""
    place = torch_device(device)
    if not wanted:
        raise ParameterError("wanted is empty; give each cell to measure with its configuration.")
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else place.type
    paces = read_paces(path)
    for cell, config in wanted:
        if any((p.dataset, p.method, p.protocol) == cell and is_processor(p.device) == (name == "cpu") for p in paces):
            continue
        trainings, experiment = min(table.most(config), MOST), experiment_of(config)
        settings = [experiment.setting(seed) for seed in range(trainings)]
        trials = experiment.trials(settings, 0, place, table.beside)
        paces.append(Pace(*cell, name, trainings, trials.probe(STEPS) / trainings))
        write_sealed(path, to_csv(paces))
        yield paces[-1]


def to_csv(paces: Iterable[Pace]) -> bytes:
    """The paces as a table.

    Example:
        >>> print(to_csv([Pace("cora", "arma", "paper", "cpu", 10, 0.0123456)]).decode(), end="")
        dataset,method,protocol,device,trainings,seconds
        cora,arma,paper,cpu,10,0.0123
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(field.name for field in fields(Pace))
    table.writerows((*astuple(pace)[:-1], f"{pace.seconds:.3g}") for pace in paces)
    return text.getvalue().encode()


def read_paces(path: Path) -> list[Pace]:
    """The paces of a table; none if it is not there."""
    if not path.is_file():
        return []
    rows = read_table(path, [field.name for field in fields(Pace)])
    try:
        return [Pace(**{**row, "trainings": int(row["trainings"]), "seconds": float(row["seconds"])}) for row in rows]  # type: ignore[arg-type]
    except ValueError as error:
        raise DataError(f"{path}: not a table of paces ({error}). Make it with: armagnn reproduce pace.") from error
