"""What runs on every rank: parallel stacks beside the plain layer, which each rank computes by itself."""

from __future__ import annotations

import copy
import datetime
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

sys.path.insert(0, str(Path(__file__).parents[1]))

from armagnn import CSR, GraphOperator
from armagnn.distributed import ParallelStacks, parallelize_stacks
from armagnn.errors import ParameterError
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint
from oracles import assert_near, numbers, random_graph

IN, OUT, NODES = 3, 5, 9
CASES: list[dict[str, Any]] = [
    {"num_stacks": 4},
    {"num_stacks": 5},
    {"num_stacks": 7, "init": "zero", "bias": False},
    {"num_stacks": 4, "init": "tied", "act": "tanh"},
    {"num_stacks": 5, "num_layers": 1, "act": None},
    {"num_stacks": 5, "shared_weights": False, "act": nn.PReLU(dtype=torch.float64)},
]


def plain(num_layers: int = 3, **options: Any) -> ARMAConv:
    conv = ARMAConv(IN, OUT, num_layers=num_layers, **options).double()
    if conv.bias is not None:
        nn.init.normal_(conv.bias)
    return conv


def gradients(conv: nn.Module, out: Tensor, inputs: list[Tensor]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Gradients of the inputs and of the parameters, in a direction that differs from entry to entry."""
    names, parameters = zip(*conv.named_parameters(), strict=True)
    found = torch.autograd.grad((out * numbers(*out.shape, seed=9)).sum(), [*inputs, *parameters], retain_graph=True)
    return list(found[: len(inputs)]), dict(zip(names, found[len(inputs) :], strict=True))


def check_equal(
    parallel: ParallelStacks, conv: ARMAConv, x: Any, graph: Any, learned: list[Tensor], tolerance: float = 1e-11
) -> None:
    """Values and gradients of inputs, of this rank's stacks, and of an activation's parameters on all ranks."""
    torch.manual_seed(7)
    ours = parallel(x, graph)
    torch.manual_seed(7)
    theirs = conv(x, graph)
    assert theirs.abs().max() > 0.1
    assert_near(ours, theirs, tolerance)
    (our_inputs, our_own), (their_inputs, their_own) = (
        gradients(parallel, ours, learned),
        gradients(conv, theirs, learned),
    )
    for a, b in zip(our_inputs, their_inputs, strict=True):
        assert b.abs().max() > 0
        assert_near(a, b, tolerance)
    for name, truth in their_own.items():
        assert truth.abs().max() > 0
        expected = parallel._mine(name, truth) if not name.startswith("act") else truth
        assert_near(our_own[f"local.{name}"], expected, tolerance)


def check_values_and_gradients(mesh: Any) -> None:
    graph = random_graph(NODES, 20, seed=3)
    x = numbers(NODES, IN, seed=4).requires_grad_()
    many = numbers(2, NODES, IN, seed=4).requires_grad_()
    sparse = CSR.from_dense(numbers(NODES, IN, seed=4) * (numbers(NODES, IN, seed=5) > 0))
    weight = graph.edge_weight().requires_grad_()
    for case in CASES:
        for dropout in (0.0, 0.4):
            torch.manual_seed(1)
            conv = plain(**copy.deepcopy(case), dropout=dropout)
            parallel = parallelize_stacks(conv, mesh)
            op = parallel.operator(graph.edge_index, NODES, graph.edge_weight())
            check_equal(parallel, conv, x, op, [x])
            check_equal(parallel, conv, many, op, [many])
            check_equal(parallel, conv, sparse, op, [])
            learned = GraphOperator.from_edge_index(graph.edge_index, NODES, weight)
            check_equal(parallel, conv, x, learned, [x, weight])
            conv.eval(), parallel.eval()
            check_equal(parallel, conv, x, op, [x])


def check_fixed_points(mesh: Any) -> None:
    """Convergent stacks: each rank iterates its own as long as they need."""
    graph = random_graph(NODES, 20, seed=3).both_ways()
    x = numbers(NODES, IN, seed=4).requires_grad_()
    for dropout in (0.0, 0.4):
        torch.manual_seed(1)
        conv = plain(num_stacks=5, dropout=dropout, act="tanh", fixed_point=FixedPoint(tol=1e-12, contraction=0.8))
        parallel = parallelize_stacks(conv, mesh)
        op = parallel.operator(graph.edge_index, NODES, graph.edge_weight())
        check_equal(parallel, conv, x, op, [x], tolerance=1e-9)
        assert len(parallel.local.statistics.steps) == parallel.local.num_stacks


def check_second_derivatives(mesh: Any) -> None:
    conv = plain(num_stacks=5, act="tanh")
    parallel = parallelize_stacks(conv, mesh)
    graph = random_graph(NODES, 20, seed=3)
    found = []
    for layer in (parallel, conv):
        x = numbers(NODES, IN, seed=4).requires_grad_()
        op = layer.operator(graph.edge_index, NODES, graph.edge_weight())
        (first,) = torch.autograd.grad(layer(x, op).square().sum(), x, create_graph=True)
        weight = layer.local.weight if isinstance(layer, ParallelStacks) else layer.weight
        found.append(torch.autograd.grad(first.square().sum(), [x, weight]))
    assert found[1][1].abs().max() > 0
    assert_near(found[0][0], found[1][0])
    assert_near(found[0][1], parallel._mine("weight", found[1][1]))


def check_states(mesh: Any, ranks: int) -> None:
    """A state goes out as the plain layer's and comes back in; ranks that start apart take the first's weights."""
    torch.manual_seed(dist.get_rank())
    conv = plain(num_stacks=5)
    net = nn.Sequential(parallelize_stacks(conv, mesh))
    torch.manual_seed(0)
    first = {f"0.{name}": value for name, value in plain(num_stacks=5).state_dict().items()}
    state = net.state_dict()
    assert sorted(state) == sorted(first)
    for name, value in first.items():
        assert torch.equal(state[name], value)
    other = plain(num_stacks=5)
    missing = net.load_state_dict({f"0.{name}": value for name, value in other.state_dict().items()})
    assert not missing.missing_keys
    assert not missing.unexpected_keys
    again = plain(num_stacks=5)
    again.load_state_dict(net[0].state_dict())
    for name, value in other.state_dict().items():
        assert torch.equal(again.state_dict()[name], value)
    for stacks in (4, 6, *(size for size in {5 // ranks, 5 // ranks + 1})):
        with pytest.raises(RuntimeError, match="does not hold 5 stacks"):
            net[0].load_state_dict(plain(num_stacks=stacks).state_dict())


def check_training(mesh: Any) -> None:
    """Three steps of Adam with dropout end in the plain layer's weights."""
    torch.manual_seed(3)
    conv = plain(num_stacks=5, dropout=0.3)
    parallel = parallelize_stacks(conv, mesh)
    graph = random_graph(NODES, 20, seed=3)
    x, op = numbers(NODES, IN, seed=4), conv.operator(graph.edge_index, NODES, graph.edge_weight())
    before = copy.deepcopy(conv.state_dict())
    for layer in (conv, parallel):
        torch.manual_seed(5)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
        for _ in range(3):
            optimizer.zero_grad()
            layer(x, op).square().sum().backward()
            optimizer.step()
    state = parallel.state_dict()
    for name, value in conv.state_dict().items():
        assert (value - before[name]).abs().max() > 0.01
        assert_near(state[name], value)


def check_refusals(mesh: Any, ranks: int) -> None:
    for wrong in (ranks - 1, 1):
        with pytest.raises(ParameterError, match=f"the mesh has {ranks} ranks and the layer num_stacks={wrong}"):
            parallelize_stacks(plain(num_stacks=wrong), mesh)
    if ranks == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stacks"))
        with pytest.raises(ParameterError, match="2 axes"):
            parallelize_stacks(plain(num_stacks=4), square)
        check_second_derivatives(square["stacks"])
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        check_second_derivatives(pair)
    else:
        with pytest.raises(ParameterError, match="not in the process group"):
            parallelize_stacks(plain(num_stacks=4), pair)


def check_autocast(mesh: Any) -> None:
    """Every rank goes the plain layer's way, whatever its own share would choose: the types depend on it."""
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 5)
    for stacks in (4, 5):
        torch.manual_seed(3)
        conv, x = ARMAConv(8, 4, stacks, 2), torch.randn(5, 8)
        parallel = parallelize_stacks(conv, mesh)
        with torch.autocast("cpu", torch.bfloat16):
            ours, theirs = parallel(x, op), conv(x, op)
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=2e-2)


def checks(ranks: int) -> Iterator[str]:
    mesh = init_device_mesh("cpu", (ranks,))
    check_values_and_gradients(mesh)
    yield "values and gradients"
    check_fixed_points(mesh)
    yield "fixed points"
    check_second_derivatives(dist.group.WORLD)
    yield "second derivatives"
    check_states(mesh, ranks)
    yield "states"
    check_training(mesh)
    yield "training"
    check_autocast(mesh)
    yield "autocast"
    check_refusals(mesh, ranks)
    yield "refusals"


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=100))
    for done in checks(dist.get_world_size()):
        print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {done} hold", flush=True)
    dist.destroy_process_group()
