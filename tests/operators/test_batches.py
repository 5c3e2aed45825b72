"""Batches cut out of one operator against the joined single operators; the plan of an epoch."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.data import load_graphs
from armagnn.errors import ArmagnnError, DTypeError, GraphError, ParameterError, ShapeError
from armagnn.kernels import reference
from armagnn.nn import ARMAConv
from armagnn.operators import GraphBatch, GraphBatches, GraphOperator, batches_of
from armagnn.operators.batches import SHUFFLE
from armagnn.operators.building import KINDS
from armagnn.randomness import bits
from oracles import Graph, assert_near, numbers
from strategies import graphs, undirected

F64 = torch.float64


def single(graph: Graph, kind: str = "arma", dtype: torch.dtype = F64) -> GraphOperator:
    return GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(dtype), kind)  # type: ignore[arg-type]


def pointer(ops: list[GraphOperator]) -> Tensor:
    return torch.tensor([0, *np.cumsum([op.num_nodes for op in ops])])


def joined(ops: list[GraphOperator]) -> GraphBatches:
    return GraphBatches(GraphOperator.block_diagonal(ops), pointer(ops))


def few(directed: bool = False, dtype: torch.dtype = F64) -> list[GraphOperator]:
    """A triangle with a tail, a node alone, two nodes without an edge, an edge (one way, if directed)."""
    edges = ([[0, 1], [1, 2], [2, 0], [2, 3]], [], [], [[0, 1]])
    ops = []
    for nodes, pairs in zip((4, 1, 2, 2), edges, strict=True):
        index = torch.tensor(pairs, dtype=torch.int64).view(-1, 2).t()
        index = index if directed else torch.cat([index, index.flip(0)], dim=1)
        ops.append(GraphOperator.from_edge_index(index, nodes, dtype=dtype))
    return ops


def assert_same(actual: GraphOperator, truth: GraphOperator) -> None:
    """Raise unless the two are equal to the last bit, with their transposes."""
    assert (actual.kind, actual.shape, actual.symmetric) == (truth.kind, truth.shape, truth.symmetric)
    assert (actual._transposed is None) == (truth._transposed is None)
    pairs = zip(
        (actual.rowptr, actual.col, actual.value, *(actual._transposed or ())),
        (truth.rowptr, truth.col, truth.value, *(truth._transposed or ())),
        strict=True,
    )
    for a, b in pairs:
        assert a.dtype == b.dtype
        assert torch.equal(a, b)


def assert_batch(batch: GraphBatch, ops: list[GraphOperator], ids: list[int]) -> None:
    """Raise unless the batch is what joining the single operators gives, with the nodes that belong to it."""
    chosen = [ops[g] for g in ids]
    assert_same(batch.op, GraphOperator.block_diagonal(chosen))
    starts = pointer(ops)
    assert batch.nodes.tolist() == [i for g in ids for i in range(int(starts[g]), int(starts[g + 1]))]
    assert batch.graph.tolist() == [b for b, op in enumerate(chosen) for _ in range(op.num_nodes)]
    assert torch.equal(batch.ptr, pointer(chosen))
    assert batch.ids.tolist() == ids
    assert (batch.num_graphs, batch.num_nodes) == (len(ids), sum(op.num_nodes for op in chosen))


@pytest.fixture(params=["processor", "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to assemble: by numba, and by plain torch as on a GPU."""
    if request.param == "torch":
        monkeypatch.setattr("armagnn.kernels.blocks.backend", lambda device: reference)
    return request.param  # type: ignore[no-any-return]


selections = st.lists(st.integers(0, 10**6), min_size=1, max_size=9)


@pytest.mark.parametrize("way", [undirected, graphs], ids=["undirected", "directed"])
@pytest.mark.parametrize("assembled", ["processor", "torch"])
def test_a_batch_is_the_join_of_its_graphs(way: Callable[..., st.SearchStrategy[Graph]], assembled: str) -> None:
    @settings(max_examples=25)
    @given(parts=st.lists(way(5, 8), min_size=1, max_size=5), picks=selections, kind=st.sampled_from(KINDS))
    def check(parts: list[Graph], picks: list[int], kind: str) -> None:
        ops = [single(part, kind) for part in parts]
        symmetric = all(op.symmetric for op in ops)
        if not symmetric:  # a dataset is symmetric as a whole or not at all
            ops = [op._new(op.rowptr, op.col, op.value, op.shape, op._structure(), False) for op in ops]
        ids = [pick % len(ops) for pick in picks]
        with pytest.MonkeyPatch.context() as patch:
            if assembled == "torch":
                patch.setattr("armagnn.kernels.blocks.backend", lambda device: reference)
            assert_batch(joined(ops).take(torch.tensor(ids)), ops, ids)

    check()


