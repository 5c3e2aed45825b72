"""What tells the trials of a batch apart, when each of them stops, what it gave, and what all of them gave in short."""

from __future__ import annotations

import io
import math
import statistics
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice, integer, probability, real
from armagnn.errors import DataError, ParameterError, shown
from armagnn.nn.layer_registry import PEERS
from armagnn.torch_private import copy_all
from armagnn.training.shared_options import MOST_PATIENCE

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


# ------------------------------------------------------------------------------------------------------- early stopping

RULES: Final = ("accuracy", "loss", "roc_auc", "last")
"""The rules that a training may stop by."""

ALL_RULES: Final = (*RULES, "first", "leak")
"""Rules whose results may be reported in addition; see `Keeper`."""


def check_stopping(stop_on: str, patience: int) -> None:
    """Refuse a rule that does not exist or a patience that never waits."""
    choice("stopping rule", stop_on, RULES)
    integer("patience", patience, 1, MOST_PATIENCE)


def score(stop_on: str, loss: float, accuracy: float) -> tuple[float, ...]:
    """How good a state is on validation: greater is better, compared from left to right.

    On "loss" only the loss counts. Accuracy, or "roc_auc" in its place, ties often: the lower loss decides.

    Example:
        >>> score("accuracy", loss=0.9, accuracy=0.8) > score("accuracy", loss=1.0, accuracy=0.8)
        True
    """
    return (-loss,) if stop_on == "loss" else (accuracy, -loss)


class Keeper:
    """One stopping rule, for every trial of a batch: its best score, where that was, and the weights to keep.

    On "loss" a lower validation loss is better; on "accuracy" a higher accuracy, and of equal ones the lower loss; on
    "roc_auc" likewise; on "first" a higher accuracy only, so that of equal ones the first stays. A trial stops
    `patience` epochs after its best one, whose weights are kept. "last" stops as "loss" does, and keeps the last ones.
    "leak" is "accuracy" of the test data: nothing to report by. All of it is tensor work that waits for no device.

    Args:
        rule: "loss", "accuracy", "roc_auc", "first" or "last".
        patience: epochs without improvement after which a trial stops.
        params: the parameters, trials along `axes`.
        axes: the axis of the trials of each parameter.

    Example:
        >>> weights = {"w": torch.zeros(2, 1)}
        >>> keeper = Keeper("loss", 1, weights, {"w": 0}, 2)
        >>> for epoch, loss in enumerate([[2.0, 2.0], [1.0, 3.0]], start=1):
        ...     weights["w"] += 1
        ...     keeper.judge(torch.tensor(epoch), torch.tensor(loss).double(), torch.zeros(2).double(), weights)
        >>> keeper.kept["w"].flatten().tolist(), keeper.best_epoch.tolist(), keeper.active.tolist()
        ([2.0, 1.0], [2, 1], [True, False])
    """

    def __init__(
        self, rule: str, patience: int, params: Mapping[str, Tensor], axes: dict[str, int], trials: int
    ) -> None:
        choice("stopping rule", rule, ALL_RULES)
        self.rule, self.patience, self.axes = rule, patience, axes
        device = next(iter(params.values())).device
        self.kept = {name: param.detach().clone() for name, param in params.items()}
        self.score = torch.full((trials, 2), -torch.inf, dtype=torch.float64, device=device)
        self.best_epoch = torch.zeros(trials, dtype=torch.int64, device=device)
        self.active = torch.ones(trials, dtype=torch.bool, device=device)

    def judge(self, epoch: Tensor, loss: Tensor, accuracy: Tensor, params: Mapping[str, Tensor]) -> None:
        """Take the validation results (R) of all trials after an epoch (counted from 1) with these parameters."""
        none, both = torch.zeros_like(loss), (accuracy, -loss)  # accuracy, or what the rule has in its place
        scores = dict.fromkeys(("accuracy", "roc_auc", "leak"), both) | {"first": (accuracy, none)}
        first, tie = scores.get(self.rule, (-loss, none))
        before, tied = self.score.unbind(1)
        better = first > before if tie is none else (first > before) | ((first == before) & (tie > tied))
        better &= self.active & loss.isfinite()  # NaN has an argmax, and so an accuracy
        self.score.copy_(torch.where(better[:, None], torch.stack([first, tie], 1), self.score))
        self._remember(self.active & loss.isfinite() if self.rule == "last" else better, params)
        self.best_epoch.copy_(torch.where(better, epoch, self.best_epoch))
        self.active &= epoch - self.best_epoch < self.patience

    def _remember(self, wanted: Tensor, params: Mapping[str, Tensor]) -> None:
        """Keep the parameters of the trials that are wanted."""
        if wanted.device.type == "cpu":  # where looking costs nothing, copying all of them would
            if bool(wanted.all()):
                copy_all(list(self.kept.values()), [param.detach() for param in params.values()])
                return
            chosen = wanted.nonzero().flatten()
            for name, axis in self.axes.items() if len(chosen) else ():
                self.kept[name].index_copy_(axis, chosen, params[name].detach().index_select(axis, chosen))
            return
        for name, param in params.items():
            torch.where(along(wanted, param, self.axes[name]), param.detach(), self.kept[name], out=self.kept[name])

    def select(self, chosen: Tensor) -> None:
        """Go on with some of the trials only."""
        self.kept = {name: value.index_select(self.axes[name], chosen) for name, value in self.kept.items()}
        for name in ("score", "best_epoch", "active"):
            setattr(self, name, getattr(self, name).index_select(0, chosen))

    def state(self) -> dict[str, Any]:
        """All that it goes on from."""
        return {"kept": self.kept, "score": self.score, "best_epoch": self.best_epoch, "active": self.active}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        device = self.score.device
        self.kept = {name: value.to(device).clone() for name, value in state["kept"].items()}
        for name in ("score", "best_epoch", "active"):
            setattr(self, name, state[name].to(device).clone())


