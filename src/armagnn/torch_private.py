"""All that this package asks of private parts of torch, in one file: a new version of torch is checked here.

And what our own Functions need of them: derivatives under the transforms of torch, batched, forwards, or refused.

The first three names are torch's own functions, so that asking costs nothing more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NoReturn, TypeVar

import torch
from torch import Tensor, nn
from torch._C import _functorch
from torch._functorch.autograd_function import VmapInfo
from torch._functorch.pyfunctorch import VmapInterpreter, retrieve_current_functorch_interpreter
from torch._functorch.vmap import lazy_load_decompositions, vmap_increment_nesting  # type: ignore[attr-defined]
from torch.autograd import forward_ad
from torch.utils import _pytree

from armagnn.errors import UnsupportedError

T = TypeVar("T")

transforms_active: Final = torch._C._are_functorch_transforms_active
"""Returns whether a transform of ``torch.func`` is at work: vmap, grad, jvp, ..."""

is_wrapped: Final = _functorch.is_functorch_wrapped_tensor
"""Returns whether a tensor belongs to such a transform, and must not outlive it."""

graph_is_kept: Final = torch._C._autograd._get_current_graph_task_keep_graph
"""Returns whether the backward pass that runs may run again: ``retain_graph=True``."""

# ------------------------------------------------------------------------------------------- modes: recording, autocast


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


def normal_mode() -> AbstractContextManager[Any]:
    """Leave ``torch.inference_mode`` for what is kept: a tensor made there could not serve training later."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return nullcontext()
    return torch.inference_mode(False)


def lasting() -> bool:
    """Return whether tensors made now last: those of an export or of a mode of torch are fake, and must not be kept.

    Code that torch.compile traces may keep them: the compiler then keeps the real ones.
    """
    return torch.compiler.is_dynamo_compiling() or not recording()


