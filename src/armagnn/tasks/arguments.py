"""What tasks ask of what annotations do not tell: what a function predicts, a target, a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from armagnn import checks
from armagnn.errors import ParameterError, shown


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
