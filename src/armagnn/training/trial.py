"""The trials of a configuration: one for each seed, trained as one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer, real
from armagnn.errors import DataError, ParameterError, shown
from armagnn.tasks import PEERS
from armagnn.training.config import RunConfig
from armagnn.training.setting import Outcome, Setting

SHARES: Final = ("accuracy", "micro_f1")
"""Metrics that lie between 0 and 1."""


@checked
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
    @checked
    def of(cls, outcome: Outcome) -> Trial:
        """The record of an outcome; that of a training which diverged from the start is refused."""
        if outcome.best_epoch == 0 or not math.isfinite(outcome.val.get("loss", math.nan)):
            setting = outcome.setting
            raise ParameterError(
                f"Training diverged (seed {setting.seed}): its validation loss was never a finite number. "
                f"Lower lr (now {setting.lr})."
            )
        bad = [name for split in (outcome.val, outcome.test) for name in split if not math.isfinite(split[name])]
        if bad:
            raise ParameterError(
                f"Training diverged (seed {outcome.setting.seed}): its {bad[0]} is no finite number. "
                f"Lower lr (now {outcome.setting.lr})."
            )
        rest = {name: value for name, value in vars(outcome).items() if name not in ("setting", "beside")}
        if "accuracy" not in outcome.val:
            rest["history"] = {name: values for name, values in outcome.history.items() if name != "val_accuracy"}
        return cls(seed=outcome.setting.seed, **rest)

    # ----------------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> dict[str, Any]:
        """All but the weights, as plain JSON, which has no NaN: losses that are no numbers (of a divergence that came
        later than the restored state) are null.
        """
        content = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "state"}
        past = {name: [value if math.isfinite(value) else None for value in v] for name, v in self.history.items()}
        return content | {"history": past}

    @classmethod
    @checked
    def from_json(cls, content: dict[str, Any], state: dict[str, Tensor], seed: int, most_epochs: int) -> Trial:
        """The inverse of :meth:`to_json`, for the trial of `seed`; anything else is a DataError that says why."""
        if content.keys() != {field.name for field in fields(cls)} - {"state"}:
            raise DataError("it does not have the entries that this version of armagnn knows")
        integer("seed", content["seed"], seed, seed)
        epochs = integer("epochs", content["epochs"], 1, most_epochs)
        best_epoch = integer("best_epoch", content["best_epoch"], 1, epochs)
        val, test = (_metrics(split, content[split]) for split in ("val", "test"))
        if val.keys() != test.keys():
            raise DataError("val and test do not have the same metrics")
        history = _history(content["history"], epochs, classes="accuracy" in val)
        seconds = real("seconds", content["seconds"], least=0)
        return cls(seed, best_epoch, epochs, val, test, seconds, history, state)


def _metrics(split: str, found: object) -> dict[str, float]:
    if not isinstance(found, dict) or "loss" not in found:
        raise DataError(f"{split} is {shown(found)}, not metrics by name, with a loss")
    for name, value in found.items():
        real(f"{split} {name}", value, least=0 if name in SHARES else None, most=1 if name in SHARES else None)
    return found


def _history(found: object, epochs: int, *, classes: bool) -> dict[str, list[float]]:
    names = {"train_loss", "val_loss"} | ({"val_accuracy"} if classes else set())
    if not isinstance(found, dict) or found.keys() != names:
        raise DataError(f"history does not have {', '.join(sorted(names))}")
    for name, values in found.items():
        if not isinstance(values, list) or len(values) != epochs:
            raise DataError(f"{name} of the history does not have one number for each of {epochs} epochs")
        if not all(value is None or (type(value) is float and math.isfinite(value)) for value in values):
            raise DataError(f"{name} of the history is not made of numbers")
    return {name: [math.nan if value is None else value for value in values] for name, values in found.items()}


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