@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.usefixtures("path")
def test_every_type_of_numbers_and_ids(dtype: torch.dtype, directed: bool) -> None:
    ops = few(directed, dtype)
    if directed:
        ops = [op._new(op.rowptr, op.col, op.value, op.shape, op._structure(), False) for op in ops]
    batches = joined(ops)
    for ids in ([3, 0, 0, 2], torch.tensor([1], dtype=torch.int32), torch.tensor([0, 9, 1, 9])[::2], np.array([2, 3])):
        assert_batch(batches.take(ids), ops, [int(g) for g in ids])  # type: ignore[arg-type]


@pytest.mark.usefixtures("path")
def test_graphs_without_nodes_are_graphs() -> None:
    op = GraphOperator.block_diagonal(few())
    batches = GraphBatches(op, torch.tensor([0, 0, 4, 4, 9]))
    batch = batches.take([2, 1, 0])
    assert batch.ptr.tolist() == [0, 0, 4, 4]
    assert batch.graph.tolist() == [1] * 4
    assert_same(batch.op, few()[0])
    assert batches.take([0]).op.shape == (0, 0)


@pytest.mark.usefixtures("path")
def test_a_symmetric_batch_has_no_transpose_and_a_directed_one_a_true_one() -> None:
    assert joined(few()).take([0, 3]).op._transposed is None
    op = joined(few(directed=True)).take([0, 3]).op
    x = numbers(6, 2)
    assert_near(op.T @ x, op.to_dense().t() @ x)


def test_wide_indices_are_read_too(path: str) -> None:
    op = GraphOperator.block_diagonal(few(directed=True))
    transposed = tuple(part.long() for part in op._structure())
    wide = GraphOperator(
        op.rowptr.long(),
        op.col.long(),
        op.value,
        op.shape,
        kind=op.kind,
        transposed=transposed,
        symmetric=False,  # type: ignore[arg-type]
    )
    ptr = pointer(few())
    assert_same(GraphBatches(wide, ptr).take([3, 0]).op, GraphBatches(op, ptr).take([3, 0]).op)


def test_moving_and_converting() -> None:
    batches = joined(few())
    assert batches.to("cpu") is batches
    assert batches.to(torch.float32).take([0]).op.dtype == torch.float32
    assert (len(batches), batches.device.type) == (4, "cpu")


@pytest.mark.usefixtures("path")
def test_a_batch_built_in_inference_mode_serves_training() -> None:
    with torch.inference_mode():
        batch = joined(few()).take([0])
    x = numbers(4, 2).requires_grad_()
    (batch.op @ x).sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None


def test_mutag_in_an_epoch() -> None:
    data = load_graphs("mutag")
    batches = GraphBatches(GraphOperator.from_edge_index(data.edge_index, data.num_nodes), data.ptr)
    plan = batches_of(torch.arange(188), 32, seed=1, epoch=2)
    seen = []
    for ids, batch in zip(plan, batches.epoch(plan), strict=True):
        assert_same(batch.op, batches.take(ids).op)
        assert torch.equal(batch.ids, ids)
        seen += batch.nodes.tolist()
    assert sorted(seen) == list(range(3371))
    assert list(batches.epoch([])) == []


@settings(max_examples=10)
@given(parts=st.lists(graphs(4, 6), min_size=1, max_size=4), picks=selections)
def test_a_layer_on_a_batch_is_the_layer_on_each_graph(parts: list[Graph], picks: list[int]) -> None:
    ops = [single(part) for part in parts]
    ids = [pick % len(ops) for pick in picks]
    torch.manual_seed(0)
    conv = ARMAConv(3, 4, num_stacks=2, num_layers=2).double()
    batches = joined(ops)
    x = numbers(batches.op.num_nodes, 3).requires_grad_()

    def gradients(out: Tensor) -> Iterator[Tensor]:
        weights = numbers(*out.shape, seed=5)
        return iter(torch.autograd.grad((out * weights).sum(), [x, *conv.parameters()], allow_unused=True))

    batch = batches.take(ids)
    actual = conv(x[batch.nodes], batch.op)
    starts = batches.ptr.tolist()
    truth = torch.cat([conv(x[starts[g] : starts[g + 1]], ops[g]) for g in ids])
    assert_near(actual, truth)
    for a, b in zip(gradients(actual), gradients(truth), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_near(a, b)


@pytest.mark.parametrize("directed", [False, True])
def test_gradients_reach_learned_values(directed: bool) -> None:
    op = GraphOperator.block_diagonal(few(directed))
    value = op.value.clone().requires_grad_()
    batches = GraphBatches(op.with_value(value), pointer(few()))

    def product(value: Tensor, x: Tensor) -> Tensor:
        batch = GraphBatches(op.with_value(value), batches.ptr).take([3, 0, 3])
        return batch.op @ x  # type: ignore[no-any-return]

    assert torch.autograd.gradcheck(product, (value, numbers(8, 2).requires_grad_()))


@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ([], GraphError, "at least one graph"),
        (torch.tensor([], dtype=torch.int64), GraphError, "at least one graph"),
        ([0, 4], GraphError, "names graph 4, but the graphs run from 0 to 3"),
        ([-1, 0], GraphError, "names graph -1"),
        ([0.5], DTypeError, r"ids\.long"),
        (torch.tensor([True, False, True, False]), DTypeError, "nonzero"),
        (torch.zeros(2, 2, dtype=torch.int64), ShapeError, r"\(B,\)"),
        (torch.tensor(1), ShapeError, r"\(B,\)"),
        ("all", DTypeError, "ids"),
    ],
)
def test_bad_ids(ids: Any, error: type[ArmagnnError], words: str) -> None:
    with pytest.raises(error, match=words):
        joined(few()).take(ids)
    if isinstance(ids, Tensor):
        with pytest.raises(error, match=words):
            list(joined(few()).epoch([torch.tensor([0]), ids]))


