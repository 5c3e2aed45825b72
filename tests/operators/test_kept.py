from __future__ import annotations

import gc
import weakref

import torch
from torch.utils import _pytree as pytree

from armagnn import GraphOperator
from armagnn.operators.kept import once_per_operator


class Thing:
    def __init__(self, op: GraphOperator) -> None:
        self.total = float(op.value.sum())


def test_once_per_operator_and_as_long_as_it_lives() -> None:
    made: list[float] = []

    @once_per_operator
    def thing(op: GraphOperator) -> Thing:
        made.append(1)
        return Thing(op)

    one, other = (GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), kind="adjacency") for _ in range(2))
    first = thing(one)
    assert thing(one) is first
    assert thing(pytree.tree_map(lambda leaf: leaf, one)) is first  # a copy around the same tensors
    assert thing(other) is not first
    double = one.with_value(one.value * 2)
    assert thing(double).total == 2 * first.total
    swapped = GraphOperator(one.rowptr, one.col.flip(0), one.value, (2, 2))
    assert thing(swapped) is not first  # the same values on another pattern
    assert len(made) == 4
    gone = weakref.ref(thing(other))
    del other
    gc.collect()
    assert gone() is None
