"""A partitioned operator equals the whole one: on 1 to 4 ranks under torchrun, and on one in this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from armagnn import GraphOperator
from armagnn.distributed import PartitionedOperator
from armagnn.distributed.partitioned_operator import balanced
from armagnn.errors import DeviceError, DTypeError, GraphError, ParameterError, ShapeError, UnsupportedError
from launching import torchrun
from oracles import assert_near, numbers, random_graph

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")

CHECKS = (
    "products", "values and second derivatives", "layers", "training", "fixed points", "filters",
    "rational", "counts and refusals",
)  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_equal_one_process(ranks: int) -> None:
    output = torchrun(ranks, Path(__file__).parent / "partition_ranks.py")
    for rank in range(ranks):
        for check in CHECKS:
            assert f"rank {rank} of {ranks}: {check} hold" in output


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 6))
def test_runs_cover_all_nodes_and_share_out_the_nonzeros(degrees: list[int], ranks: int) -> None:
    rowptr = torch.tensor([0, *degrees]).cumsum(0)
    starts = balanced(rowptr, ranks)
    assert starts[0] == 0
    assert starts[-1] == len(degrees)
    assert len(starts) == ranks + 1
    loads = [int(rowptr[b] - rowptr[a]) + b - a for a, b in itertools.pairwise(starts)]
    assert min(loads) >= 0
    # a run is cut between nodes, so it may exceed its share by a node at each end
    assert max(loads) <= sum(loads) / ranks + 2 * (max(degrees, default=0) + 1)


@pytest.fixture
def group() -> Iterator[Any]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


@pytest.fixture
def op() -> GraphOperator:
    graph = random_graph(9, 20, seed=3).both_ways()
    return GraphOperator.from_edge_index(graph.edge_index, 9, graph.edge_weight())


def test_bad_input_is_refused(group: Any, op: GraphOperator) -> None:
    part = PartitionedOperator.from_operator(op, group)
    x = numbers(9, 2)
    for refused, error in (
        (lambda: part @ x.float(), DTypeError),
        (lambda: part @ x[:5], ShapeError),
        (lambda: part @ x.to("meta"), DeviceError),
        (lambda: part.with_value(part.value[1:]), ShapeError),
        (lambda: PartitionedOperator.from_operator(part, group), DTypeError),
        (lambda: PartitionedOperator.from_operator("graph", group), DTypeError),
        (lambda: PartitionedOperator.from_operator(op, "mesh"), DTypeError),
        (lambda: PartitionedOperator.from_operator(op, group, [0, 3]), GraphError),
        (lambda: PartitionedOperator.from_operator(op, group, [0, 10]), GraphError),
        (lambda: PartitionedOperator.from_operator(op, group, [0, "9"]), ParameterError),
        (lambda: PartitionedOperator.from_rows(op.rowptr, op.col + 9, op.value, group, [0, 9]), GraphError),
        (lambda: PartitionedOperator(op.rowptr, op.col + 9, op.value, part.halo), GraphError),
        (lambda: part.with_value(part.value * 2).T, UnsupportedError),
    ):
        with pytest.raises(error):
            refused()


def test_other_types_and_values_go_along(group: Any, op: GraphOperator) -> None:
    part = PartitionedOperator.from_operator(op, group)
    x = numbers(9, 2)
    assert part.T is part
    assert_near(part.to(torch.float32) @ x.float(), op @ x)
    assert_near(part.with_value(2 * part.value) @ x, 2 * (op @ x))
    learned = part.with_value(part.value.clone().requires_grad_())
    assert not learned.detach().value.requires_grad
    assert_near(learned.detach() @ x, op @ x)
    with torch.autocast("cpu"):
        assert (part.to(torch.float32) @ x.float()).dtype == torch.bfloat16
    assert repr(part) == f"PartitionedOperator('arma', nodes 0 to 8 of 9, nnz={op.nnz}, halo=0, float64, symmetric)"


def test_parameters_are_those_of_the_first_rank_and_have_the_gradient_of_all(group: Any, op: GraphOperator) -> None:
    part = PartitionedOperator.from_operator(op, group)
    linear = torch.nn.Linear(2, 1).double()
    assert part.shared(linear) is linear
    linear(part @ numbers(9, 2)).sum().backward()
    assert linear.weight.grad is not None
    assert_near(linear.weight.grad, (op @ numbers(9, 2)).sum(0, keepdim=True))
