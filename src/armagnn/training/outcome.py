"""What tells the trials of a batch apart, what each of them gave, and what all of them gave in short."""

from __future__ import annotations

import io
import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import integer, probability, real
from armagnn.errors import DataError, ParameterError, shown
from armagnn.nn.layer_registry import PEERS
from armagnn.training.stopping import score

if TYPE_CHECKING:
    from armagnn.training.config import Config


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
    """What one trial gave: the metrics of the weights that were best on validation, and the way there.

    Metrics are "loss" and, of classes, "accuracy" (with many labels also "micro_f1"); of a regression "loss", "mse" (of
    standardised targets: the same) and, where all targets are learnt, "mae NAME", the mean absolute error of each in
    its own units.

    Attributes:
        setting: what the trial was trained with.
        best_epoch: the epoch (from 1) whose weights were best on validation; 0 if training diverged at once.
        epochs: how many epochs it was trained.
        val: validation metrics of those weights.
        test: their test metrics, looked at once, after training.
        seconds: the trial's share of the time of the batch.
        history: per epoch "train_loss" (under dropout, before each step), "val_loss" and, of classes, "val_accuracy".
        state: those weights, on the CPU.
        other_rules: by rule, the test metrics of the weights that other stopping rules would have kept.
    """

    setting: Setting
    best_epoch: int
    epochs: int
    val: dict[str, float]
    test: dict[str, float]
    seconds: float
    history: dict[str, list[float]]
    state: dict[str, Tensor]
    other_rules: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, found in (("val", self.val), ("test", self.test)):
            if "loss" not in found:
                raise ParameterError(
                    f"{name} must be numbers by the names of metrics, with a loss, got {shown(found)}."
                )

    @property
    def seed(self) -> int:
        """The seed, which with the configuration determines all the rest (but `seconds`)."""
        return self.setting.seed

    def require_converged(self) -> Self:
        """Refuse a training that diverged from the start."""
        advice = f"Lower lr (now {self.setting.lr})."
        if self.best_epoch == 0 or not math.isfinite(self.val.get("loss", math.nan)):
            raise ParameterError(
                f"Training diverged (seed {self.seed}): its validation loss was never a finite number. {advice}"
            )
        bad = [name for split in (self.val, self.test) for name in split if not math.isfinite(split[name])]
        if bad:
            raise ParameterError(f"Training diverged (seed {self.seed}): its {bad[0]} is no finite number. {advice}")
        return self

    # ----------------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> dict[str, Any]:
        """All but the weights, as plain JSON. It has no NaN: a loss that is no number, after a divergence that came
        later than the restored state, is null.
        """
        past = {name: [value if math.isfinite(value) else None for value in v] for name, v in self.history.items()}
        return {"seed": self.seed} | {name: getattr(self, name) for name in KEPT} | {"history": past}

    @classmethod
    @checked
    def from_json(
        cls, content: dict[str, Any], state: dict[str, Tensor], setting: Setting, most_epochs: int
    ) -> Outcome:
        """The inverse of :meth:`to_json`, for the trial of a setting; anything else is a DataError that says why."""
        if content.keys() != {"seed", *KEPT, "history"}:
            raise DataError("it does not have the entries that this version of armagnn knows")
        integer("seed", content["seed"], setting.seed, setting.seed)
        epochs = integer("epochs", content["epochs"], 1, most_epochs)
        best_epoch = integer("best_epoch", content["best_epoch"], 1, epochs)
        val, test = (_metrics(split, content[split]) for split in ("val", "test"))
        if val.keys() != test.keys():
            raise DataError("val and test do not have the same metrics")
        history = _history(content["history"], epochs, classes="accuracy" in val)
        seconds = real("seconds", content["seconds"], least=0)
        return cls(setting, best_epoch, epochs, val, test, seconds, history, state)


KEPT: Final = ("best_epoch", "epochs", "val", "test", "seconds")
"""What a run folder keeps of an outcome, besides its seed, its history and its weights."""

SHARES: Final = ("accuracy", "micro_f1", "macro_f1", "roc_auc")
"""Metrics that lie between 0 and 1."""


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


def batches(config: Config) -> list[range]:
    """The seeds that are trained together: all of them, or ten of GAT, GraphSAGE and GIN, which take more memory.

    Example:
        >>> from armagnn.training import NodesConfig
        >>> batches(NodesConfig(seeds=30)), batches(NodesConfig(seeds=12, conv="gat"))
        ([range(0, 30)], [range(0, 10), range(10, 12)])
    """
    seeds = config.all_seeds
    size = 10 if config.conv in PEERS else len(seeds)
    return [seeds[first : first + size] for first in range(0, len(seeds), size)]


# -------------------------------------------------------------------------------------------------------------- summary

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


def same_json(found: Any, expected: Any) -> bool:
    """Is it the same JSON, up to the last digits? Other versions of Python sum in another order."""
    if isinstance(expected, dict):
        return (
            isinstance(found, dict)
            and found.keys() == expected.keys()
            and all(same_json(found[name], value) for name, value in expected.items())
        )
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same_json, found, expected))
    if isinstance(expected, float):
        return isinstance(found, float) and math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    return type(found) is type(expected) and bool(found == expected)


def are_baselines(content: dict[str, Any]) -> bool:
    """Has each method mean and deviation of metrics on validation and test?

    Example:
        >>> are_baselines({"mlp": {split: {"accuracy": {"mean": 0.5, "std": 0.1}} for split in ("val", "test")}})
        True
    """
    for each in content.values():
        splits = [each.get(split) for split in ("val", "test")] if isinstance(each, dict) else [None]
        for split in splits:
            if not isinstance(split, dict):
                return False
            if not all(
                isinstance(m, dict) and type(m.get("mean")) is type(m.get("std")) is float for m in split.values()
            ):
                return False
    return True


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
