"""What is worked out once for an operator and kept: it must not depend on the mode of torch that it is made in.

A matrix has its own transpose, which it is made of. All else that follows from an operator, here and in other rooms, is
kept by `once_per_operator`, by one rule: it belongs to the tensors of the operator. Copies around the same tensors (a
deep copy, a pytree, an argument of ``vmap``) share it; what `CSR.to`, `CSR.T` and `CSR.with_value` return finds its
own; pickling leaves it behind; it goes when the tensors go.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from armagnn.torch_private import is_wrapped, learned, recording

if TYPE_CHECKING:
    from armagnn.operators.csr import CSR

Operator = TypeVar("Operator", bound="CSR")
Rest = ParamSpec("Rest")
T = TypeVar("T")


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


def may_be_kept(tensor: Tensor) -> bool:
    """Return whether a tensor may outlive the call that made it.

    A learned value belongs to one backward pass; a fake or wrapped tensor must not outlive its mode; and what a CUDA
    graph records has no values before it is replayed.
    """
    return not (
        recording()
        or learned(tensor)
        or is_wrapped(tensor)
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


def once_per_operator(
    function: Callable[Concatenate[Operator, Rest], T],
) -> Callable[Concatenate[Operator, Rest], T]:
    """Keep what a function returns for an operator (and further arguments), weakly: it goes when the operator goes.

    The key is the tensor of values, which outlives the copies that a pytree makes of the operator; the pattern must be
    the same object too. An operator is kept only where it may be (see `may_be_kept`).
    """
    kept: Any = WeakTensorKeyDictionary()

    @functools.wraps(function)
    def wrapper(op: Operator, /, *args: Rest.args, **kwargs: Rest.kwargs) -> T:
        found: tuple[Tensor, Tensor, dict[Any, T]] | None = kept.get(op.value)
        if found is None or found[0] is not op.rowptr or found[1] is not op.col:
            found = op.rowptr, op.col, {}
        results = found[2]
        if args not in results:
            with normal_mode():
                made = function(op, *args, **kwargs)
            value = getattr(made, "value", None)
            if isinstance(value, Tensor) and (learned(op.value) or not may_be_kept(value)):
                return made  # also where gradients are off for now
            results[args] = made
            kept[op.value] = found
        return results[args]

    return wrapper
