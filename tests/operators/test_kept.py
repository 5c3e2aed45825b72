"""What follows from an operator is worked out once, by one rule, and in no mode of torch."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from armagnn import GraphOperator
from armagnn.operators.kept import lasting, may_be_kept, once_per_operator


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


@pytest.mark.parametrize("method", ["off_diagonal", "without_shift"])
def test_one_rule_for_moves_transposes_and_copies(method: str) -> None:
    edges = torch.tensor([[0, 1, 1], [1, 0, 1]])
    op = GraphOperator.from_edge_index(edges, lambda_max=1.5)
    plain = pickle.dumps(op)
    kept = getattr(op, method)()
    assert pickle.dumps(op) == plain
    assert getattr(op, method)() is kept
    assert getattr(op.to("cpu"), method)() is kept
    assert getattr(copy.deepcopy(op), method)() is kept
    assert getattr(op.T, method)() is kept  # a symmetric operator is its transpose
    assert getattr(pytree.tree_map(lambda leaf: leaf, op), method)() is kept
    for other in (op.to(torch.float64), op.with_value(op.value.clone()), pickle.loads(pickle.dumps(op))):
        assert getattr(other, method)() is not kept
        assert getattr(other, method)().dtype == other.dtype


def test_values_that_are_learned_wrapped_or_fake_are_not_kept() -> None:
    value = torch.ones(2, requires_grad=True)
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2, value, kind="laplacian")
    with torch.no_grad():
        assert op.off_diagonal() is not op.off_diagonal()
    fixed = op.detach()
    assert not may_be_kept(op.value)
    assert may_be_kept(fixed.value)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert not lasting()
        assert not may_be_kept(fixed.value)
    assert lasting()


def test_a_thread_sees_what_another_has_found() -> None:
    ops = [GraphOperator.from_edge_index(torch.tensor([[0, 1, 1], [1, 0, 1]])) for _ in range(50)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda op: op.off_diagonal().to_dense(), ops * 8))
    assert all(torch.equal(one, found[0]) for one in found)
