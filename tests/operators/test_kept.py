"""What follows from an operator is worked out once, by one rule, and in no mode of torch."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree

from armagnn import GraphOperator
from armagnn.operators import kept as module
from armagnn.operators.kept import may_be_kept, once_per_operator, remembered
from armagnn.torch_private import lasting


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


# --------------------------------------------------------------------------------------------- of a tensor from outside


LAYOUTS = ("strided", "coo", "csr", "csc", "bsr", "bsc")
pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


class Made:
    """What is made; it can be referred to weakly."""


def matrix(layout: str) -> Tensor:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    if layout == "strided":
        return dense
    if layout == "coo":
        return dense.to_sparse()
    layouts = {"csr": torch.sparse_csr, "csc": torch.sparse_csc, "bsr": torch.sparse_bsr, "bsc": torch.sparse_bsc}
    return dense.to_sparse(layout=layouts[layout], blocksize=(1, 1) if layout[0] == "b" else None)


def values(x: Tensor) -> Tensor:
    return x if x.layout is torch.strided else x._values() if x.layout is torch.sparse_coo else x.values()


def ask(first: Tensor, second: Tensor | None = None, key: object = "made") -> Made:
    return remembered(Made, key, first, second)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_was_made_of_an_unchanged_tensor_is_found_again(layout: str) -> None:
    x = matrix(layout)
    assert ask(x) is ask(x)
    assert ask(x, key="other") is not ask(x)
    assert ask(matrix(layout)) is not ask(x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_change_in_place_is_seen(layout: str) -> None:
    x = matrix(layout)
    before = ask(x)
    values(x).mul_(2)
    after = ask(x)
    assert after is not before
    assert ask(x) is after


CHANGES: dict[str, Callable[[Tensor], object]] = {
    "of a part": lambda x: x[1:].add_(1),
    "of one number": lambda x: x.__setitem__(0, 7),
    "by copy_": lambda x: x.copy_(torch.arange(5, 8)),
    "by out=": lambda x: torch.add(x, 1, out=x),
    "by set_": lambda x: x.set_(torch.tensor([4, 5, 6])),
    "of the memory": lambda x: setattr(x, "data", torch.tensor([4, 5, 6])),
    "of the shape": lambda x: x.resize_(2),
    "of the strides": lambda x: x.as_strided_((3,), (0,)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_all_changes_are_seen(change: str) -> None:
    x = torch.tensor([1, 2, 3])
    before = ask(x)
    CHANGES[change](x)
    assert ask(x) is not before


def test_memory_that_numpy_writes_to_is_compared() -> None:
    """torch does not count these changes, whether the memory is numpy's or was lent to it."""
    array = np.array([1, 2, 3])
    lent = torch.tensor([1, 2, 3])
    for x, other in ((torch.from_numpy(array), array), (lent, lent.numpy())):
        before = ask(x)
        assert ask(x) is before
        other[1] = 5
        after = ask(x)
        assert after is not before
        assert ask(x) is after


def test_memory_that_is_lent_to_numpy_after_the_first_call() -> None:
    x = torch.tensor([1, 2, 3])
    before = ask(x)
    x.numpy()[1] = 5
    assert ask(x) is not before


def test_inference_tensors_are_compared() -> None:
    """They count no changes."""
    with torch.inference_mode():
        x = torch.tensor([1, 2, 3])
        before = ask(x)
        assert ask(x) is before
        x.add_(1)
        assert ask(x) is not before
    assert ask(x) is ask(x)


def test_inference_mode_and_the_usual_one_share_it() -> None:
    x = torch.tensor([1, 2, 3])
    before = ask(x)
    with torch.inference_mode():
        assert ask(x) is before
        x.add_(1)
        after = ask(x)
        assert after is not before
    assert ask(x) is after


def test_a_second_tensor_counts() -> None:
    x, y = torch.tensor([1, 2]), torch.tensor([1.0, 2.0])
    both = ask(x, y)
    assert ask(x, y) is both
    assert ask(x, y.clone()) is not both
    both = ask(x, y)
    y.add_(1)
    assert ask(x, y) is not both
    assert ask(x) is not ask(x, y)


def test_nothing_is_kept_of_what_needs_a_gradient() -> None:
    x, learned = torch.tensor([1, 2]), torch.ones(2, requires_grad=True)
    assert ask(learned) is not ask(learned)
    assert ask(x, learned) is not ask(x, learned)
    dependent = learned * 2
    assert ask(x, dependent) is not ask(x, dependent)
    with torch.no_grad():
        assert ask(x, learned) is not ask(x, learned)


def test_nothing_is_kept_within_transforms_and_modes() -> None:
    x, outer = torch.ones(2), torch.ones(2)
    made: list[Made] = []
    torch.func.vmap(lambda y: made.append(ask(y)) or y)(torch.ones(3, 2))
    torch.func.vmap(lambda y: made.append(ask(outer)) or y)(torch.ones(3, 2))
    torch.func.grad(lambda y: (made.append(ask(y)) or y).sum())(x)
    torch.func.jvp(lambda y: made.append(ask(y)) or y, (x,), (x,))
    torch.jit.trace(lambda y: made.append(ask(y)) or y, x, check_trace=False)
    assert len(made) == 5
    assert ask(outer) not in made
    assert ask(x) not in made


def test_no_kept_thing_outlives_its_tensors() -> None:
    x, y = torch.tensor([1, 2]), torch.tensor([1.0])
    made = weakref.ref(ask(x, y))
    assert made() is not None
    del x
    gc.collect()
    assert made() is None


def test_other_objects_are_passed_on() -> None:
    assert ask([1, 2]) is not ask([1, 2])  # type: ignore[arg-type]
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    assert ask(parameter) is not ask(parameter)
    meta = torch.ones(2, device="meta")
    assert ask(meta) is not ask(meta)


def test_what_fails_is_not_kept() -> None:
    x = torch.tensor([1])

    def fail() -> Made:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            remembered(fail, "fails", x)
    assert ask(x) is ask(x)


def test_one_entry_for_each_key() -> None:
    x = torch.tensor([1, 2])
    for number in range(5):
        ask(x, torch.full((2,), number))
    assert len(module._records[x]) == 1


@given(st.lists(st.sampled_from(("ask", "add", "numpy", "replace")), max_size=12))
def test_it_is_never_stale(steps: list[str]) -> None:
    """Whatever happens in between, the answer is the one that would be made now."""
    x = torch.tensor([1, 2, 3])
    for step in steps:
        if step == "add":
            x += 1
        elif step == "numpy":
            x.numpy()[0] += 1
        elif step == "replace":
            x = x.clone()
        assert torch.equal(remembered(x.clone, "copy", x), x)


def test_threads_see_what_they_would_make() -> None:
    edges = [torch.randint(0, 9, (2, 30), generator=torch.Generator().manual_seed(k)) for k in range(4)]
    truth = [GraphOperator.from_edge_index(edge, 9).to_dense() for edge in edges]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for k in np.random.default_rng(seed).integers(0, 4, 100).tolist():
            op = remembered(lambda k=k: GraphOperator.from_edge_index(edges[k], 9), "op", edges[k])
            if not torch.equal(op.to_dense(), truth[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
