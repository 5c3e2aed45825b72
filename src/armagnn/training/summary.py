"""A finished run in short: mean and deviation over trials, which trial is best on validation, and the curves."""

from __future__ import annotations

import io
import math
import statistics
import warnings
from collections.abc import Sequence
from typing import Any

from armagnn.training.outcome import Outcome
from armagnn.training.stopping import score

REPORTED = ("seed", "best_epoch", "epochs", "val", "test")


def best_trial(trials: Sequence[Outcome], stop_on: str) -> Outcome:
    """The trial whose restored state is best on validation, by the rule that stopped it; first of equals."""
    return max(trials, key=lambda trial: score(stop_on, trial.val["loss"], trial.val.get("accuracy", math.nan)))


def summarise(trials: Sequence[Outcome], stop_on: str) -> dict[str, Any]:
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


def draw_curves(trials: Sequence[Outcome], title: str) -> bytes:
    """Draw loss and validation accuracy (of classes) over epochs, as PNG; a dot marks each trial's restored state."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    classes = "val_accuracy" in trials[0].history
    figure = Figure(figsize=(10 if classes else 5.5, 4), layout="constrained")
    left, *others = figure.subplots(1, 2 if classes else 1, squeeze=False)[0]
    for trial in trials:
        epochs = range(1, len(trial.history["val_loss"]) + 1)
        left.plot(epochs, trial.history["train_loss"], color="tab:gray", alpha=0.4, linewidth=0.6)
        left.plot(epochs, trial.history["val_loss"], color="tab:blue", linewidth=1.0)
        left.plot(trial.best_epoch, trial.val["loss"], "o", color="tab:red")
        for right in others:
            percent = [100 * value for value in trial.history["val_accuracy"]]
            right.plot(epochs, percent, color="tab:blue", linewidth=0.8)
            right.plot(trial.best_epoch, 100 * trial.val["accuracy"], "o", color="tab:red")
    left.set(xlabel="epoch", ylabel="cross-entropy" if classes else "mean squared error (of standardised targets)")
    left.legend(left.lines[:3], ["training (with dropout)", "validation", "restored"])
    for right in others:
        right.set(xlabel="epoch", ylabel="validation accuracy (%)")
    figure.suptitle(title, parse_math=False)  # a name of data is a name, whatever is in it
    picture = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()
