"""Non-linearities: what a layer may be given, and which of them the kernels apply themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from armagnn.errors import ShapeError

Activation = Callable[[Tensor], Tensor]

MODULES: Final[dict[str, type[nn.Module]]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "celu": nn.CELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "hardswish": nn.Hardswish,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "softsign": nn.Softsign,
}
"""The activations that go by a name, with torch's default parameters."""

_NAMES: Final[dict[type, str]] = {module: name for name, module in MODULES.items()}

_FUNCTIONS: Final = [(getattr(place, name, None), name) for name in MODULES for place in (torch, F)]
"""Functions of torch that are one of these activations; None where a place has none of that name."""


FUSED: Final = {"none": 0.0, "relu": 0.0, "leaky_relu": 0.01, "elu": 1.0, "tanh": 0.0, "sigmoid": 0.0}
"""The activations that the kernels apply themselves, with their one parameter: those whose derivative follows from
their value, so that the input need not be kept."""


def name_of(act: str | Activation) -> str | None:
    """Return the name of an activation, given as a name, a module or a function of torch; None of another.

    Example:
        >>> name_of(nn.ELU(0.5)), name_of(torch.tanh), name_of(torch.sin)
        ('elu', 'tanh', None)
    """
    if isinstance(act, str):
        return act
    return _NAMES.get(type(act)) or next((name for function, name in _FUNCTIONS if function is act), None)


def module(act: str | Activation | None) -> Activation | None:
    """Return the activation as something to call, None for the linear one."""
    return MODULES[act]() if isinstance(act, str) else act


def apply(act: str | Activation | None, x: Tensor) -> Tensor:
    """Return ``act(x)``."""
    if act is None:
        return x
    if not isinstance(act, str):
        y = act(x)
        if not isinstance(y, Tensor) or y.shape != x.shape:
            found = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
            raise ShapeError(f"act must return a tensor of the shape it is given, {tuple(x.shape)}, got {found}.")
        return y
    function = getattr(torch, act, None) or getattr(F, act)  # torch.relu, torch.tanh; F.elu, F.softplus, ...
    out: Tensor = function(x)
    return out


def applied(name: str, slope: float, z: Tensor) -> Tensor:
    """Apply an activation that the kernels know (see `FUSED`), where no kernel does it in passing."""
    if name in ("leaky_relu", "elu"):
        out: Tensor = getattr(F, name)(z, slope)
        return out
    return z if name == "none" else apply(name, z)


def of_stacks(act: Activation, z: Tensor, leading: Sequence[int], nodes: int) -> Tensor:
    """Return ``act`` of the states of K stacks, shape (N * batch, K, F); the callable sees them as (..., K, N, F).

    So a function that looks at several entries (a softmax over the features) sees what it sees in PyTorch Geometric's
    layer, and counted from the last axis it never mixes signals.

    Args:
        act: the callable.
        z: the states, node-major.
        leading: the leading axes of the signals, whose product is the batch.
        nodes: N.
    """
    seen = z.reshape(nodes, *leading, *z.shape[1:]).movedim(0, -2)
    return apply(act, seen).movedim(-2, 0).reshape(z.shape)
