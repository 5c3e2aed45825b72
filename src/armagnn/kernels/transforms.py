"""Derivatives of our own Functions under the transforms of torch: batches of gradients, forwards, or refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

import torch
from torch import Tensor

from armagnn.errors import UnsupportedError
from armagnn.torch_private import batched, forward_mode_enabled, is_gradient_batch, transforms_active, unbatched


def as_they_are(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which products have the type of their factors, whatever autocast says."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


def forwards(jvp: Callable[..., Any]) -> Callable[..., Any]:
    """Let the derivative forwards of a Function be differentiated forwards again, and take batches of tangents.

    torch switches forward mode off in there: the tangents of an outer level would be zero without a word.
    """
    nested = gradients_by_vmap(jvp)

    @functools.wraps(jvp)
    def enabled(ctx: Any, *tangents: Any) -> Any:
        with forward_mode_enabled():
            return nested(ctx, *tangents)

    return enabled


def refuse_transforms(what: str) -> None:
    """Raise under a transform of ``torch.func``: what stops where values say so cannot be transformed."""
    if transforms_active():
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
    """A Function that is a backward pass. It refuses a gradient, which would be left out without a word otherwise."""

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
        which = [is_gradient_batch(gradient) for gradient in grads]
        if not any(which):
            return backward(ctx, *grads)
        plain = [unbatched(gradient) if batch else gradient for gradient, batch in zip(grads, which, strict=True)]
        again = [None if found is None else batched(found) for found in over(ctx, plain, which)]
        return again[0] if len(again) == 1 else tuple(again)

    return either


def _listed(out: Any) -> tuple[Tensor | None, ...]:
    return out if isinstance(out, tuple) else (out,)
