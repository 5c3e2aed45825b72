"""Looking through the transforms of torch: which is at work, and the rules of vmap applied without a detour."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NoReturn

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.autograd_function import VmapInfo
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_current_functorch_interpreter
from torch.autograd import forward_ad

from armagnn.errors import UnsupportedError


def traced() -> bool:
    """Return whether what runs is recorded, to run again on other values: compiled, exported or by ``torch.jit.trace``.

    No value may then decide what is done.
    """
    return torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None


def recording() -> bool:
    """Return whether what runs is `traced` or seen by a mode of torch: fake tensors, counters.

    What is called must then be registered operators, each of which the recording keeps as one node.
    """
    return (
        torch.compiler.is_compiling()
        or bool(torch._C._len_torch_dispatch_stack())
        or torch._C._get_tracing_state() is not None
    )


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
    return forward_ad._current_level >= 0 and not torch.compiler.is_compiling()


def has_tangent(tensor: Tensor) -> bool:
    """Return whether a derivative is carried forwards with a tensor, or, under vmap, with those it stands for."""
    if not forward_mode():
        return False
    while is_batched(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call]


def learned(value: Tensor) -> bool:
    """Return whether derivatives by the values of a matrix are wanted, backwards or forwards."""
    return value.requires_grad or has_tangent(value)


def needs_gradient(tensor: Tensor) -> bool:
    """Return whether derivatives by a tensor are wanted, or, under vmap, by those of the trials it stands for."""
    while is_batched(tensor):  # which itself always says that it needs none
        tensor = _functorch.get_unwrapped(tensor)
    return learned(tensor)


def as_they_are(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which products have the type of their factors, whatever autocast says."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def forwards(jvp: Callable[..., Any]) -> Callable[..., Any]:
    """Let the derivative forwards of a Function be differentiated forwards again, and take batches of tangents.

    torch switches forward mode off in there: the tangents of an outer level would be zero without a word.
    """
    batched = gradients_by_vmap(jvp)

    @functools.wraps(jvp)
    def nested(ctx: Any, *tangents: Any) -> Any:
        with forward_ad._set_fwd_grad_enabled(True):
            return batched(ctx, *tangents)

    return nested


def primals(ctx: Any) -> tuple[Any, ...]:
    """Return what a Function has saved for its derivative forwards, without the tangents of this level."""
    return tuple(None if t is None else forward_ad.unpack_dual(t).primal for t in ctx.saved_tensors)  # type: ignore[no-untyped-call]


def materialised(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with memory behind all tensors: torch has tangents that are zero without having any."""
    return tuple(
        torch.zeros(arg.shape, dtype=arg.dtype, device=arg.device)
        if isinstance(arg, Tensor) and arg._is_zerotensor()
        else arg
        for arg in args
    )


def refuse_transforms(what: str) -> None:
    """Raise under a transform of ``torch.func``: what stops where values say so cannot be transformed."""
    if torch._C._are_functorch_transforms_active():
        raise UnsupportedError(
            f"{what} does not run under torch.func transforms (vmap, grad, jvp, ...), because how many steps it takes "
            "depends on the values: use a loop, or leading axes of x, and torch.autograd."
        )


class ReverseOnly(torch.autograd.Function):
    """A Function without a derivative forwards, which says what to use instead."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> NoReturn:
        """Refuse."""
        raise UnsupportedError(
            "GAT, GraphSAGE and what is solved by iterations have no derivatives forwards (torch.func.jvp, jacfwd, "
            "forward_ad): take them backwards, by torch.func.vjp, jacrev or torch.autograd.grad."
        )


class BackwardPass(ReverseOnly):
    """A Function that is a backward pass, whose own gradient is refused: without this it would be lost, not missed."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Refuse."""
        raise UnsupportedError(
            "GAT and GraphSAGE have first derivatives only: take another method for gradients of gradients."
        )


# ---------------------------------------------------------------------------------------------------- batched gradients

_LEVEL: Final = 1
"""Of the vmap behind ``is_grads_batched=True``, which is older than that of ``torch.func`` and is never nested."""

Backward = Callable[..., Any]


def gradients_by_vmap(backward: Backward) -> Backward:
    """Let a backward pass take the batches of gradients of ``is_grads_batched=True``, by a vmap of ``torch.func``."""

    def over(ctx: Any, grads: list[Any], batched: list[bool]) -> list[Tensor | None]:
        given: list[bool] = []

        def single(*some: Any) -> tuple[Tensor, ...]:
            out = _listed(backward(ctx, *some))
            given[:] = [gradient is not None for gradient in out]
            return tuple(gradient for gradient in out if gradient is not None)

        found = iter(torch.func.vmap(single, tuple(0 if batch else None for batch in batched))(*grads))
        return [next(found) if there else None for there in given]

    return _batched(backward, over)


def gradients_by_loop(backward: Backward) -> Backward:
    """Let a backward pass that runs on whole tensors take those batches gradient by gradient.

    ``ctx.batched`` tells it that it is not the last.
    """

    def over(ctx: Any, grads: list[Any], batched: list[bool]) -> list[Tensor | None]:
        size = grads[batched.index(True)].shape[0]
        ctx.batched = True
        found = []
        for k in range(size):
            found.append(_listed(backward(ctx, *(g[k] if b else g for g, b in zip(grads, batched, strict=True)))))
        return [None if parts[0] is None else torch.stack(parts) for parts in zip(*found, strict=True)]

    return _batched(backward, over)


def _batched(backward: Backward, over: Callable[[Any, list[Any], list[bool]], list[Tensor | None]]) -> Backward:
    @functools.wraps(backward)
    def either(ctx: Any, *grads: Any) -> Any:
        batched = [isinstance(g, Tensor) and bool(_functorch.is_legacy_batchedtensor(g)) for g in grads]
        if not any(batched):
            return backward(ctx, *grads)
        plain = [torch._remove_batch_dim(g, _LEVEL, 0, 0) if b else g for g, b in zip(grads, batched, strict=True)]
        found = over(ctx, plain, batched)
        # contiguous: where torch copies strides, it wants the batch in front
        again = [None if batch is None else torch._add_batch_dim(batch.contiguous(), 0, _LEVEL) for batch in found]
        return again[0] if len(again) == 1 else tuple(again)

    return either


def _listed(out: Any) -> tuple[Tensor | None, ...]:
    return out if isinstance(out, tuple) else (out,)
