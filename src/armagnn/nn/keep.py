"""What is worked out once per operator and kept while it lives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from armagnn.operators import GraphOperator

T = TypeVar("T")


def once_per_operator(function: Callable[[GraphOperator], T]) -> Callable[[GraphOperator], T]:
    """Keep what a function returns for an operator, weakly: it goes when the operator goes.

    The key is the tensor of values, which outlives the copies that a pytree (an argument of ``vmap``) makes of the
    operator; the pattern must be the same object too.
    """
    kept: Any = WeakTensorKeyDictionary()

    @functools.wraps(function)
    def wrapper(op: GraphOperator) -> T:
        found: tuple[Tensor, Tensor, T] | None = kept.get(op.value)
        if found is None or found[0] is not op.rowptr or found[1] is not op.col:
            found = kept[op.value] = op.rowptr, op.col, function(op)
        return found[2]

    return wrapper