def as_they_are(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which products have the type of their factors, whatever autocast says."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


# ----------------------------------------------------------------------------------------------------------------- vmap


def batching() -> VmapInterpreter | None:
    """Return the innermost transform, if there is one and it is vmap."""
    if transforms_active():
        interpreter = retrieve_current_functorch_interpreter()
        if isinstance(interpreter, VmapInterpreter):
            return interpreter
    return None


def only_vmap() -> bool:
    """Return whether one vmap is at work, and no other transform."""
    stack = _functorch.get_interpreter_stack()
    return stack is not None and len(stack) == 1 and stack[0].key() == _functorch.TransformType.Vmap


def in_vmap_rule() -> bool:
    """Return whether torch runs an operator's rule for vmap, as when an exported program runs under vmap."""
    return torch._C._dispatch_tls_is_dispatch_key_included(torch._C.DispatchKey.FuncTorchVmapMode)


def is_batched(tensor: Any) -> bool:
    """Return whether a tensor stands for those of all trials of a vmap."""
    return isinstance(tensor, Tensor) and bool(_functorch.is_batchedtensor(tensor))


def is_batched_by(interpreter: VmapInterpreter, tensor: Any) -> bool:
    """Return whether it is the trials of this vmap that a tensor stands for."""
    return is_batched(tensor) and _functorch.maybe_get_level(tensor) == interpreter.level()


def over_trials(
    function: Callable[..., Any], count: int, axes: Mapping[str, int], params: Mapping[str, Tensor], *others: Tensor
) -> Any:
    """Return ``vmap(function)(params, *others)``, a tensor or a dict of tensors with the trials first.

    It does what torch's does without a search of all collections for tensors, which takes five times as long.

    Args:
        function: of the parameters and the others of one trial.
        count: of the trials.
        axes: where the trials stand in each parameter.
        params: the parameters of all trials.
        *others: tensors with the trials first.

    Example:
        >>> over_trials(lambda params, x: params["a"] * x, 2, {"a": 1}, {"a": torch.ones(3, 2)}, torch.ones(2)).shape
        torch.Size([2, 3])
    """
    lazy_load_decompositions()  # rules for vmap that torch makes of others: once
    with vmap_increment_nesting(count, "error") as level:
        own = {name: _functorch._add_batch_dim(param, axes[name], level) for name, param in params.items()}
        found = function(own, *(_functorch._add_batch_dim(each, 0, level) for each in others))
        if isinstance(found, dict):
            return {name: _functorch._remove_batch_dim(each, level, count, 0) for name, each in found.items()}
        return _functorch._remove_batch_dim(found, level, count, 0)


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


# ---------------------------------------------------------------------------------------------------------- derivatives


def forward_mode() -> bool:
    """Return whether derivatives are carried forwards, by ``torch.func.jvp`` or ``torch.autograd.forward_ad``."""
    return forward_ad._current_level >= 0 and not torch.compiler.is_compiling()


def forward_mode_enabled() -> AbstractContextManager[Any]:
    """Return a context in which derivatives are carried forwards, also where torch has switched that off."""
    return forward_ad._set_fwd_grad_enabled(True)


def learned(value: Tensor) -> bool:
    """Return whether derivatives by the values of a matrix are wanted, backwards or forwards."""
    return value.requires_grad or (
        forward_mode() and forward_ad.unpack_dual(_innermost(value)).tangent is not None  # type: ignore[no-untyped-call]
    )


def needs_gradient(tensor: Tensor) -> bool:
    """Return whether derivatives by a tensor are wanted, or, under vmap, by those of the trials it stands for."""
    return learned(_innermost(tensor))  # a batched tensor itself always says that it needs none


def _innermost(tensor: Tensor) -> Tensor:
    """Return the tensor of all trials that a batched one stands for."""
    while is_batched(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


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


# ------------------------------------------------------------------------------ batches of gradients (is_grads_batched)

_LEVEL: Final = 1
"""Of the vmap behind ``is_grads_batched=True``, which is older than that of ``torch.func`` and is never nested."""


def is_gradient_batch(gradient: Any) -> bool:
    """Return whether a gradient stands for those of a batch."""
    return isinstance(gradient, Tensor) and bool(_functorch.is_legacy_batchedtensor(gradient))


def unbatched(gradient: Tensor) -> Tensor:
    """Return the gradients of a batch as one tensor, the batch first."""
    return torch._remove_batch_dim(gradient, _LEVEL, 0, 0)


def batched(gradients: Tensor) -> Tensor:
    """Undo `unbatched`; contiguous, for where torch copies strides, it wants the batch in front."""
    return torch._add_batch_dim(gradients.contiguous(), 0, _LEVEL)


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


# ------------------------------------------------------------------------------------------------ tensors of a module


class Slots:
    """The places of a module's parameters and buffers, found once, for calls with other tensors in them.

    It gives what ``torch.func.functional_call`` gives, which searches the module at every call.

    Example:
        >>> linear = torch.nn.Linear(2, 1)
        >>> Slots(linear).call({"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, torch.ones(3, 2)).sum().item()
        6.0
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        names = {id(each): name for name, each in (*module.named_buffers(), *module.named_parameters())}
        self._places: list[tuple[dict[str, Any], str, str]] = [
            (owner, key, names[id(each)])  # a shared tensor goes by its first name
            for part in module.modules()
            for owner in (part._parameters, part._buffers)
            for key, each in owner.items()
            if each is not None
        ]

    def call(self, tensors: Mapping[str, Tensor], *inputs: Any) -> Any:
        """Return what the module gives where tensors have these values, by their names."""
        places = [(owner, key, tensors[name]) for owner, key, name in self._places if name in tensors]
        before = [owner[key] for owner, key, _ in places]
        try:
            for owner, key, tensor in places:
                owner[key] = tensor
            return self.module(*inputs)
        finally:
            for (owner, key, _), tensor in zip(places, before, strict=True):
                owner[key] = tensor


# --------------------------------------------------------------------------------------------- collections of tensors


def copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    """Copy each tensor of one list to its partner in another, in one call."""
    torch._foreach_copy_(targets, sources)


def register_tree(
    cls: type[T],
    names: Sequence[str],
    flatten: Callable[[T], tuple[list[Any], Any]],
    unflatten: Callable[[Iterable[Any], Any], T],
) -> None:
    """Let torch see the tensors of a class, its leaves, with the names of the attributes that hold them.

    Args:
        cls: the class.
        names: of the leaves.
        flatten: returns the leaves of an object, and what else it is made of.
        unflatten: makes an object of both.
    """

    def flatten_with_keys(value: T) -> tuple[list[tuple[Any, Any]], Any]:
        leaves, context = flatten(value)
        return [(_pytree.GetAttrKey(name), leaf) for name, leaf in zip(names, leaves, strict=True)], context

    _pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"armagnn.{cls.__name__}",
        flatten_with_keys_fn=flatten_with_keys,
    )
    torch.serialization.add_safe_globals([cls])  # an exported program keeps its example inputs, and must load again
