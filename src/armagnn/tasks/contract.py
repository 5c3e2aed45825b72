"""What a task and its network must have to be trained by `Trials`, and what all tasks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import ParameterError, shown
from armagnn.nn import ARMAConv
from armagnn.nn.conv import check_rate
from armagnn.nn.layer_registry import LayerSequence
from armagnn.randomness import seeded

Predict = Callable[..., Tensor]
Room = tuple[int, ...]


class Task(Protocol):
    """What is trained for: batches, a loss, and metrics of the splits, on one device.

    A task may have ``small``, whether steps of one trial are too short to be shared out over threads of a processor.
    An epoch has `steps` steps. ``target`` is the trial's own number of that name, for tasks with several targets.
    """

    @property
    def steps(self) -> int:
        """Steps of an epoch."""

    def start(self, epoch: int) -> None:
        """Get ready for the batches of an epoch, counted from 0."""

    def room(self, step: int) -> Room:
        """The sizes of the batch of a step of this epoch: a recorded step serves all steps of the same sizes."""

    def batch(self, step: Tensor, room: Room) -> Any:
        """The batch of a step of this epoch, (1,) int64 on the device, counted from 0, in a room that it has."""

    def loss(self, predict: Predict, batch: Any, target: Tensor) -> Tensor:
        """The training loss on a batch, without axes."""

    def metrics(self, predict: Predict, split: str, target: Tensor) -> dict[str, Tensor]:
        """The metrics of "val" or "test", each without axes: "loss", of a classification "accuracy", and others."""


class WholeBatch:
    """A task whose batch is all of its training part: an epoch is one step, and no step differs from the others."""

    parts: Mapping[str, Any]
    steps: int = 1

    @checked
    def start(self, epoch: int) -> None:
        """No epoch is different from the others."""

    @checked
    def room(self, step: int) -> Room:
        """No step is, either."""
        return ()

    @checked
    def batch(self, step: Tensor | None = None, room: Room = ()) -> Any:
        """The training part."""
        return self.parts["train"]


class TaskNet(nn.Module):
    """A network that `Trials` can train: its drop rates can be set, to numbers or to tensors (`set_rates`).

    Attributes:
        undecayed: what the names of parameters begin with that L2 does not act on.
    """

    undecayed: tuple[str, ...] = ()

    @checked
    def trial_axis(self, name: str) -> int:
        """Where the trials go among the axes of a parameter, for `Trials`: first, as batched products want it."""
        checks.choice("parameter", name, weights_of(self))
        return 0


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """The numbers that each trial has of its own: the parameters, and what else of the state changes in training.

    The running means of a norm are such: they are no parameters, but are kept with them.
    """
    found: dict[str, Tensor] = dict(network.named_parameters())
    buffers = {name: buffer for name, buffer in network.named_buffers() if buffer.is_floating_point()}
    return found | {name: buffers[name] for name in network.state_dict() if name in buffers} if buffers else found


def drawn(build: Callable[[], nn.Module], seed: int, dtype: torch.dtype) -> nn.Module:
    """Return the network with the weights of a seed, drawn on the CPU: a seed means the same start on every device."""
    with seeded(seed):
        network = build()
    if not isinstance(network, nn.Module) or not (hasattr(network, "set_rates") and hasattr(network, "trial_axis")):
        raise ParameterError(f"build must return a network such as a NodeNet, got {type(network).__name__}.")
    return network.to(dtype)


def set_layer_rates(convs: Iterable[nn.Module], skip: float | Tensor, inside: float | Tensor | None = None) -> None:
    """Set the drop rates of layers: of ARMA's skip connections and, if given, between the layers of a sequence."""
    for rate in (skip, inside):
        if rate is not None:
            check_rate(rate)
    for conv in convs:
        if isinstance(conv, ARMAConv):
            conv.dropout = skip
        elif isinstance(conv, LayerSequence) and inside is not None:
            for layer in list(conv)[1:]:  # the input of the first is dropped by the network
                layer.dropout = inside


def ask(predict: Callable[..., Any], *inputs: Any) -> Tensor:
    """Return what a network, or another function, predicts: numbers in a tensor.

    Example:
        >>> ask(lambda x: None, 3)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: predict must return a tensor, got None.
    """
    found = predict(*inputs)
    if not isinstance(found, Tensor):
        raise ParameterError(f"predict must return a tensor, got {shown(found)}.")
    return found


def of_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a task's loss or metrics of one trial, of which all numbers must be tensors.

    Example:
        >>> of_one(lambda: {"loss": 0.5})()
        Traceback (most recent call last):
        armagnn.errors.ParameterError: loss and metrics of a task must be tensors, got 0.5.
    """

    def checked(*given: Any) -> Any:
        found = function(*given)
        for each in found.values() if isinstance(found, dict) else (found,):
            if not isinstance(each, Tensor):
                raise ParameterError(f"loss and metrics of a task must be tensors, got {shown(each)}.")
        return found

    return checked


def check_step(step: Tensor, steps: int) -> Tensor:
    """Return the number of a step of an epoch, (1,) int64; its value is looked at where nobody waits for it.

    Example:
        >>> check_step(torch.tensor([7]), 5)
        Traceback (most recent call last):
        armagnn.errors.ParameterError: step must be an integer from 0 to 4, got 7.
    """
    if step.dtype not in (torch.int64, torch.int32) or step.shape != (1,):
        raise ParameterError(f"step must be int64 of shape (1,), got {step.dtype} of shape {tuple(step.shape)}.")
    if step.device.type == "cpu":
        checks.integer("step", int(step), 0, steps - 1)
    return step


def check_target(target: Tensor | None) -> None:
    """Raise unless a target is None, the first, or its number in a tensor."""
    whole = target is None or not (target.is_floating_point() or target.is_complex() or target.dtype == torch.bool)
    if not whole or (target is not None and target.numel() != 1):
        raise ParameterError(f"target must be one integer in a tensor, got {shown(target)}.")


def write_plan(plan: Tensor, ids: Tensor, filler: int) -> None:
    """Write ids, in their order, into a plan (steps, batch size), and a filler where they end before it does.

    On a GPU the copy is queued behind the steps that still read the plan, and nothing waits for it.

    Example:
        >>> plan = torch.empty(2, 2, dtype=torch.int64)
        >>> write_plan(plan, torch.tensor([5, 3, 4]), filler=9)
        >>> plan
        tensor([[5, 3],
                [4, 9]])
    """
    whole = torch.full((plan.numel(),), filler, dtype=ids.dtype, pin_memory=plan.is_cuda)
    whole[: len(ids)] = ids
    plan.copy_(whole.view_as(plan), non_blocking=True)
