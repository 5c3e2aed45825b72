"""What runs on every rank: trainings on a partition beside those of one process on the whole graph, in float64."""

from __future__ import annotations

import datetime
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

sys.path.insert(0, str(Path(__file__).parents[1]))

from armagnn import GraphOperator
from armagnn.data import NodeDataset
from armagnn.distributed import PartitionedOperator, parallelize_stacks, partition_dataset
from armagnn.distributed.halo import Halo
from armagnn.distributed.part_operator import load_part, own_rows, part_operator
from armagnn.distributed.part_task import PartTask
from armagnn.distributed.part_training import PartTrials
from armagnn.distributed.partition_report import PartitionReport, widths_of_arma
from armagnn.distributed.rank_groups import agreed, any_rank, gathered, shared
from armagnn.errors import ConvergenceError, RankError
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint
from armagnn.tasks import NodeNet, NodeTask, conv_options
from armagnn.training import Setting, Trials
from oracles import assert_near, numbers, random_graph

NODES = 60
RATES = (0.3, 0.4, 0.2)


def dataset(task: str, directed: bool = False, sparse: bool = False) -> NodeDataset:
    """Isolated nodes and a hub that everybody knows; every kind of target, weights on the edges."""
    found = random_graph(NODES, 90, seed=3, lone=3)
    hub = np.arange(1, NODES - 3)
    pairs = {(a, b) for a, b in zip(found.source.tolist(), found.target.tolist(), strict=True) if a != b}
    pairs |= {(int(node), 0) for node in hub}
    if not directed:
        pairs |= {(b, a) for a, b in pairs}
    index = torch.tensor(sorted(pairs)).T
    weight = 1.0 + ((index[0] * index[1]) % 3) / 2
    x = numbers(NODES, 5, seed=4).float()
    if sparse:
        x = x * (numbers(NODES, 5, seed=5) > 0)
    y: Any = torch.arange(NODES) % 3
    if task == "labels":
        y = torch.stack([(torch.arange(NODES) % k == 0).float() for k in (2, 3, 5)], 1)
    if task == "number":
        y = numbers(NODES, 1, seed=6).squeeze(1).float() * 3 + 7
    order = torch.from_numpy(np.random.default_rng(0).permutation(NODES))
    from armagnn import CSR

    features: Any = CSR.from_dense(x) if sparse else x
    return NodeDataset(
        f"{task} {directed} {sparse}", features, index, y, order[:20].sort().values, order[20:40].sort().values,
        order[40:].sort().values, 0 if task == "number" else 3, "0" * 64, edge_weight=weight,
    )  # fmt: skip


def folder_of(data: NodeDataset, parts: int, order: str = "blocks") -> str:
    """A partition that the first rank makes and all ranks load."""
    folder = shared(tempfile.mkdtemp(), world())
    if dist.get_rank() == 0:
        partition_dataset(data, folder, parts, order=order)
    dist.barrier()
    return folder


def world() -> Any:
    return dist.group.WORLD


