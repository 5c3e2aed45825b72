"""The picture of a run: learning curves of all its trials."""

from __future__ import annotations

import io
from collections.abc import Sequence

from armagnn.training.trial import Trial


def draw_curves(trials: Sequence[Trial], title: str) -> bytes:
    """Draw loss and validation accuracy over epochs, as PNG; a dot marks the restored state of each trial."""
    from matplotlib.figure import Figure  # slow to import, and needed only here

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for trial in trials:
        epochs = range(1, len(trial.history["val_loss"]) + 1)
        percent = [100 * value for value in trial.history["val_accuracy"]]
        left.plot(epochs, trial.history["train_loss"], color="tab:gray", alpha=0.4, linewidth=0.6)
        left.plot(epochs, trial.history["val_loss"], color="tab:blue", linewidth=1.0)
        left.plot(trial.best_epoch, trial.val["loss"], "o", color="tab:red")
        right.plot(epochs, percent, color="tab:blue", linewidth=0.8)
        right.plot(trial.best_epoch, 100 * trial.val["accuracy"], "o", color="tab:red")
    left.set(xlabel="epoch", ylabel="cross-entropy")
    left.legend(left.lines[:3], ["training (with dropout)", "validation", "restored"])
    right.set(xlabel="epoch", ylabel="validation accuracy (%)")
    figure.suptitle(title)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    return picture.getvalue()
