"""A kind of task as another package would bring it: a line through points, from the configuration to the CSV."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from armagnn.tasks.contract import TaskNet
from armagnn.training.config import Config, register
from armagnn.training.experiment import Experiment, csv_text
from armagnn.training.shared_options import RUN, option, shared


@register
@dataclass(frozen=True)
class LineConfig(Config):
    """Hyperparameters of a line."""

    kind: ClassVar[str] = "line"
    command: ClassVar[str] = "train line"
    HELP: ClassVar[str] = "Put a line through points, once per seed."
    EXPERIMENT: ClassVar[str] = "toy_task:LineExperiment"
    RATES: ClassVar[tuple[str, ...]] = ()
    STORED: ClassVar[Mapping[str, str]] = {"dataset": "dataset", "conv": "method", "lr": "lr", "l2": "l2"}

    dataset: str = option("points", "The points.", RUN)
    conv: str = option("line")
    l2: float = option(0.0)
    lr: float = shared("lr", 0.1)
    epochs: int = shared("epochs", 60)
    patience: int = shared("patience", 60)
    stop_on: str = option("loss")
    seed: int = shared("seed", 0)
    seeds: int = shared("seeds", 2)
    device: str = option("cpu")

    def load(self) -> Points:
        return Points()


class Points:
    """y = 2 x + 1."""

    sha256 = "0" * 64
    x = torch.linspace(-1, 1, 20).unsqueeze(1)
    y = 2 * x + 1


class LineNet(TaskNet):
    """The line."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)

    def set_rates(self) -> None:
        """There are none."""

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.linear(x)
        return found


class LineTask:
    """All points in every step, for learning and for validation."""

    steps = 1

    def __init__(self, points: Points) -> None:
        self.points = points

    def start(self, epoch: int) -> None:
        """Nothing to do."""

    def room(self, step: int) -> tuple[int, ...]:
        return ()

    def batch(self, step: Tensor, room: tuple[int, ...]) -> None:
        return None

    def loss(self, predict: Any, batch: None, target: Tensor) -> Tensor:
        return (predict(self.points.x) - self.points.y).square().mean()

    def metrics(self, predict: Any, split: str, target: Tensor) -> dict[str, Tensor]:
        loss = self.loss(predict, None, target)
        return {"loss": loss, "mse": loss}


class LineExperiment(Experiment):
    """Points, and a line through them."""

    DATA = Points
    nodes_at_once = 20

    def network(self) -> LineNet:
        return LineNet()

    def task(self, net: LineNet, fold: int | None, device: torch.device) -> LineTask:
        return LineTask(self.dataset)

    def predict(self, net: LineNet) -> LinePrediction:
        return LinePrediction(net(self.dataset.x).squeeze(1).tolist())


@dataclass
class LinePrediction:
    """The height of the line at every point."""

    heights: list[float]
    what: str = "points"

    def to_csv(self) -> str:
        return csv_text(["point", "height"], enumerate(self.heights))