def reals(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def outcome(trials: Trials) -> Any:
    (found,) = trials.run()
    return found


def check_operators() -> None:
    for directed in (False, True):
        data = dataset("classes", directed)
        for parts in (dist.get_world_size(), 7, 90):  # in ninety parts of sixty nodes some have none
            folder = folder_of(data, parts)
            part = load_part(folder, world())
            for kind in ("arma", "gcn", "laplacian", "adjacency"):
                op = part_operator(part, world(), kind, dtype=torch.float64)
                truth = data.operator(kind, dtype=torch.float64)
                assert (op.symmetric, op.unit_diagonal) == (truth.symmetric, truth.unit_diagonal)
                x = numbers(NODES, 3, seed=8)
                assert_near(op @ own_rows(x, op), own_rows(truth @ x, op))
                assert_near(op.dense_rows(), truth.to_dense()[op.first_node : op.first_node + op.num_nodes])


def check_trainings() -> None:
    """Twenty epochs of Adam with dropout of features, hidden units and skip connections; losses and all metrics."""
    for task, conv, options in (
        ("classes", "arma", {"balance": True}),
        ("classes", "gcn", {"sparse": True}),
        ("labels", "arma", {"balance": True, "directed": True}),
        ("number", "chebyshev", {}),
        ("classes", "mlp", {}),
    ):
        balance = bool(options.pop("balance", False))
        data = dataset(task, **options)
        part = load_part(folder_of(data, dist.get_world_size() + 1), world())

        def build(conv: str = conv, outputs: int = data.num_outputs) -> NodeNet:
            return NodeNet(conv, 5, outputs, hidden=8, options=conv_options(conv, 2, 2))

        setting = [Setting(3, lr=0.02, l2=1e-3, rates=RATES)]
        common: dict[str, Any] = {"epochs": 20, "patience": 30, "stop_on": "loss", "dtype": torch.float64}
        net = build().double()
        one = outcome(Trials(build, NodeTask(data, net, torch.float64, balance=balance), setting, **common))
        ours = PartTask(part, net, world(), torch.float64, balance=balance)
        many = outcome(PartTrials(build, ours, setting, **common))
        for name in one.history:
            assert_near(reals(many.history[name]), reals(one.history[name]), 1e-10)
        for split in ("val", "test"):
            expected, found = getattr(one, split), getattr(many, split)
            assert expected.keys() == found.keys()
            assert_near(reals(list(found.values())), reals(list(expected.values())), 1e-9)
        for name, weight in one.state.items():
            assert_near(many.state[name], weight, 1e-9)
        assert one.history["train_loss"][-1] < one.history["train_loss"][0]


def check_bytes() -> None:
    """What a training step sends is what the formula says, on every rank."""
    sent: list[int] = []
    launch = Halo.launch

    def counted(halo: Halo, rows: Any, *, back: bool) -> Any:
        sent.append(sum(halo.receives if back else halo.sends) * rows[0:1].numel() * rows.element_size())
        assert rows.shape[0] == sum(halo.receives if back else halo.sends)
        width = rows.shape[1:].numel()
        sent[-1] = rows.shape[0] * width * rows.element_size()
        return launch(halo, rows, back=back)

    for sparse in (False, True):
        data = dataset("classes", sparse=sparse)
        folder = folder_of(data, dist.get_world_size())
        part = load_part(folder, world())
        net = NodeNet("arma", 5, 3, hidden=8, options={"num_stacks": 2, "num_layers": 2})
        task = PartTask(part, net, world())
        Halo.launch = counted  # type: ignore[method-assign]
        sent.clear()
        task.loss(net.train(), task.batch()).backward()
        Halo.launch = launch  # type: ignore[method-assign]
        widths = widths_of_arma(5, 3, hidden=8, stacks=2, layers=2, sparse=sparse)
        expected = PartitionReport.of(Path(folder)).bytes_sent(widths)[dist.get_rank()]
        assert sum(sent) == expected, (sum(sent), expected, widths)


def check_errors_are_heard() -> None:
    """The error of one rank is everybody's within seconds, and the group goes on."""
    last = dist.get_world_size() - 1
    began = time.monotonic()
    wanted = ConvergenceError if dist.get_rank() == last else RankError

    def work() -> None:
        with agreed(world()):
            if dist.get_rank() == last:
                raise ConvergenceError("no fixed point")

    with pytest.raises(wanted, match="no fixed point"):
        work()
    assert any_rank(dist.get_rank() == last, world())
    assert not any_rank(False, world())
    rows = gathered(torch.full((dist.get_rank(), 2), float(dist.get_rank())), world())
    assert rows[:, 0].tolist() == [float(rank) for rank in range(last + 1) for _ in range(rank)]

    stacks = dist.get_world_size()
    conv = ARMAConv(3, 4, num_stacks=stacks, fixed_point=FixedPoint(tol=1e-9)).double()
    parallel = parallelize_stacks(conv, world())
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), dtype=torch.float64)
    if dist.get_rank() == last:
        parallel.local.fixed_point = FixedPoint(max_iter=1, tol=1e-300)
    with pytest.raises(wanted, match="" if dist.get_rank() == last else f"rank {last} raised ConvergenceError"):
        parallel(numbers(3, 3), op)
    assert time.monotonic() - began < 20


def check_meshes() -> None:
    """Rows on one axis of a mesh and stacks, or copies of the data, on the other."""
    count = dist.get_world_size()
    if count % 2:
        return
    mesh = init_device_mesh("cpu", (count // 2, 2), mesh_dim_names=("rows", "others"))
    data = dataset("classes")
    op, x = data.operator(dtype=torch.float64), numbers(NODES, 5, seed=4)
    part = PartitionedOperator.from_operator(op, mesh["rows"])
    for dropout in (0.0, 0.4):
        torch.manual_seed(1)
        conv = ARMAConv(5, 4, num_stacks=3, num_layers=2, dropout=dropout).double()
        parallel = parallelize_stacks(conv, mesh["others"])
        given, rows = x.clone().requires_grad_(), own_rows(x, part).clone().requires_grad_()
        torch.manual_seed(7)
        truth = conv(given, op)
        torch.manual_seed(7)
        ours = parallel(rows, part)
        assert_near(ours, own_rows(truth, part), 1e-10)
        direction = numbers(NODES, 4, seed=9)
        (expected,) = torch.autograd.grad((truth * direction).sum(), given)
        (found,) = torch.autograd.grad((ours * own_rows(direction, part)).sum(), rows)
        assert_near(found, own_rows(expected, part), 1e-10)
    # data parallelism: each of the others has features of its own, and the gradient is the mean of theirs
    torch.manual_seed(2)
    net, alone = (ARMAConv(5, 4, num_stacks=2).double() for _ in range(2))
    alone.load_state_dict(part.shared(net).state_dict())
    which = mesh.get_local_rank("others")
    part.total(net(own_rows(numbers(NODES, 5, seed=20 + which), part), part).square().sum()).backward()
    sum((alone(numbers(NODES, 5, seed=20 + each), op).square().sum() for each in range(2)), torch.zeros(())).backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None
        dist.all_reduce(weight.grad, group=mesh["others"].get_group())
        assert_near(weight.grad, alone.get_parameter(name).grad, 1e-10)


CHECKS = {
    "operators": check_operators,
    "trainings": check_trainings,
    "bytes": check_bytes,
    "errors are heard": check_errors_are_heard,
    "meshes": check_meshes,
}


def main() -> None:
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=100))
    for name, check in list(CHECKS.items())[-1 if "--last" in sys.argv else 0 :]:
        check()
        print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {name} hold", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