@pytest.mark.parametrize(
    ("ptr", "error", "words"),
    [
        ([0, 4, 9], DTypeError, "torch.Tensor"),
        (torch.tensor([0.0, 9.0]), DTypeError, r"ptr\.long"),
        (torch.tensor([9]), ShapeError, "at least one graph"),
        (torch.tensor([[0, 9]]), ShapeError, r"\(G \+ 1,\)"),
        (torch.tensor([0, 4, 8]), GraphError, "ends at 8"),
        (torch.tensor([1, 4, 9]), GraphError, "starts at 1"),
        (torch.tensor([0, 6, 5, 9]), GraphError, "falls"),
        (torch.tensor([0, 2, 9]), GraphError, "joins graphs 0 and 1"),
    ],
)
def test_bad_pointers(ptr: Any, error: type[ArmagnnError], words: str) -> None:
    with pytest.raises(error, match=words):
        GraphBatches(GraphOperator.block_diagonal(few()), ptr)


def test_an_operator_is_wanted() -> None:
    with pytest.raises(DTypeError, match="GraphOperator"):
        GraphBatches(torch.eye(2), torch.tensor([0, 2]))  # type: ignore[arg-type]


@given(
    count=st.integers(1, 60), size=st.integers(1, 70), seed=st.integers(-(2**63), 2**63 - 1), epoch=st.integers(0, 99)
)
def test_a_plan_visits_every_graph_once(count: int, size: int, seed: int, epoch: int) -> None:
    ids = torch.arange(100, 100 + count)
    plan = batches_of(ids, size, seed, epoch)
    assert [len(part) for part in plan] == [size] * (count // size) + [count % size] * (count % size > 0)
    assert torch.equal(torch.cat(plan).sort()[0], ids)
    again = batches_of(ids, size, seed, epoch)
    assert all(torch.equal(a, b) for a, b in zip(plan, again, strict=True))
    # the order is that of two numbers of the one source of randomness for each graph
    words = bits(torch.tensor([seed]), SHUFFLE, epoch, torch.arange(2 * count)) >> 1
    assert torch.equal(torch.cat(plan), ids[(words[::2] << 31 | words[1::2]).argsort()])


def test_seeds_and_epochs_have_their_own_orders_and_all_places_are_alike() -> None:
    ids = torch.arange(50)
    orders = {(seed, epoch): torch.cat(batches_of(ids, 7, seed, epoch)) for seed in (0, 1, 2**32) for epoch in (0, 1)}
    assert len({tuple(order.tolist()) for order in orders.values()}) == 6
    first = torch.stack([torch.cat(batches_of(torch.arange(4), 4, 0, epoch)) for epoch in range(500)])
    share = torch.stack([(first == g).double().mean(0) for g in range(4)])
    assert (share - 0.25).abs().max() < 0.1  # five standard deviations


@pytest.mark.parametrize(
    "change", [{"size": 0}, {"size": 2.0}, {"size": True}, {"seed": 2**63}, {"seed": "a"}, {"epoch": -1}]
)
def test_bad_plans(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=next(iter(change))):
        batches_of(torch.arange(3), **{"size": 2, "seed": 0, "epoch": 0, **change})
    with pytest.raises(GraphError, match="empty"):
        batches_of(torch.arange(0), 2, 0, 0)


def test_it_works_without_numba() -> None:
    code = """
import sys
sys.modules["numba"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
import torch
from armagnn.operators import GraphBatches, GraphOperator
op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]))
print(GraphBatches(op, torch.tensor([0, 3, 5])).take([1, 1]).nodes.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[3, 4, 3, 4]\n", done.stderr


@pytest.mark.parametrize("name", ["ptr", "nodes", "graph", "ids"])
def test_a_batch_of_odd_parts_is_refused(name: str) -> None:
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]))
    batch = GraphBatches(op, torch.tensor([0, 2])).take([0])
    with pytest.raises(ShapeError, match=f"{name} must have 1 axes"):
        replace(batch, **{name: torch.tensor(0)})
