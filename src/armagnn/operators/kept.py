"""What is worked out once and kept: of an operator, and of a tensor that came from outside.

A matrix has its own transpose, which it is made of. All else that follows from an operator, here and in other rooms, is
kept by `once_per_operator`, by one rule: it belongs to the tensors of the operator. Copies around the same tensors (a
deep copy, a pytree, an argument of ``vmap``) share it; what `CSR.to`, `CSR.T` and `CSR.with_value` return finds its
own; pickling leaves it behind; it goes when the tensors go. What is kept must not depend on the mode of torch that it
is made in.

``conv(x, edge_index)`` needs an operator at every call, too. It is made at the first one (`remembered`), and found
again as long as ``edge_index`` is the same object with the same numbers. It goes when the tensor goes. torch counts the
changes to a tensor in place, and that count is compared. It cannot count where others write to the same memory
(numpy's, a file's, that of other processes), and does not for inference tensors: such numbers are compared with a copy,
which takes a tenth of the time that the operator takes. Nothing is kept of a tensor that needs a gradient, nor under
compilers, transforms and modes of torch. As for torch's own gradients, changes through ``tensor.data`` are not seen.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from armagnn.torch_private import (
    is_wrapped,
    learned,
    needs_gradient,
    normal_mode,
    recording,
    transforms_active,
)

if TYPE_CHECKING:
    from armagnn.operators.csr import CSR

Operator = TypeVar("Operator", bound="CSR")
Rest = ParamSpec("Rest")
T = TypeVar("T")


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


# --------------------------------------------------------------------------------------------- of a tensor from outside


class _Seen(NamedTuple):
    """The numbers of a tensor as they were: the tensor in the same memory with its count of changes, or a copy."""

    numbers: Tensor
    changes: int | None

    @classmethod
    def of(cls, part: Tensor) -> _Seen:
        counted = not part.is_inference() and part.untyped_storage().resizable()
        return cls(part.detach(), part._version) if counted else cls(part.clone(), None)

    def holds(self, part: Tensor) -> bool:
        """Return whether the numbers are still the same."""
        if part.shape != self.numbers.shape or part.dtype != self.numbers.dtype:
            return False
        if self.changes is None or part.is_inference() or not part.untyped_storage().resizable():
            return self.changes is None and torch.equal(part, self.numbers)
        same_memory = part.data_ptr() == self.numbers.data_ptr() and part.stride() == self.numbers.stride()
        return same_memory and part._version == self.changes


class _Record(NamedTuple):
    """What was made, and of what."""

    seen: tuple[_Seen, ...]
    second: TensorWeakRef | None
    made: Any


_records: Any = WeakTensorKeyDictionary()


def remembered(make: Callable[[], T], key: Hashable, first: Any, second: Any = None) -> T:
    """Return ``make()``, or what it returned for the same key and tensors, if these have not changed since.

    For one key only the result of the last second tensor is kept.

    Args:
        make: makes it of the tensors, and of what the key says.
        key: what else the result depends on.
        first: a dense or sparse tensor. Of anything else nothing is kept.
        second: another, or None.

    Example:
        >>> given = torch.tensor([1, 2])
        >>> total = lambda: remembered(lambda: given.sum(), "total", given)
        >>> total() is total()
        True
        >>> _ = given.add_(1)
        >>> total()
        tensor(5)
    """
    if recording() or transforms_active():  # asked first: a compiler cannot trace the other questions
        return make()
    if not (_may_be_known(first) and (second is None or _may_be_known(second))):
        return make()
    parts = _parts(first) + (() if second is None else _parts(second))
    records: dict[Hashable, _Record] = _records.setdefault(first, {})
    found = records.get(key)
    if found is not None and len(found.seen) == len(parts):
        other = None if found.second is None else found.second()
        if other is second and all(seen.holds(part) for seen, part in zip(found.seen, parts, strict=True)):
            return found.made  # type: ignore[no-any-return]
    # What is seen is noted first: a change by another thread meanwhile is then seen at the next call.
    seen = tuple(_Seen.of(part) for part in parts)
    made = make()
    records[key] = _Record(seen, None if second is None else TensorWeakRef(second), made)
    return made


def _may_be_known(tensor: Any) -> bool:
    """Return whether it is a plain tensor of torch, of which no gradient is wanted."""
    return type(tensor) is Tensor and not is_wrapped(tensor) and not needs_gradient(tensor) and _has_numbers(tensor)


def _has_numbers(tensor: Tensor) -> bool:
    capturing = tensor.is_cuda and torch.cuda.is_current_stream_capturing()
    return not (tensor.is_meta or tensor.is_nested or tensor.is_quantized or tensor.is_mkldnn or capturing)


def _parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the dense tensors that a tensor consists of."""
    plain = tensor.detach()
    if plain.layout is torch.strided:
        return (plain,)
    if plain.layout is torch.sparse_coo:
        return plain._indices(), plain._values()
    if plain.layout in (torch.sparse_csr, torch.sparse_bsr):
        return plain.crow_indices(), plain.col_indices(), plain.values()
    return plain.ccol_indices(), plain.row_indices(), plain.values()
