"""What TensorBoard shows of a training: an observer that writes its logs, and several observers as one."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from armagnn.errors import UnsupportedError
from armagnn.training.outcome import Outcome
from armagnn.training.record import Record
from armagnn.training.trainer import Observer


class TensorBoardLog(Observer):
    """Write means over the trials while they train, and the curves of each trial when it is finished.

    The logs of each start are in a folder named by its time, so those of several are not mixed. Show them with
    ``tensorboard --logdir FOLDER``.

    Args:
        folder: where the logs go.

    Example:
        >>> train(NodesConfig(), "runs/cora", observer=TensorBoardLog(Path("runs/cora/tensorboard")))  # doctest: +SKIP
    """

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UnsupportedError("The logs need TensorBoard: pip install 'armagnn[tensorboard]'.") from error
        self._writer: Any = SummaryWriter
        self._folder = folder / time.strftime("%Y%m%d-%H%M%S")
        self._mean: Any = None

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        """Write the means on validation."""
        if self._mean is None:
            self._mean = self._writer(str(self._folder / "mean"))
        self._mean.add_scalar("val_loss", val_loss, epoch)
        if not math.isnan(val_accuracy):
            self._mean.add_scalar("val_accuracy", val_accuracy, epoch)
        self._mean.add_scalar("trials running", running, epoch)
        self._mean.flush()

    def trial(self, trial: Outcome | Record, *, new: bool) -> None:
        """Write the curves of a trial that has just finished."""
        if not new or not isinstance(trial, Outcome):
            return
        writer = self._writer(str(self._folder / f"seed-{trial.seed}"))
        for name, values in trial.history.items():
            for epoch, value in enumerate(values, 1):
                if math.isfinite(value):
                    writer.add_scalar(name, value, epoch)
        for split in ("val", "test"):
            for name, value in getattr(trial, split).items():
                writer.add_scalar(f"best {split}/{name}", value, trial.best_epoch)
        writer.close()


class Observers(Observer):
    """Several observers, each of which is told all."""

    def __init__(self, *observers: Observer) -> None:
        self._all = observers

    def start(self, total: int) -> None:
        """Pass it on."""
        for each in self._all:
            each.start(total)

    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        """Pass it on."""
        for each in self._all:
            each.epochs(epoch, running, val_loss, val_accuracy)

    def trial(self, trial: Outcome | Record, *, new: bool) -> None:
        """Pass it on."""
        for each in self._all:
            each.trial(trial, new=new)

    def batch(self) -> None:
        """Pass it on."""
        for each in self._all:
            each.batch()

    def lost(self, reason: str) -> None:
        """Pass it on."""
        for each in self._all:
            each.lost(reason)

    def stopping(self) -> None:
        """Pass it on."""
        for each in self._all:
            each.stopping()

    def note(self, text: str) -> None:
        """Pass it on."""
        for each in self._all:
            each.note(text)
