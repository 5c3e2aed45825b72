"""What runs on every rank: a partitioned operator beside the whole one, which each rank computes with by itself."""

from __future__ import annotations

import datetime
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from armagnn import CSR, GraphOperator
from armagnn.distributed import PartitionedOperator
from armagnn.errors import GraphError, ParameterError, UnsupportedError
from armagnn.filters import ARMAFilter, ChebyshevFilter, FilterBank, PolynomialFilter
from armagnn.nn import ARMAConv, CayleyConv, ChebConv, GATConv, GCNConv, RationalConv, SAGEConv
from armagnn.solvers import FixedPoint, Statistics
from armagnn.spectral import spectral_density, spectrum
from oracles import Graph, assert_near, numbers, random_graph

NODES, IN, OUT = 17, 3, 5


def graph(directed: bool = False) -> Graph:
    """Isolated nodes, self-loops and parallel edges, and a hub that everybody knows."""
    found = random_graph(NODES, 30, seed=3, lone=2)
    hub = torch.arange(NODES - 2).numpy()
    found = Graph(
        NODES,
        torch.cat([torch.from_numpy(found.source), torch.from_numpy(hub)]).numpy(),
        torch.cat([torch.from_numpy(found.target), torch.from_numpy(hub * 0)]).numpy(),
        torch.cat([torch.from_numpy(found.weight), torch.ones(len(hub))]).numpy(),
    )
    return found if directed else found.both_ways()


def operators(kind: Any, directed: bool = False, loops: bool = True) -> GraphOperator:
    edges = graph(directed)
    keep = torch.from_numpy(edges.source != edges.target) if not loops else torch.ones(len(edges.source)).bool()
    index, weight = edges.edge_index[:, keep], edges.edge_weight()[keep]
    return GraphOperator.from_edge_index(index, NODES, weight, kind)


def layouts(op: GraphOperator) -> list[list[int] | None]:
    """Balanced, a rank with one node, and ranks without any."""
    ranks = dist.get_world_size()
    few = [min(r, 1) for r in range(ranks)] + [NODES]
    empty = [0] * ranks + [NODES]
    return [None, few, empty, [0] + [NODES] * ranks]


def mine(part: PartitionedOperator, x: Tensor) -> Tensor:
    """This rank's rows of x, shape (..., N, F)."""
    return x[..., part.first_node : part.first_node + part.num_nodes, :]


def everything(part: PartitionedOperator, rows: Tensor) -> Tensor:
    """All rows, from those of each rank."""
    whole = rows.new_zeros(*rows.shape[:-2], part.total_nodes, rows.shape[-1])
    whole[..., part.first_node : part.first_node + part.num_nodes, :] = rows.detach()
    dist.all_reduce(whole)
    return whole


def check_products() -> None:
    for directed in (False, True):
        for kind in ("arma", "gcn", "laplacian", "adjacency"):
            op = operators(kind, directed)
            for starts in layouts(op):
                part = PartitionedOperator.from_operator(op, dist.group.WORLD, starts)
                assert_near(part.dense_rows(), op.to_dense()[part.first_node : part.first_node + part.num_nodes])
                for shape in ((NODES, 4), (2, NODES, 3)):
                    x = numbers(*shape, seed=1).requires_grad_()
                    own = mine(part, x.detach()).clone().requires_grad_()
                    out, truth = part @ own, op @ x
                    assert_near(out, mine(part, truth))
                    direction = numbers(*shape, seed=2)
                    (g,) = torch.autograd.grad((out * mine(part, direction)).sum(), own, create_graph=True)
                    (expected,) = torch.autograd.grad((truth * direction).sum(), x)
                    assert_near(g, mine(part, expected))
    for dtype in (torch.float32, torch.bfloat16):
        op = operators("arma").to(dtype)
        part = PartitionedOperator.from_operator(op, dist.group.WORLD)
        x = numbers(NODES, 4, seed=1).to(dtype)
        assert_near(part @ mine(part, x), mine(part, op.to(torch.float64) @ x.double()))


