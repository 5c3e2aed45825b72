"""What `Trials` asks of a task and of a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor

Predict = Callable[..., Tensor]
Room = tuple[int, ...]


class Task(Protocol):
    """What is trained for: batches, a loss, and metrics of the splits, on one device.

    A task may have ``small``, whether steps of one trial are too short to be shared out over threads of a processor.
    An epoch has `steps` steps. ``target`` is the trial's own number of that name, for tasks with several targets.
    """

    @property
    def steps(self) -> int:
        """Steps of an epoch."""

    def start(self, epoch: int) -> None:
        """Get ready for the batches of an epoch, counted from 0."""

    def room(self, step: int) -> Room:
        """The sizes of the batch of a step of this epoch: a recorded step serves all steps of the same sizes."""

    def batch(self, step: Tensor, room: Room) -> Any:
        """The batch of a step of this epoch, (1,) int64 on the device, counted from 0, in a room that it has."""

    def loss(self, predict: Predict, batch: Any, target: Tensor) -> Tensor:
        """The training loss on a batch, without axes."""

    def metrics(self, predict: Predict, split: str, target: Tensor) -> dict[str, Tensor]:
        """The metrics of "val" or "test", each without axes: "loss", of a classification "accuracy", and others."""


class Network(Protocol):
    """A network whose drop rates can be set, to numbers or to tensors."""

    def set_rates(self, *rates: float | Tensor) -> None:
        """Set the drop rates."""

    def trial_axis(self, name: str) -> int:
        """Where the trials go among the axes of a parameter: after the axis that a sparse product sums over."""
