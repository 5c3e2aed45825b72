"""The picture of a run: learning curves of all its trials."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

from armagnn.training.trial import Trial


def draw_curves(trials: Sequence[Trial], title: str) -> bytes:
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
