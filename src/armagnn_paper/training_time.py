"""Figure 4: how long GCN, Chebyshev, CayleyNet and ARMA take to train on PPI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from armagnn.checks import integer
from armagnn.data import NodeDataset, load
from armagnn.errors import DataError
from armagnn.sealed import read_rows
from armagnn.spectral.plot import new_figure
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


def draw(timings: Sequence[Timing], dataset: str = "ppi") -> Any:
    """The figure: seconds per epoch, and seconds to the best validation score, with their values above the bars."""
    figure, axes = new_figure(9, 3.5, columns=2)
    names = [LABELS[timing.method] for timing in timings]
    for place, colour, label, values in (
        (axes[0, 0], "tab:blue", "milliseconds per epoch", [1e3 * timing.seconds_per_epoch for timing in timings]),
        (axes[0, 1], "tab:orange", "seconds to the best validation score", [t.seconds_to_best for t in timings]),
    ):
        place.bar_label(place.bar(names, values, color=colour), fmt="{:.3g}", padding=2)
        place.set(ylabel=label)
        place.margins(y=0.12)  # room for the values
    figure.suptitle(f"Training on {LABELS[dataset]}, {timings[0].device}")
    return figure
