"""Early stopping: what counts as better, ties, and when patience runs out."""

from __future__ import annotations

import pytest

from armagnn.errors import ParameterError, UnknownNameError
from armagnn.training import EarlyStopping


def follow(stop_on: str, patience: int, results: list[tuple[float, float]]) -> tuple[int, int]:
    """(best epoch, last epoch) of a training with these (loss, accuracy) per epoch, from epoch 1."""
    stopping = EarlyStopping(stop_on, patience)
    for epoch, (loss, accuracy) in enumerate(results, start=1):
        stopping.improves(epoch, loss, accuracy)
        if stopping.exhausted(epoch):
            return stopping.best_epoch, epoch
    return stopping.best_epoch, len(results)


def test_loss_ignores_accuracy() -> None:
    assert follow("loss", 10, [(3.0, 0.1), (1.0, 0.2), (2.0, 0.9)]) == (2, 3)


def test_accuracy_ignores_a_lower_loss() -> None:
    assert follow("accuracy", 10, [(3.0, 0.9), (1.0, 0.8)]) == (1, 2)


def test_equal_loss_keeps_the_first() -> None:
    assert follow("loss", 10, [(1.0, 0.1), (1.0, 0.9)]) == (1, 2)


def test_equal_accuracy_goes_to_the_lower_loss() -> None:
    assert follow("accuracy", 10, [(2.0, 0.8), (1.0, 0.8), (1.5, 0.8), (1.0, 0.8)]) == (2, 4)


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_patience_counts_epochs_without_improvement(patience: int) -> None:
    results = [(3.0, 0.0), (1.0, 0.0)] + [(2.0, 0.0)] * 20
    assert follow("loss", patience, results) == (2, 2 + patience)


def test_improvement_restores_patience() -> None:
    results = [(5.0, 0.0), (6.0, 0.0), (4.0, 0.0), (6.0, 0.0), (3.0, 0.0), (6.0, 0.0), (6.0, 0.0)]
    assert follow("loss", 2, results) == (5, 7)


def test_the_rule_must_exist() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'accuracy'"):
        EarlyStopping("acuracy", 5)


def test_patience_must_wait() -> None:
    with pytest.raises(ParameterError, match="patience"):
        EarlyStopping("loss", 0)
