"""What tells the trials of a batch apart, and what each of them gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer, probability, real
from armagnn.errors import ParameterError, shown

MOST_TRIALS: Final = 4096
"""The most trials of a run, and of a batch."""


@checked
@dataclass(frozen=True)
class Setting:
    """What may differ between the trials of a batch.

    Attributes:
        seed: of the initial weights and of all masks.
        lr: learning rate of Adam.
        l2: c of the penalty c ||W||^2 on every kernel W (not on biases, nor on single numbers); its gradient is 2 c W.
        rates: drop rates, as the network's ``set_rates`` takes them.
        target: which of the task's targets the trial learns, where there are several.
    """

    seed: int
    lr: float
    l2: float
    rates: tuple[float, ...] = ()
    target: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.rates, tuple | list):
            raise ParameterError(f"rates must be a tuple of drop rates, got {shown(self.rates)}.")
        checked = {
            "seed": integer("seed", self.seed, -(2**63), 2**63 - 1),
            "lr": real("lr", self.lr, least=0),
            "l2": real("l2", self.l2, least=0),
            "rates": tuple(probability("a drop rate", rate) for rate in self.rates),
            "target": integer("target", self.target, 0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)


@checked
@dataclass(frozen=True, eq=False)
class Outcome:
    """What one trial gave: metrics of the state that was best on validation, and the way there.

    Attributes:
        setting: the trial's own.
        best_epoch: the epoch (from 1) whose weights were best on validation; 0 if training diverged at once.
        epochs: how many epochs it was trained.
        val: validation metrics of those weights.
        test: their test metrics, looked at once, after training.
        seconds: its share of the time of the batch.
        history: per epoch "train_loss" (under dropout, before each step), "val_loss" and "val_accuracy".
        state: those weights, on the CPU.
        beside: test metrics of the weights that other stopping rules would have kept, by rule.
    """

    setting: Setting
    best_epoch: int
    epochs: int
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    history: dict[str, list[float]]
    state: dict[str, Tensor]
    beside: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, found in (("val", self.val), ("test", self.test)):
            if "loss" not in found:
                raise ParameterError(
                    f"{name} must be numbers by the names of metrics, with a loss, got {shown(found)}."
                )
