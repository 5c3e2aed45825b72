"""The trials of a configuration: one for each seed, trained as one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from armagnn.errors import ParameterError
from armagnn.tasks import PEERS
from armagnn.training.config import RunConfig
from armagnn.training.setting import Outcome, Setting


@dataclass(frozen=True, eq=False)
class Trial:
    """What one seed gave: the restored state, where it was found, and the way there.

    Metrics are "loss" and "accuracy" and, where a node may have many labels, "micro_f1"; of a regression "loss", "mse"
    (of standardised targets: the same) and the mean absolute error of each target in its own units, "mae NAME".

    Attributes:
        seed: the seed, which with the configuration determines all the rest (but `seconds`).
        best_epoch: the epoch (from 1) whose weights were restored.
        epochs: how many epochs it was trained.
        val: validation metrics of the restored weights.
        test: their test metrics, looked at once, after training.
        seconds: its share of the time of the batch.
        history: per epoch "train_loss" (under dropout, before the step), "val_loss" and, of classes,
            "val_accuracy".
        state: the restored weights, on the CPU.
    """

    seed: int
    best_epoch: int
    epochs: int
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    history: dict[str, list[float]]
    state: dict[str, Tensor]

    @classmethod
    def of(cls, outcome: Outcome) -> Trial:
        """The record of an outcome; that of a training which diverged from the start is refused."""
        if outcome.best_epoch == 0 or not math.isfinite(outcome.val["loss"]):
            setting = outcome.setting
            raise ParameterError(
                f"Training diverged (seed {setting.seed}): its validation loss was never a finite number. "
                f"Lower lr (now {setting.lr})."
            )
        rest = {name: value for name, value in vars(outcome).items() if name not in ("setting", "beside")}
        if "accuracy" not in outcome.val:
            rest["history"] = {name: values for name, values in outcome.history.items() if name != "val_accuracy"}
        return cls(seed=outcome.setting.seed, **rest)


def batches(config: RunConfig) -> list[range]:
    """The seeds that are trained together: all of them, or ten of GAT, GraphSAGE and GIN, which take more room.

    Example:
        >>> from armagnn.training import TrainConfig
        >>> batches(TrainConfig(seeds=30)), batches(TrainConfig(seeds=12, conv="gat"))
        ([range(0, 30)], [range(0, 10), range(10, 12)])
    """
    seeds = config.all_seeds
    size = 10 if config.conv in PEERS else len(seeds)
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


def settings(config: RunConfig, seeds: Sequence[int]) -> list[Setting]:
    """What the trials of `seeds` are trained with."""
    return [Setting(seed, config.lr, config.l2, config.rates) for seed in seeds]