def along(values: Tensor, param: Tensor, axis: int) -> Tensor:
    """Return numbers of the trials, shape (R), so that they broadcast with a parameter that has the trials at `axis`.

    Example:
        >>> along(torch.zeros(3), torch.zeros(5, 3, 2), 1).shape
        torch.Size([1, 3, 1])
    """
    shape = [1] * param.dim()
    shape[axis] = -1
    return values.view(shape)


def check_state(state: Mapping[str, Any], trials: int, like: Any) -> None:
    """Raise unless a state is one of `Trials.state`, of `trials` trials with the network and the rules of `like`."""
    done = integer("done", state["done"], 0, like.epochs)
    spent = [real("spent", seconds, least=0) for seconds in state["spent"]]
    if not 0 < trials == len(spent):
        raise ValueError(f"{len(spent)} times for {trials} trials")
    if state["keepers"].keys() != {keeper.rule for keeper in like.keepers}:
        raise ValueError("other stopping rules")
    shapes = {name: list(param.shape) for name, param in like.params.items()}
    for name, shape in shapes.items():
        shape[like.axes[name]] = trials
    expected = [(state[part], shapes) for part in ("params", "mean", "square")]
    own = {"score": [trials, 2], "best_epoch": [trials], "active": [trials]}
    for keeper in state["keepers"].values():
        expected += [(keeper["kept"], shapes), ({name: keeper[name] for name in own}, own)]
    own = {"history": [done, 3, trials], "active": [trials]}
    expected.append(({name: state[name] for name in own}, own))
    tensors = {**like.params, **vars(like.keepers[0]), "history": like.history}
    for found, wanted in expected:
        if found.keys() != wanted.keys():
            raise ValueError("parameters of another network")
        for name, shape in wanted.items():
            if list(found[name].shape) != shape or found[name].dtype != tensors[name].dtype:
                raise ValueError(f"{name} has shape {tuple(found[name].shape)} and type {found[name].dtype}")


# -------------------------------------------------------------------------------------------------------------- summary

REPORTED = ("seed", "best_epoch", "epochs", "val", "test")


def best_trial(trials: Sequence[Outcome], stop_on: str) -> Outcome:
    """The trial whose restored state is best on validation, by the rule that stopped it; first of equals."""
    metric = stop_on if stop_on == "roc_auc" else "accuracy"
    return max(trials, key=lambda trial: score(stop_on, trial.val["loss"], trial.val.get(metric, math.nan)))


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
