"""What the protocol ``grid`` of Table 1 chooses, and how: cross-validation on the labelled nodes of the public split.

K, T, the learning rate and L2 are the paper's. What its text leaves open is a grid: the drop rates of the three places
where dropout may act, ReLU or ELU, K of the last layer. Every method that has a choice has the same values of it. A
re-split of the labelled nodes takes 20 nodes of each class for training, 500 others for stopping and for the score.
Stage 1 trains every setting on a few re-splits; stage 2 trains the best of them on fresh ones and decides. The labels
of all other nodes are not in the data.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import choice
from armagnn.data import NodeDataset
from armagnn.data.splits import shuffled
from armagnn.errors import DataError
from armagnn.files import write_atomic
from armagnn.sealed import read_sealed, write_sealed
from armagnn.training import NodesConfig
from armagnn_paper.table import Cell
from armagnn_paper.tables import GRIDDED, GRIDDED_METHODS, NODES, WITH_ORDER, most_nodes, paper_config

RATES: Final = (0.25, 0.5, 0.75)
"""The values of every drop rate."""

STAGES: Final[Mapping[int, Sequence[int]]] = {1: range(4), 2: range(100, 112)}
"""The numbers of the re-splits of each stage."""

FINALISTS: Final = 12
"""Settings that go to stage 2."""

FIRST_SEED: Final = 1_000_000
"""A training on re-split r has the seed ``FIRST_SEED + r``."""

PER_CLASS: Final = 20
VAL: Final = 500

RESPLIT: Final = 420
"""Purpose of the draw of a re-split; see :mod:`armagnn.randomness`."""

SETTING: Final = ("act", "last_k", "input_dropout", "hidden_dropout", "skip_dropout")
"""What tells the settings of a cell apart, as the store names it."""

HEAD: Final = ("dataset", "method", "stage", *SETTING, "resplit", "val_accuracy", "val_loss", "epochs")


@dataclass(frozen=True)
class Score:
    """One training of the search: its cell, stage, setting and re-split, and its validation scores."""

    cell: tuple[str, str]
    stage: int
    setting: tuple[str, ...]
    resplit: int
    accuracy: float
    loss: float
    epochs: int

    @property
    def row(self) -> list[str]:
        """The row of a table."""
        numbers = [str(self.resplit), f"{self.accuracy:.6f}", f"{self.loss:.8g}", str(self.epochs)]
        return [*self.cell, str(self.stage), *self.setting, *numbers]

    @classmethod
    def of(cls, row: Sequence[str]) -> Score:
        """The inverse of `row`."""
        dataset, method, stage, *setting, resplit, accuracy, loss, epochs = row
        if len(setting) != len(SETTING):
            raise ValueError(f"{len(row)} columns for {len(HEAD)}")
        numbers = int(resplit), float(accuracy), float(loss), int(epochs)
        return cls((dataset, method), int(stage), tuple(setting), *numbers)


def settings(dataset: str, method: str) -> list[NodesConfig]:
    """All settings of the grid that differ in what a method has, in the order of nested loops.

    Example:
        >>> [len(settings("cora", method)) for method in ("arma", "gcn", "chebyshev", "cayley", "mlp")]
        [108, 18, 36, 18, 18]
    """
    choice("dataset of the grid", dataset, GRIDDED)
    choice("method of the grid", method, GRIDDED_METHODS)
    base = replace(paper_config(dataset, method), stop_on="loss", patience=100)
    orders = [base.stacks, 1] if method in WITH_ORDER and base.stacks > 1 else [base.stacks]
    skips = RATES if method == "arma" else (0.0,)
    return [
        replace(base, act=act, last_stacks=last, input_dropout=first, hidden_dropout=hidden, skip_dropout=skip)
        for act, last, first, hidden, skip in itertools.product(("relu", "elu"), orders, RATES, RATES, skips)
    ]


def resplits(data: NodeDataset, numbers: Iterable[int]) -> NodeDataset:
    """The same graph with re-splits of its labelled nodes as its fixed splits; other labels are -1.

    Example:
        >>> from armagnn.data import load
        >>> again = resplits(load("cora"), range(2))
        >>> [(again.split_parts == part).sum(1).tolist() for part in (0, 1)]
        [[140, 140], [500, 500]]
    """
    known = torch.cat([data.train_idx, data.val_idx]).sort().values
    y = torch.full_like(data.y, -1)
    y[known] = data.y[known]
    parts = torch.stack([_resplit(y, known, number, data.num_classes) for number in numbers])
    return replace(data, y=y, split_parts=parts, test_idx=data.test_idx[:0], sha256=f"{data.sha256} re-split")


def _resplit(y: Tensor, known: Tensor, number: int, classes: int) -> Tensor:
    order = known[shuffled(number, RESPLIT, len(known))]
    rank = torch.zeros(len(order), dtype=torch.int64)
    for label in range(classes):
        of_class = y[order] == label
        rank[of_class] = torch.arange(int(of_class.sum()))
    part = torch.full((len(y),), -1, dtype=torch.int8)
    part[order[rank < PER_CLASS]] = 0
    part[order[rank >= PER_CLASS][:VAL]] = 1
    return part


def named(dataset: str, method: str, config: NodesConfig) -> tuple[str, ...]:
    """What tells a setting apart, as texts."""
    stored = NODES.stored(Cell(dataset, method, "grid"), config)
    return tuple(str(stored[name]) for name in SETTING)


# ------------------------------------------------------------------------------------------------------------- search


class Grid:
    """The search of one cell, whose scores are in a file; what is in it is not trained again."""

    def __init__(self, dataset: str, method: str, scores: Path) -> None:
        self.cell, self.path = (dataset, method), scores
        self.settings = {named(dataset, method, config): config for config in settings(dataset, method)}
        self.found = [score for score in read_scores(scores) if score.cell == self.cell]

    def means(self, stage: int) -> dict[tuple[str, ...], tuple[float, float]]:
        """Mean accuracy and mean negative loss of the settings that have all re-splits of a stage, the best first."""
        by_setting: dict[tuple[str, ...], dict[int, Score]] = {setting: {} for setting in self.settings}
        for score in self.found:
            if score.stage == stage and score.setting in by_setting and score.resplit in STAGES[stage]:
                by_setting[score.setting][score.resplit] = score
        means = {
            setting: (
                statistics.fmean(score.accuracy for score in scores.values()),
                -statistics.fmean(score.loss for score in scores.values()),
            )
            for setting, scores in by_setting.items()
            if len(scores) == len(STAGES[stage])
        }
        return dict(sorted(means.items(), key=lambda item: item[1], reverse=True))  # stable: of equals the first

    def finalists(self) -> list[tuple[str, ...]]:
        """The settings of stage 2; none before stage 1 is complete."""
        means = self.means(1)
        return list(means)[:FINALISTS] if len(means) == len(self.settings) else []

    def chosen(self) -> NodesConfig | None:
        """The setting with the best mean in stage 2; None before that is complete."""
        means, finalists = self.means(2), self.finalists()
        if not finalists or not set(finalists) <= means.keys():
            return None
        return self.settings[next(setting for setting in means if setting in finalists)]

    def missing(self, stage: int) -> list[tuple[tuple[str, ...], int]]:
        """Settings and re-splits of a stage that are to be trained yet."""
        done = {(score.setting, score.resplit) for score in self.found if score.stage == stage}
        wanted = list(self.settings) if stage == 1 else self.finalists()
        return [(setting, number) for setting in wanted for number in STAGES[stage] if (setting, number) not in done]

    def train(self, data: NodeDataset, stage: int, device: str, say: Callable[[str], None]) -> None:
        """Train what is missing of a stage, batch by batch, and append the scores of every batch to the file."""
        again = resplits(data, STAGES[stage])
        groups: dict[tuple[Any, ...], list[tuple[tuple[str, ...], int]]] = {}
        for setting, number in self.missing(stage):
            groups.setdefault(self.settings[setting].shape(), []).append((setting, number))
        for group in groups.values():
            most = most_nodes(self.settings[group[0][0]])
            for first in range(0, len(group), most):
                self._train(again, stage, group[first : first + most], device)
                say(f"{' '.join(self.cell)}, stage {stage}: {len(self.missing(stage))} trainings left")

    def _train(self, data: NodeDataset, stage: int, batch: Sequence[tuple[tuple[str, ...], int]], device: str) -> None:
        trials = {}
        for setting, number in batch:
            target = STAGES[stage].index(number)
            trials[replace(self.settings[setting].setting(FIRST_SEED + number), target=target)] = (setting, number)
        experiment = self.settings[batch[0][0]].experiment(data)
        for outcome in experiment.trials(list(trials), 0, device).run():
            setting, number = trials[outcome.setting]
            scores = 100 * outcome.val["accuracy"], outcome.val["loss"]
            score = Score(self.cell, stage, setting, number, *scores, outcome.epochs)
            self.found.append(Score.of(score.row))  # what is stored: a search that was resumed decides the same
        others = [score for score in read_scores(self.path) if score.cell != self.cell]
        write_atomic(self.path, scores_csv([*others, *self.found]))


# -------------------------------------------------------------------------------------------------------------- files


def scores_csv(scores: Iterable[Score]) -> bytes:
    """Every training of the search, in an order that depends on them alone."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    writer.writerows(sorted(score.row for score in scores))
    return text.getvalue().encode()


def read_scores(path: Path) -> list[Score]:
    """The trainings of a file; none if it is not there."""
    if not path.exists():
        return []
    try:
        head, *rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
        if tuple(head) != HEAD:
            raise ValueError("other columns")
        return [Score.of(row) for row in rows]
    except (ValueError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not the scores of the grid ({error}). Name another file, or remove it.") from error


def write_choices(found: Mapping[tuple[str, str], NodesConfig], out: Path) -> None:
    """Write what was chosen; of other cells the file keeps what it has."""
    choices: dict[str, Any] = json.loads(read_sealed(out.parent, out.name, needed=False)) if out.exists() else {}
    for (dataset, method), config in found.items():
        choices[f"{dataset}/{method}"] = NODES.stored(Cell(dataset, method, "grid"), config)
    write_sealed(out, (json.dumps(dict(sorted(choices.items())), indent=2) + "\n").encode())
