"""What takes the trials or the signals of a layer one by one on a processor, where `layer_plan` says that it pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from armagnn.kernels import layer_plan
from armagnn.kernels.cpu import layer_of_trials, one_step
from armagnn.kernels.layer_plan import Tensors

if TYPE_CHECKING:
    from armagnn.kernels.backends import Members


def members(layer: Tensors) -> Members | None:
    """Return what takes the trials of a layer one by one; None if they go side by side."""
    if layer_plan.one_by_one(layer):
        return one_step
    return layer_of_trials if layer_plan.stack_by_stack(layer) else None


takes_signals = layer_plan.signal_by_signal
