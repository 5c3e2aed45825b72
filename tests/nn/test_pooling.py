"""Pooling against a dense matrix: values, gradients, trials, graphs without nodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.weak import WeakTensorKeyDictionary

from armagnn.errors import ArmagnnError, DTypeError, GraphError, ParameterError, ShapeError
from armagnn.kernels import cpu
from armagnn.nn import AvgPool, SumPool
from armagnn.operators import GraphBatches, GraphOperator
from oracles import assert_near, numbers

PTR = torch.tensor([0, 3, 3, 4, 9])
POOLS = [SumPool(), AvgPool(), AvgPool(slots=5)]


def dense(pool: SumPool, ptr: Tensor) -> Tensor:
    """The matrix of a pool, row by row; a graph without nodes has a row of zeros."""
    matrix = torch.zeros(len(ptr) - 1, int(ptr[-1]), dtype=torch.float64)
    for b, (start, end) in enumerate(zip(ptr.tolist()[:-1], ptr.tolist()[1:], strict=True)):
        divisor = 1 if not isinstance(pool, AvgPool) else pool.slots or max(1, end - start)
        matrix[b, start:end] = 1.0 / divisor
    return matrix


@pytest.mark.parametrize("pool", POOLS, ids=repr)
@settings(max_examples=25)
@given(
    sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    width=st.integers(0, 5),
    leading=st.sampled_from([(), (2,), (2, 3)]),
)
def test_values_are_those_of_the_dense_product(
    pool: SumPool, sizes: list[int], width: int, leading: tuple[int, ...]
) -> None:
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    x = numbers(*leading, int(ptr[-1]), width)
    out = pool(x, ptr)
    assert out.shape == (*leading, len(sizes), width)
    assert_near(out, dense(pool, ptr) @ x)


@pytest.mark.parametrize("pool", POOLS, ids=repr)
@pytest.mark.parametrize("leading", [(), (2,)])
def test_gradients(pool: SumPool, leading: tuple[int, ...]) -> None:
    x = numbers(*leading, 9, 2).requires_grad_()
    assert gradcheck(lambda x: pool(x, PTR), (x,))
    assert gradgradcheck(lambda x: pool(x, PTR), (x,))
    g = numbers(*leading, 4, 2, seed=1)
    (actual,) = torch.autograd.grad(pool(x, PTR), x, g)
    assert_near(actual, dense(pool, PTR).t() @ g)


@pytest.mark.parametrize("pool", POOLS, ids=repr)
def test_trials_of_a_vmap_are_a_loop(pool: SumPool) -> None:
    x = numbers(3, 9, 2)
    assert torch.equal(torch.vmap(lambda x: pool(x, PTR))(x), torch.stack([pool(part, PTR) for part in x]))
    weight = numbers(4, 2, seed=1)

    def gradient(x: Tensor) -> Tensor:
        return torch.func.grad(lambda x: (pool(x, PTR) * weight).sum())(x)

    assert torch.equal(torch.vmap(gradient)(x), torch.stack([gradient(part) for part in x]))


@pytest.mark.parametrize("pool", POOLS, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_types_of_numbers(pool: SumPool, dtype: torch.dtype) -> None:
    x = numbers(9, 2).to(dtype)
    out = pool(x, PTR.int())
    assert out.dtype == dtype
    assert_near(out, dense(pool, PTR) @ x.double())


@pytest.mark.parametrize("pool", POOLS, ids=repr)
def test_a_batch_says_the_same_as_its_pointer(pool: SumPool) -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 9)
    batch = GraphBatches(op, PTR).take([3, 1, 0, 0])
    x = numbers(batch.num_nodes, 2)
    assert torch.equal(pool(x, batch), pool(x, batch.ptr))
    with pytest.raises(ShapeError, match="batch has 11"):
        pool(x[:-1], batch)


def test_it_compiles_whole() -> None:
    pool, x = AvgPool(), numbers(9, 2)
    compiled = torch.compile(lambda x: pool(x, PTR), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), pool(x, PTR))


@pytest.mark.parametrize("given", ["ptr", "batch"])
def test_it_compiles_whole_where_long_rows_are_cut(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told: Any = WeakTensorKeyDictionary()  # as on a GPU, which torch cannot look into
    calls = []

    def tell(rowptr: Tensor, nonzeros: int = 0) -> None:
        told[rowptr] = nonzeros
        calls.append(nonzeros)

    for name in ("keep_rows_whole", "cut_rows"):
        monkeypatch.setattr(cpu, name, tell, raising=False)
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 9)
    pool, x, batch = SumPool(), numbers(9, 2), GraphBatches(op, PTR).take([0, 1, 2, 3])
    where = PTR if given == "ptr" else batch
    compiled, eager = torch.compile(lambda x: pool(x, where), fullgraph=True, backend="aot_eager"), pool(x, where)
    assert len(calls) == 2
    assert torch.equal(compiled(x), eager)


def test_how_it_shows() -> None:
    assert [repr(pool) for pool in POOLS] == ["SumPool()", "AvgPool()", "AvgPool(slots=5)"]


@pytest.mark.parametrize(
    ("x", "ptr", "error"),
    [
        (numbers(9), PTR, ShapeError),
        (numbers(9, 2).long(), PTR, DTypeError),
        (numbers(8, 2), PTR, GraphError),
        (numbers(9, 2), torch.tensor([1, 9]), GraphError),
        (numbers(9, 2), torch.tensor([0, 5, 4, 9]), GraphError),
        (numbers(9, 2), torch.tensor([0.0, 9.0]), DTypeError),
        (numbers(9, 2), [0, 9], DTypeError),
        (numbers(9, 2), torch.tensor([9]), ShapeError),
    ],
)
def test_bad_input(x: Tensor, ptr: Any, error: type[ArmagnnError]) -> None:
    with pytest.raises(error):
        AvgPool()(x, ptr)


@pytest.mark.parametrize("slots", [0, -1, 2.5, True, "nine"])
def test_bad_slots(slots: Any) -> None:
    with pytest.raises(ParameterError, match="slots"):
        AvgPool(slots)
