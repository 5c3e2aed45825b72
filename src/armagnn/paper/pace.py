"""How many seconds an epoch takes, measured once for every cell: what plans go by where no trial ran before."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, Final

import torch

from armagnn.checks import choice
from armagnn.errors import DataError, ParameterError
from armagnn.paper import graph_tables as graphs
from armagnn.paper import node_classification as node
from armagnn.paper.graph_signal import SIGNAL_TABLE, protocols_of
from armagnn.paper.published import DATASETS, METHODS
from armagnn.paper.published_graphs import CLASSIFICATION, CLASSIFIERS, REGRESSION, REGRESSORS
from armagnn.paper.published_signals import SIGNAL_METHODS, SIGNAL_SETS
from armagnn.paper.sealed import read_table, write_sealed
from armagnn.paper.summaries import PROCESSORS
from armagnn.training.config import torch_device

TABLES: Final = (node.TABLE, SIGNAL_TABLE, graphs.CLASSIFICATION_TABLE, graphs.REGRESSION_TABLE)
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


def cells(table: str) -> list[tuple[str, str, str]]:
    """Dataset, method and protocol of every cell of a table; of QM9 one property, as the others take as long.

    Example:
        >>> cells("graph-signal")[0], len(cells("graph-regression"))
        (('mnist', 'arma', 'paper'), 10)
    """
    if choice("table", table, TABLES) == SIGNAL_TABLE:
        return [(d, m, way) for d in SIGNAL_SETS for m in SIGNAL_METHODS for way in protocols_of(d, m)]
    of_graphs = graphs.PROTOCOLS
    names: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
        node.TABLE: (DATASETS, METHODS, node.PROTOCOLS),
        graphs.CLASSIFICATION_TABLE: (CLASSIFICATION, CLASSIFIERS, of_graphs),
        graphs.REGRESSION_TABLE: (REGRESSION[:1], REGRESSORS, of_graphs),
    }
    return list(product(*names[table]))


def is_processor(device: str) -> bool:
    """Is this the name of a processor, not of a GPU?"""
    return device in PROCESSORS


def measure(configs: Sequence[Any], path: Path, device: str = "cpu") -> Iterator[Pace]:
    """Measure the cells that the file at `path` does not have on this kind of device, and keep each as it comes."""
    place = torch_device(device)
    if not configs:
        raise ParameterError("configs is empty; give the configuration of each cell to measure.")
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else place.type
    paces = read_paces(path)
    for config in configs:
        cell = config.dataset, config.method, config.protocol
        if any((p.dataset, p.method, p.protocol) == cell and is_processor(p.device) == (name == "cpu") for p in paces):
            continue
        trainings = min(config.most, MOST)
        settings = [config.setting(seed) for seed in range(trainings)]
        seconds = config.make(settings, 0, place).probe(STEPS) / len(settings)
        paces.append(Pace(*cell, name, trainings, seconds))
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
