"""Figure 4: how long GCN, Chebyshev, CayleyNet and ARMA take to train on PPI."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from armagnn.checks import integer
from armagnn.data import NodeDataset, load
from armagnn.errors import DataError
from armagnn.sealed import read_rows
from armagnn.training import NodesConfig
from armagnn.training.config import torch_device
from armagnn.training.outcome import Outcome
from armagnn_paper.summaries import LABELS
from armagnn_paper.tables import NODES, paper_config

METHODS: Final = ("gcn", "chebyshev", "cayley", "arma")


@dataclass(frozen=True)
class Timing:
    """One bar of the figure.

    Attributes:
        method: the layer.
        device: where it was trained.
        epochs: epochs that were timed, each with its validation.
        seconds_per_epoch: their mean time, after a short training that has compiled what there is to compile.
        best_epoch: the epoch with the lowest validation loss.
        seconds_to_best: the time until then.
        val_accuracy: the validation accuracy there, in per cent.
    """

    method: str
    device: str
    epochs: int
    seconds_per_epoch: float
    best_epoch: int
    seconds_to_best: float
    val_accuracy: float


def measure(
    dataset: str = "ppi", methods: Sequence[str] = METHODS, device: str = "cpu", epochs: int = 2000, patience: int = 300
) -> Iterator[Timing]:
    """Train every method once with the paper's hyperparameters (seed 0, stopping on validation loss), and time it."""
    for method in methods:
        NODES.check(dataset, method)
    integer("epochs", epochs, 1)
    integer("patience", patience, 1)
    place = torch_device(device)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU"
    data = load(dataset).to(place)
    for method in methods:
        config = replace(paper_config(dataset, method), stop_on="loss", patience=patience, epochs=epochs)
        train_once(replace(config, epochs=6), data, place)  # compiles what there is to compile
        outcome = train_once(config, data, place)
        pace = outcome.seconds / outcome.epochs
        accuracy = 100 * outcome.val["accuracy"]
        yield Timing(method, name, outcome.epochs, pace, outcome.best_epoch, pace * outcome.best_epoch, accuracy)


def train_once(config: NodesConfig, data: NodeDataset, device: torch.device) -> Outcome:
    """Train with seed 0."""
    return next(config.experiment(data).trials([config.setting(0)], device=device).run())


def from_csv(path: Path) -> list[Timing]:
    """The numbers of the figure, from their file."""
    timings = read_rows(path, Timing, "the numbers of Figure 4")
    if not timings:
        raise DataError(f"{path}: not the numbers of Figure 4 (it has no rows).")
    return timings


def draw(timings: Sequence[Timing], dataset: str = "ppi") -> bytes:
    """The figure, as PNG: seconds per epoch, and seconds to the best validation score."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = [LABELS[timing.method] for timing in timings]
    left.bar(names, [1e3 * timing.seconds_per_epoch for timing in timings], color="tab:blue")
    left.set(ylabel="milliseconds per epoch")
    right.bar(names, [timing.seconds_to_best for timing in timings], color="tab:orange")
    right.set(ylabel="seconds to the best validation score")
    figure.suptitle(f"Training on {LABELS[dataset]}, {timings[0].device}")
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()
