"""Results over trials: mean, deviation, and which trial is best on validation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from armagnn.training.stopping import score
from armagnn.training.trial import Trial

REPORTED = ("seed", "best_epoch", "val_loss", "val_accuracy", "test_accuracy")


def best_trial(trials: Sequence[Trial], stop_on: str) -> Trial:
    """The trial whose restored state is best on validation, by the rule that stopped it; first of equals."""
    return max(trials, key=lambda trial: score(stop_on, trial.val_loss, trial.val_accuracy))


def summarise(trials: Sequence[Trial], stop_on: str) -> dict[str, Any]:
    """The content of ``metrics.json``: results per trial, mean and sample deviation over trials.

    Accuracies are fractions. No times are in it, so that the same run gives the same bytes. The deviation of
    a single trial is 0.
    """
    return {
        "best_seed": best_trial(trials, stop_on).seed,
        "trials": [{name: getattr(trial, name) for name in REPORTED} for trial in trials],
        **{name: _mean_std([getattr(trial, name) for trial in trials]) for name in ("test_accuracy", "val_accuracy")},
    }


def _mean_std(values: list[float]) -> dict[str, float]:
    return {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}
