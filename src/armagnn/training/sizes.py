"""How large a network and its training are, known before any memory is taken."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeVar

import torch
from torch import nn

from armagnn.errors import ParameterError
from armagnn.training.config import Config
from armagnn.training.outcome import batches
from armagnn.training.trials import SEEDS_BYTES

COPIES: Final = 5
"""Of the parameters of a trial: themselves, their gradient, Adam's two means, and the best ones so far."""

Net = TypeVar("Net", bound=nn.Module)


def outline(build: Callable[[], Net]) -> Net:
    """The network that `build` makes, with the shapes of its parameters but no memory behind them.

    Example:
        >>> outline(lambda: nn.Linear(10**6, 10**6)).weight.shape
        torch.Size([1000000, 1000000])
    """
    with torch.device("meta"):
        return build()


def check_memory(net: nn.Module, config: Config, nodes: int) -> None:
    """Refuse a training that must take more memory than there is.

    Args:
        net: the network, or its outline.
        config: of the training.
        nodes: that the network sees at a time.
    """
    width = getattr(config, "hidden", 1) * (getattr(config, "stacks", 1) if config.conv == "arma" else 1)
    numbers = COPIES * sum(param.numel() for param in net.parameters()) + nodes * width
    trial = 4 * numbers + 8 * 3 * config.epochs + SEEDS_BYTES
    needed, there = trial * len(batches(config)[0]), _memory(config.torch_device())
    if needed > there:
        raise ParameterError(
            f"epochs is {config.epochs}, seeds {config.seeds}: this training takes at least {needed / 2**30:.0f} GiB "
            f"of memory, and there are {there / 2**30:.0f}. Choose fewer, or fewer units (hidden), stacks and layers."
        )


def _memory(device: torch.device) -> int:
    """Bytes of the device, or of the machine; where that cannot be asked, more than any has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2**63
