"""Early stopping on the validation nodes."""

from __future__ import annotations

from typing import Final

from armagnn.arguments import checked
from armagnn.checks import choice, integer

Score = tuple[float, ...]
RULES: Final = ("accuracy", "loss")
MOST_EPOCHS: Final = 10**6
"""The most epochs of a training."""

MOST_PATIENCE: Final = 2**62
"""More than any training has epochs, and an epoch more still fits into 64 bits."""


def check_stopping(stop_on: str, patience: int) -> None:
    """Refuse a rule that does not exist or a patience that never waits."""
    choice("stopping rule", stop_on, RULES)
    integer("patience", patience, 1, MOST_PATIENCE)


def score(stop_on: str, loss: float, accuracy: float) -> Score:
    """How good a state is on validation: greater is better, compared from left to right.

    On "loss" only the loss counts. Accuracy is a count of few nodes and ties often; on "accuracy" the lower
    loss decides a tie.

    Example:
        >>> score("accuracy", loss=0.9, accuracy=0.8) > score("accuracy", loss=1.0, accuracy=0.8)
        True
    """
    return (-loss,) if stop_on == "loss" else (accuracy, -loss)


class EarlyStopping:
    """Stop when the validation score has not risen for `patience` epochs.

    Only a strictly better score counts, so of epochs with the same score the first is kept.

    Example:
        >>> stopping = EarlyStopping("loss", patience=2)
        >>> [stopping.improves(epoch, loss, accuracy=0.0) for epoch, loss in enumerate([3.0, 1.0, 1.0, 2.0])]
        [True, True, False, False]
        >>> stopping.best_epoch, stopping.exhausted(3)
        (1, True)
    """

    @checked
    def __init__(self, stop_on: str, patience: int) -> None:
        check_stopping(stop_on, patience)
        self.stop_on = stop_on
        self.patience = patience
        self.best: Score | None = None
        self.best_epoch = 0

    @checked
    def improves(self, epoch: int, loss: float, accuracy: float) -> bool:
        """Take the validation result of `epoch`; is it the best so far?"""
        current = score(self.stop_on, loss, accuracy)
        if self.best is not None and not current > self.best:
            return False
        self.best, self.best_epoch = current, epoch
        return True

    @checked
    def exhausted(self, epoch: int) -> bool:
        """Has the patience run out at `epoch`?"""
        return epoch - self.best_epoch >= self.patience
