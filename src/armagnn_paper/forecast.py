"""How long trainings will take: plans by what earlier ones took, and measured epochs where no trial ran before.

.. math:: \\text{time} = \\text{trainings left} \\cdot \\text{epochs of one} \\cdot \\text{seconds of an epoch}

Epochs are those of the cell's exported trials, or else of its dataset and method, or else the most it may have. The
seconds of an epoch (the share of one training in its batch) are those of the same trials, if they ran on the same kind
of device; or measured ones, of ``results/pace.csv`` (`measure`); or those of another protocol; or those of the other
kind of device, times what lies between the two elsewhere. A plan trains nothing and reads no dataset.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import torch

from armagnn.errors import DataError, ParameterError
from armagnn.sealed import read_rows, read_table, rows_csv, write_sealed
from armagnn.training.config import Config, torch_device
from armagnn.training.record import CellName, Record, config_hash
from armagnn_paper.summaries import PROCESSORS
from armagnn_paper.table import Cell, CellTrial, Table, experiment_of

PACE: Final = "pace.csv"
MOST: Final = 10
"""Trainings of the batch that is measured, at most: their share is that of a larger one, or nearly."""

STEPS: Final = 2
"""Steps that are measured."""

SEARCH: Final = "-search"

SOURCES: Final = {
    "rows": "trainings of the cell took as long before, on the same kind of device",
    "measured": "an epoch takes as long as it did when it was measured (results/pace.csv)",
    "like": "an epoch takes as long as in another protocol (or property of QM9) by the same method",
    "scaled": "an epoch takes {} times as long on a processor as on a GPU, the middle of {} to {} where both are known",
    "unknown": "nothing is known of how long these take; they are not in the sum",
}
"""Where the seconds of an epoch come from, from the surest to the least sure."""

Pair = tuple[str, str]  # dataset, method


@dataclass(frozen=True)
class Line:
    """What the trainings of a cell will take.

    Attributes:
        cell: dataset, method, protocol.
        trainings: how many there are.
        done: of them, those that are in the store.
        epochs: of one training.
        seconds: of those that are left, together; None if nothing is known.
        source: where that is from, a key of `SOURCES`.
    """

    cell: Cell
    trainings: int
    done: int
    epochs: float
    seconds: float | None
    source: str


@dataclass
class Times:
    """What is known of earlier trainings: epochs by cell, seconds of an epoch by cell and kind of device."""

    epochs: dict[tuple[str, ...], list[int]] = field(default_factory=dict)
    spent: dict[tuple[CellName, bool], list[tuple[float, int]]] = field(default_factory=dict)  # by is_processor
    measured: dict[tuple[CellName, bool], float] = field(default_factory=dict)

    def add(self, cell: CellName, device: str, seconds: float, epochs: int) -> None:
        """Take a training into account."""
        self.epochs.setdefault(cell, []).append(epochs)
        self.spent.setdefault((cell, is_processor(device)), []).append((seconds, epochs))

    def epochs_of(self, pair: Pair) -> list[int]:
        """The epochs of all trainings of a dataset and a method."""
        return [each for cell, found in self.epochs.items() if _pair(cell) == pair for each in found]

    def pace(self, cell: CellName, processor: bool) -> tuple[float | None, str]:
        """The seconds of an epoch of one training, and where they come from."""
        found = self._known(cell, processor)
        if found[0] is not None:
            return found
        ratios, other = self.ratios(), self._known(cell, not processor)[0]
        if other is None or not ratios:
            return None, "unknown"
        ratio = statistics.median(ratios)
        return other * (ratio if processor else 1 / ratio), "scaled"

    def ratios(self) -> list[float]:
        """How much longer an epoch takes on a processor than on a GPU, for each dataset and method of which both are
        known."""
        pairs = dict.fromkeys(_pair(cell) for cell, _ in (*self.spent, *self.measured))
        both = [[self._of_pair(pair, processor) for processor in (True, False)] for pair in pairs]
        return sorted(cpu / gpu for cpu, gpu in both if cpu and gpu)

    def _known(self, cell: CellName, processor: bool) -> tuple[float | None, str]:
        if mean := _mean(self.spent.get((cell, processor), ())):
            return mean, "rows"
        if (cell, processor) in self.measured:
            return self.measured[cell, processor], "measured"
        return self._of_pair(_pair(cell), processor), "like"

    def _of_pair(self, pair: Pair, processor: bool) -> float | None:
        place = pair, processor
        spent = [each for (cell, kind), some in self.spent.items() if (_pair(cell), kind) == place for each in some]
        measured = [pace for (cell, kind), pace in self.measured.items() if (_pair(cell), kind) == place]
        return _mean(spent) or (statistics.fmean(measured) if measured else None)


def known_times(table: Table, results: Path, records: Iterable[Record], *, search: bool = False) -> Times:
    """What the exported table, the measured paces and the trials of a store say; damaged tables are refused."""
    times, seen = Times(), set[tuple[str, ...]]()
    path = results / f"{table.name}.csv"
    try:
        for row in read_table(path) if path.is_file() else ():
            cell = row["dataset"], row["method"], row["protocol"]
            trial = (*cell, row["run"], row["fold"])
            if trial not in seen:
                seen.add(trial)
                times.add(cell, row["device"], float(row["seconds"]), int(row["epochs"]))
        path = results / "search" / path.name
        for row in read_table(path) if search and path.is_file() else ():
            if row["epochs"]:
                times.epochs.setdefault((row["dataset"], row["method"], SEARCH), []).append(int(row["epochs"]))
    except (KeyError, ValueError) as error:
        raise DataError(f"{path}: not a table of trials ({error}). Make it with: armagnn results export.") from error
    for record in records:
        times.add(record.cell, record.device, record.seconds, record.epochs)
    for pace in read_paces(results / PACE):
        times.measured[(pace.dataset, pace.method, pace.protocol), is_processor(pace.device)] = pace.seconds
    return times


def plan(
    table: Table,
    trials: Sequence[CellTrial],
    device: str,
    times: Times,
    records: Iterable[Record],
    *,
    search: bool = False,
) -> list[Line]:
    """A line for every cell of the trials.

    A trial of a store counts as done if it has the setting, the seed and the fold; that its data are the same is
    assumed.
    """
    there = {(config_hash(record.config), record.seed, record.fold) for record in records}
    cells: dict[Cell, list[CellTrial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, []).append(trial)
    lines = []
    for cell, own in cells.items():
        names = [(config_hash(table.stored(cell, trial.config)), trial.seed, trial.fold) for trial in own]
        left = [name for name in names if name not in there]
        before = times.epochs.get((*cell[:2], SEARCH) if search else cell) or times.epochs_of(_pair(cell))
        most = own[0].config.epochs
        epochs = min(statistics.fmean(before), most) if before else float(most)
        pace, source = times.pace(cell, not device.startswith("cuda"))
        seconds = None if pace is None and left else len(left) * epochs * (pace or 0.0)
        lines.append(Line(cell, len(own), len(own) - len(left), epochs, seconds, source))
    return lines


def assumptions(lines: Iterable[Line], times: Times) -> dict[str, str]:
    """What the seconds of the lines rest on, by their source."""
    used = {line.source for line in lines}
    texts = {source: text for source, text in SOURCES.items() if source in used}
    if "scaled" in texts:
        ratios = times.ratios()
        middle = statistics.median(ratios)
        texts["scaled"] = texts["scaled"].format(*(f"{ratio:.3g}" for ratio in (middle, ratios[0], ratios[-1])))
    return texts


def _pair(cell: Sequence[str]) -> Pair:
    """Dataset and method; the properties of QM9 are one dataset, on which an epoch takes as long."""
    return cell[0].split("/")[0], cell[1]


def _mean(spent: Iterable[tuple[float, int]]) -> float | None:
    spent = list(spent)
    return sum(seconds for seconds, _ in spent) / max(sum(epochs for _, epochs in spent), 1) if spent else None


# ------------------------------------------------------------------------------------------------- measuring an epoch


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
        trials = experiment.trials(settings, 0, place, table.other_rules)
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
    return rows_csv(Pace, paces, 3)


def read_paces(path: Path) -> list[Pace]:
    """The paces of a table; none if it is not there."""
    if not path.is_file():
        return []
    return read_rows(path, Pace, "a table of paces", "Make it with: armagnn reproduce pace.")
