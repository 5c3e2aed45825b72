"""Looking through the transforms of ``torch.func``: which vmap is at work, and its rules applied without a detour."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.autograd_function import VmapInfo
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_current_functorch_interpreter
from torch.autograd import forward_ad


def traced() -> bool:
    """Return whether what runs is recorded, to run again on other values: compiled, exported or by ``torch.jit.trace``.

    No value may then decide what is done.
    """
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None


def recording() -> bool:
    """Return whether what runs is `traced` or seen by a mode of torch: fake tensors, counters.

    What is called must then be registered operators, each of which the recording keeps as one node.
    """
    return traced() or bool(torch._C._len_torch_dispatch_stack())


def batching() -> VmapInterpreter | None:
    """Return the innermost transform, if there is one and it is vmap."""
    if torch._C._are_functorch_transforms_active():
        interpreter = retrieve_current_functorch_interpreter()
        if isinstance(interpreter, VmapInterpreter):
            return interpreter
    return None


def apply_rule(interpreter: VmapInterpreter, rule: Callable[..., tuple[Tensor, int]], args: tuple[Any, ...]) -> Tensor:
    """Apply a rule for vmap to arguments of which at least one differs along its axis.

    It is what torch does with the rule of an autograd Function, in a tenth of the time: that goes through a dispatcher
    written in Python, and searches all arguments for tensors within tensors.
    """
    level = interpreter.level()
    unwrapped = [_functorch._unwrap_batched(a, level) if isinstance(a, Tensor) else (a, None) for a in args]
    info = VmapInfo(interpreter.batch_size(), interpreter.randomness())
    with interpreter.lower():
        out, dim = rule(info, tuple(dim for _, dim in unwrapped), *(arg for arg, _ in unwrapped))
    return _functorch._add_batch_dim(out, dim, level)


def is_batched(tensor: Any) -> bool:
    """Return whether a tensor stands for those of all trials of a vmap."""
    return isinstance(tensor, Tensor) and bool(_functorch.is_batchedtensor(tensor))


def forward_mode() -> bool:
    """Return whether derivatives are carried forwards, by ``torch.func.jvp`` or ``torch.autograd.forward_ad``."""
    return forward_ad._current_level >= 0


def has_tangent(tensor: Tensor) -> bool:
    """Return whether a derivative is carried forwards with a tensor, or, under vmap, with those it stands for."""
    while is_batched(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return forward_mode() and forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def needs_gradient(tensor: Tensor) -> bool:
    """Return whether derivatives by a tensor are wanted, or, under vmap, by those of the trials it stands for."""
    while is_batched(tensor):  # which itself always says that it needs none
        tensor = _functorch.get_unwrapped(tensor)
    return tensor.requires_grad or has_tangent(tensor)


def as_they_are(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which products have the type of their factors, whatever autocast says."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


class BackwardPass(torch.autograd.Function):
    """A Function that is a backward pass, whose own gradient is refused: without this it would be lost, not missed."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse."""
        raise NotImplementedError(
            "GAT and GraphSAGE have first derivatives only: take another method for gradients of gradients."
        )