def check_values_and_second_derivatives() -> None:
    """Gradients of the nonzeros; derivatives of gradients, through the exchange the other way."""
    op = operators("arma", directed=True)
    for starts in layouts(op):
        part = PartitionedOperator.from_operator(op, dist.group.WORLD, starts)
        low, high = (int(op.rowptr[part.first_node + end]) for end in (0, part.num_nodes))
        value = op.value.clone().requires_grad_()
        own = part.value.clone().requires_grad_()
        x = numbers(NODES, 4, seed=1).requires_grad_()
        rows = mine(part, x.detach()).clone().requires_grad_()
        truth = (op.with_value(value) @ x).tanh().square().sum()
        ours = part.total((part.with_value(own) @ rows).tanh().square().sum())
        assert_near(ours, truth)
        of_x, of_value = torch.autograd.grad(truth, [x, value], create_graph=True)
        of_rows, of_own = torch.autograd.grad(ours, [rows, own], create_graph=True)
        assert_near(of_rows, mine(part, of_x))
        assert_near(of_own, of_value[low:high])
        (second,) = torch.autograd.grad(of_x.square().sum(), x)
        (ours_second,) = torch.autograd.grad(part.total(of_rows.square().sum()), rows)
        assert_near(ours_second, mine(part, second))


LAYERS: list[tuple[Any, dict[str, Any]]] = [
    (ARMAConv, {"num_stacks": 3, "num_layers": 3}),
    (ARMAConv, {"num_stacks": 2, "num_layers": 2, "init": "zero", "act": "elu", "bias": False}),
    (ARMAConv, {"num_stacks": 2, "num_layers": 2, "init": "tied", "act": nn.PReLU(dtype=torch.float64)}),
    (ARMAConv, {"num_stacks": 1, "num_layers": 1, "shared_weights": False, "act": None}),
    (ARMAConv, {"num_stacks": 2, "num_layers": 3, "checkpoint": True}),
    (GCNConv, {}),
    (ChebConv, {"order": 4}),
    (CayleyConv, {"order": 2}),
]


def check_layers() -> None:
    sparse = numbers(NODES, IN, seed=4) * (numbers(NODES, IN, seed=5) > 0)
    for make, options in LAYERS:
        for dropout in (0.0, 0.4):
            torch.manual_seed(1)
            conv = make(IN, OUT, dropout=dropout, **options).double()
            op = operators(conv.kind, loops=make is not CayleyConv)
            for starts in layouts(op)[:3]:
                part = PartitionedOperator.from_operator(op, dist.group.WORLD, starts)
                for x in (numbers(NODES, IN, seed=4), numbers(2, NODES, IN, seed=4), CSR.from_dense(sparse)):
                    check_layer(conv, op, part, x)


def check_layer(conv: nn.Module, op: GraphOperator, part: PartitionedOperator, x: Any) -> None:
    """Values, gradients of features and of weights, with the masks of one process."""
    if isinstance(x, CSR):
        rows: Any = CSR.from_dense(mine(part, x.to_dense()))
        learned = list(conv.parameters())
        ours_learned = learned
    else:
        x, rows = x.requires_grad_(), mine(part, x.detach()).clone().requires_grad_()
        learned, ours_learned = [x, *conv.parameters()], [rows, *conv.parameters()]
    torch.manual_seed(7)
    truth = conv(x, op)
    torch.manual_seed(7)
    ours = conv(rows, part)
    assert truth.abs().max() > 0.05
    assert_near(ours, mine(part, truth), 1e-10)
    direction = numbers(*truth.shape, seed=9)
    expected = torch.autograd.grad((truth * direction).sum(), learned)
    found = torch.autograd.grad((ours * mine(part, direction)).sum(), ours_learned)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        if learned[k] is x:
            assert_near(a, mine(part, b), 1e-10)
        else:
            whole = a.clone()
            dist.all_reduce(whole)
            assert_near(whole, b, 1e-10)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = ARMAConv(IN, 8, num_stacks=2, num_layers=2, dropout=0.3).double()
        self.conv2 = ARMAConv(8, 4, num_stacks=2, num_layers=2, dropout=0.3, act=None).double()

    def forward(self, x: Tensor, op: GraphOperator) -> Tensor:
        out: Tensor = self.conv2(self.conv1(x, op), op)
        return out


