"""Parallel stacks equal the plain layer: on 2 and 4 ranks under torchrun, and on one in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from armagnn import GraphOperator
from armagnn.distributed import PartitionedOperator, parallel_stacks, parallelize_stacks
from armagnn.errors import DTypeError, GraphError, ParameterError, ShapeError
from armagnn.nn import ARMAConv, GCNConv
from launching import torchrun
from oracles import numbers, random_graph

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")

HERE = Path(__file__).parent
CHECKS = ("values and gradients", "fixed points", "second derivatives", "states", "training", "autocast", "refusals")


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_equal_one_process(ranks: int) -> None:
    output = torchrun(ranks, HERE / "ranks.py")
    for rank in range(ranks):
        for check in CHECKS:
            assert f"rank {rank} of {ranks}: {check} hold" in output


def test_the_example_runs() -> None:
    script = HERE.parents[1] / "examples" / "parallel_stacks.py"
    if not script.exists():
        pytest.skip("the examples are not part of this installation")
    output = torchrun(2, script, "--nodes", "200", "--stacks", "5", "--steps", "2")
    lines = [line for line in output.splitlines() if line.startswith(("0 ", "1 "))]
    assert [line.split()[:2] for line in lines] == [["0", "3"], ["1", "2"]]  # rank, its stacks


@pytest.fixture
def group() -> Iterator[Any]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_one_rank_is_the_plain_layer(group: Any) -> None:
    graph, conv = random_graph(9, 20, seed=3), ARMAConv(3, 5, num_stacks=3, num_layers=2, dropout=0.5).double()
    parallel, x = parallelize_stacks(conv, group), numbers(9, 3)
    torch.manual_seed(2)
    ours = parallel(x, graph.edge_index, graph.edge_weight())
    torch.manual_seed(2)
    torch.testing.assert_close(ours, conv(x, graph.edge_index, graph.edge_weight()))
    assert ours.requires_grad
    assert "stacks 0 to 2 of 3" in repr(parallel)


def test_the_given_layer_is_left_alone(group: Any) -> None:
    conv = ARMAConv(3, 5, num_stacks=3)
    parallel = parallelize_stacks(conv, group)
    with torch.no_grad():
        for parameter in parallel.parameters():
            parameter.add_(1.0)
    assert parallel.num_stacks == conv.num_stacks == 3
    for name, value in parallel.state_dict().items():
        assert (value - conv.state_dict()[name] - 1).abs().max() < 1e-6


@pytest.mark.parametrize("nodes", [0, 1, 4])
def test_a_graph_without_edges(group: Any, nodes: int) -> None:
    conv = ARMAConv(3, 5, num_stacks=2, num_layers=2, dropout=0.5).double()
    out = parallelize_stacks(conv, group)(numbers(nodes, 3), torch.empty(2, 0, dtype=torch.int64))
    assert out.shape == (nodes, 5)


def test_a_state_of_other_things_is_refused(group: Any) -> None:
    parallel = parallelize_stacks(ARMAConv(3, 5, num_stacks=2), group)
    for value in (None, 1.5, "weights"):
        with pytest.raises(RuntimeError, match=r"weight must be a tensor, got"):
            parallel.load_state_dict(dict.fromkeys(parallel.state_dict(), value))


def test_bad_input(group: Any) -> None:
    conv = ARMAConv(3, 5, num_stacks=2)
    with pytest.raises(DTypeError, match="takes an ARMAConv, got GCNConv"):
        parallelize_stacks(GCNConv(3, 5), group)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="in_channels"):
        parallelize_stacks(ARMAConv(-1, 5, num_stacks=2), group)
    for mesh in (None, 2, "cpu"):
        with pytest.raises(DTypeError, match="mesh must be a DeviceMesh or a ProcessGroup"):
            parallelize_stacks(conv, mesh)  # type: ignore[arg-type]
    parallel = parallelize_stacks(conv, group)
    x, edges = torch.randn(4, 3), torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ShapeError, match="features per node"):
        parallel(x[:, :2], edges)
    with pytest.raises(GraphError, match="kind"):
        parallel(x, GraphOperator.from_edge_index(edges, 4, kind="gcn"))
    parallel.local.explain = True
    with pytest.raises(ParameterError, match="explanations are made of a plain ARMAConv"):
        parallel(x, edges)


def test_a_share_is_not_shared_out_again_and_the_mode_is_kept(group: Any) -> None:
    parallel = parallelize_stacks(ARMAConv(3, 5, num_stacks=3).eval(), group)
    assert not parallel.training
    assert not parallel.local.training
    with pytest.raises(ParameterError, match="share already"):
        parallelize_stacks(parallel.local, group)


def test_only_checks_are_agreed_on_where_products_wait_for_other_ranks(
    group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that raised between the products of a partitioned operator would meet the others in another collective."""
    inside, seen = [False], []

    @contextmanager
    def agreed(_: Any) -> Iterator[None]:
        inside[0] = True
        yield
        inside[0] = False

    def forward(*args: Any) -> Any:
        seen.append(inside[0])
        return plain(*args)

    plain = parallel_stacks.Share.forward
    monkeypatch.setattr(parallel_stacks, "agreed", agreed)
    monkeypatch.setattr(parallel_stacks.Share, "forward", forward)
    graph = random_graph(9, 20, seed=3).both_ways()
    conv, x = ARMAConv(3, 5, num_stacks=2, num_layers=2).double(), numbers(9, 3)
    op, parallel = conv.operator(graph.edge_index, 9, graph.edge_weight()), parallelize_stacks(conv, group)
    ours = [parallel(x, matrix) for matrix in (op, PartitionedOperator.from_operator(op, group))]
    assert seen == [True, False]
    torch.testing.assert_close(ours[0], ours[1])
    with pytest.raises(ShapeError, match="features per node"):
        parallel(x[:, :2], PartitionedOperator.from_operator(op, group))
    assert inside == [True]
