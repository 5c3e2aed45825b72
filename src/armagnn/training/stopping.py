"""Early stopping on validation: when each trial of a batch stops, which weights are kept, and whether a state fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.checks import choice, integer, real
from armagnn.torch_private import copy_all
from armagnn.training.shared_options import MOST_PATIENCE

RULES: Final = ("accuracy", "loss")
"""The rules that a training may stop by."""

ALL_RULES: Final = (*RULES, "first", "last")
"""All rules: the results of any of them may be reported in addition; see `Keeper`."""


def check_stopping(stop_on: str, patience: int) -> None:
    """Refuse a rule that does not exist or a patience that never waits."""
    choice("stopping rule", stop_on, RULES)
    integer("patience", patience, 1, MOST_PATIENCE)


def score(stop_on: str, loss: float, accuracy: float) -> tuple[float, ...]:
    """How good a state is on validation: greater is better, compared from left to right.

    On "loss" only the loss counts. Accuracy is a count of few nodes and ties often; on "accuracy" the lower
    loss decides a tie.

    Example:
        >>> score("accuracy", loss=0.9, accuracy=0.8) > score("accuracy", loss=1.0, accuracy=0.8)
        True
    """
    return (-loss,) if stop_on == "loss" else (accuracy, -loss)


class Keeper:
    """One stopping rule, for every trial of a batch: its best score, where that was, and the weights to keep.

    On "loss" a lower validation loss is better; on "accuracy" a higher accuracy, and of equal ones the lower loss; on
    "first" a higher accuracy only, so that of equal ones the first stays. A trial stops `patience` epochs after its
    best one, whose weights are kept. "last" stops as "loss" does, and keeps the weights that the trial stops with.
    All of it is tensor work that waits for no device.

    Args:
        rule: "loss", "accuracy", "first" or "last".
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
        none = torch.zeros_like(loss)
        first, tie = {"accuracy": (accuracy, -loss), "first": (accuracy, none)}.get(self.rule, (-loss, none))
        before, tied = self.score.unbind(1)
        better = (first > before) | ((first == before) & (tie > tied))
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
            for index in wanted.nonzero().flatten().tolist():
                for name, param in params.items():
                    self.kept[name].select(self.axes[name], index).copy_(param.detach().select(self.axes[name], index))
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