def train(net: Net, x: Tensor, y: Tensor, op: GraphOperator) -> list[float]:
    """Twenty steps of Adam, all of it as in one process: the loss is a mean over all nodes."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    torch.manual_seed(5)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = op.total(nn.functional.cross_entropy(net(x, op), y, reduction="sum")) / op.total_nodes
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def check_training() -> None:
    op, x = operators("arma"), numbers(NODES, IN, seed=4)
    y = torch.arange(NODES) % 4
    part = PartitionedOperator.from_operator(op, dist.group.WORLD)
    torch.manual_seed(2)
    one = Net()
    many = Net()
    if dist.get_rank() == 0:
        many.load_state_dict(one.state_dict())
    expected = train(one, x, y, op)
    own = slice(part.first_node, part.first_node + part.num_nodes)
    found = train(part.shared(many), x[own], y[own], part)  # type: ignore[arg-type]  # the same module
    assert_near(torch.tensor(found, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64), 1e-10)
    assert expected[-1] < 0.9 * expected[0]
    for a, b in zip(many.parameters(), one.parameters(), strict=True):
        assert_near(a, b, 1e-9)


def check_fixed_points() -> None:
    op, x = operators("arma", loops=False), numbers(NODES, IN, seed=4)
    for starts in layouts(op)[:3]:
        part = PartitionedOperator.from_operator(op, dist.group.WORLD, starts)
        for solver in ("anderson", "picard"):
            torch.manual_seed(1)
            how = FixedPoint(tol=1e-12, contraction=0.8, solver=solver)
            conv = ARMAConv(IN, OUT, num_stacks=3, dropout=0.4, act="tanh", fixed_point=how).double()
            check_layer(conv, op, part, x.clone())
            assert conv.statistics is not None
            steps = torch.tensor(conv.statistics.steps)
            most = part.most(steps)
            assert torch.equal(most, steps)  # all ranks took the same steps


def check_filters() -> None:
    op, x = operators("arma"), numbers(NODES, 2, seed=4)
    part = PartitionedOperator.from_operator(op, dist.group.WORLD)
    exact: list[Statistics] = []
    for f, options in (
        (PolynomialFilter([0.5, 0.3, 0.2]), {}),
        (ChebyshevFilter.design("heat", order=8), {}),
        (ARMAFilter(a=[0.9, -0.5], b=[0.1, 0.2]), {"statistics": exact}),
        (ARMAFilter(a=[0.9, -0.5], b=[0.1, 0.2]), {"method": "recursion"}),
    ):
        c = x.clone().requires_grad_()
        rows = mine(part, x).clone().requires_grad_()
        truth, ours = (
            f.filter(op, c, **{k: v for k, v in options.items() if k != "statistics"}),
            f.filter(part, rows, **options),
        )
        assert_near(ours, mine(part, truth), 1e-10)
        (a,) = torch.autograd.grad(ours.square().sum(), rows)
        (b,) = torch.autograd.grad(truth.square().sum(), c)
        assert_near(a, mine(part, b), 1e-10)
    assert exact[0].converged
    one, many = (spectral_density(each, moments=20, probes=3, seed=4).moments for each in (op, part))
    assert_near(many, one, 1e-10)


RATIONAL: list[dict[str, Any]] = [
    {"order": 4},
    {"order": 2, "groups": 5, "init": [0.8j, -0.8j], "method": "exact", "act": "tanh", "dropout": 0.4},
    {"order": 2, "method": "series", "radius": 0.8},
]


def check_rational() -> None:
    """Layers; a bank of filters; gradients of edge values that are learned; the same steps on every rank."""
    op, x = operators("arma"), numbers(NODES, IN, seed=4)
    for options in RATIONAL:
        torch.manual_seed(1)
        conv = RationalConv(IN, OUT, **options).double()
        for starts in layouts(op)[1:3]:
            check_layer(conv, op, PartitionedOperator.from_operator(op, dist.group.WORLD, starts), x.clone())
    bank = FilterBank.of([0.9, "high-pass", ARMAFilter([0.4 + 0.5j, 0.4 - 0.5j], [0.3 + 0.1j, 0.3 - 0.1j])])
    edges = graph()
    weight = edges.edge_weight().requires_grad_()
    conv = RationalConv(IN, OUT, order=4, method="exact").double()
    for starts in layouts(op)[::2]:
        part = PartitionedOperator.from_operator(op, dist.group.WORLD, starts)
        log: list[Statistics] = []
        assert_near(bank.filter(part, mine(part, x), statistics=log), mine(part, bank.filter(op, x)), 1e-10)
        steps = torch.tensor([how.steps for how in log])
        assert torch.equal(part.most(steps), steps)
        assert torch.equal(part.most(-steps), -steps)
        wrong = x.clone()
        wrong[3, 1] = torch.nan  # of a node of some rank; its column is NaN on all
        found = bank.filter(part, mine(part, wrong))
        assert found[..., 1].isnan().all()
        assert not found[..., 0].isnan().any()
        whole = GraphOperator.from_edge_index(edges.edge_index, NODES, weight)
        learned = PartitionedOperator.from_operator(whole, dist.group.WORLD, starts)
        truth, ours = conv(x, whole), conv(mine(part, x), learned)
        assert_near(ours, mine(part, truth), 1e-10)
        (expected,) = torch.autograd.grad(truth.square().sum(), weight, retain_graph=True)
        (partly,) = torch.autograd.grad(ours.square().sum(), weight)
        dist.all_reduce(partly)
        assert expected.abs().max() > 1e-3
        assert_near(partly, expected, 1e-10)


def check_counts_and_refusals() -> None:
    op = operators("arma")
    part = PartitionedOperator.from_operator(op, dist.group.WORLD)
    sent = torch.tensor([part.halo.bytes_sent(7, torch.float64), len(part.halo.wanted) * 7 * 8])
    dist.all_reduce(sent)
    assert sent[0] == sent[1]  # what is sent is what the halos are
    near = PartitionedOperator.from_operator(operators("adjacency"), dist.group.WORLD)
    x = mine(part, numbers(NODES, IN))
    for refused in (
        part.to_dense,
        part.to_scipy,
        lambda: spectrum(part),
        lambda: GATConv(IN, 8).double()(x, near),
        lambda: SAGEConv(IN, 8).double()(x, near),
        lambda: torch.func.vmap(lambda z: part @ z)(torch.stack([x, x])),
    ):
        try:
            refused()
        except UnsupportedError:
            continue
        raise AssertionError("it was not refused")
    for starts in ([0, 3], [0] * (dist.get_world_size() + 1), [1] + [NODES] * dist.get_world_size(), 3):
        try:
            PartitionedOperator.from_operator(op, dist.group.WORLD, starts)  # type: ignore[arg-type]
        except (GraphError, ParameterError):
            continue
        raise AssertionError(f"{starts} was not refused")


CHECKS = {
    "products": check_products,
    "values and second derivatives": check_values_and_second_derivatives,
    "layers": check_layers,
    "training": check_training,
    "fixed points": check_fixed_points,
    "filters": check_filters,
    "rational": check_rational,
    "counts and refusals": check_counts_and_refusals,
}


def run(checks: Mapping[str, Callable[[], None]], seconds: int) -> None:
    """Make all checks on the ranks there are, which wait for each other for at most `seconds`."""
    warnings.simplefilter("error", UserWarning)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=seconds))
    for name, check in checks.items():
        check()
        print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {name} hold", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    run(CHECKS, 100)
