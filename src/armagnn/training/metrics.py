"""Results over trials: mean, deviation, and which trial is best on validation."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from armagnn.training.stopping import score
from armagnn.training.trial import Trial

REPORTED = ("seed", "best_epoch", "epochs", "val", "test")


def best_trial(trials: Sequence[Trial], stop_on: str) -> Trial:
    """The trial whose restored state is best on validation, by the rule that stopped it; first of equals."""
    return max(trials, key=lambda trial: score(stop_on, trial.val["loss"], trial.val.get("accuracy", math.nan)))


def summarise(trials: Sequence[Trial], stop_on: str) -> dict[str, Any]:
    """The content of ``metrics.json``: results per trial; mean and sample deviation of each metric over trials.

    Accuracies and F1 are fractions, "mse" is that of standardised targets. No times are in it, so that the same run
    gives the same bytes. The deviation of a single trial is 0.
    """
    return {
        "best_seed": best_trial(trials, stop_on).seed,
        "trials": [{name: getattr(trial, name) for name in REPORTED} for trial in trials],
        "val": _mean_std([trial.val for trial in trials]),
        "test": _mean_std([trial.test for trial in trials]),
    }


def _mean_std(metrics: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    columns = {name: [each[name] for each in metrics] for name in metrics[0]}
    return {
        name: {"mean": statistics.fmean(values), "std": statistics.stdev(values) if len(values) > 1 else 0.0}
        for name, values in columns.items()
    }
