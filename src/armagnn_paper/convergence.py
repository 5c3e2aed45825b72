"""The convergent layer of Theorem 1, the layer of T steps and a rational one: Cora, Citeseer, and long chains.

The network is one ARMA layer and a linear readout, so that the reach of the layer is that of the network. All settings
are fixed here; those of the chains were adapted on seed 0 until the strongest layer learned, the others were not chosen
by a score; training stops on validation loss and goes back to its best weights.

What a training step of the layer costs, convergent or unrolled, is measured in a process for each case:
``python -m armagnn_paper.convergence T=50`` (or ``c=0.9,anderson``, ``c=0.9,picard``, ``c=0.9,unrolled``) prints the
steps, the milliseconds of one processor and the MiB of one forward and backward pass of a layer with K = 2 stacks of 64
units on Cora's graph. Processor time, not the clock: it can be compared on a machine that others use too.

``python -m armagnn_paper.convergence judge`` compares the places of the rational pole (`PLACES`) by validation loss.
"""

from __future__ import annotations

import copy
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from armagnn.bench.comparison import peak_mib
from armagnn.checks import choice, integer
from armagnn.data import load
from armagnn.filters import ARMAFilter
from armagnn.nn import ARMAConv, RationalConv
from armagnn.nn.conv import drop
from armagnn.operators import CSR, GraphOperator
from armagnn.solvers import FixedPoint
from armagnn.tasks.node_task import accuracy, cross_entropy
from armagnn_paper.claims import Measurement, measure

DATASETS: Final = ("cora", "citeseer", "chain-50", "chain-100", "chain-500", "chain-1000")
PLAIN: Final = 20_000
"""The most steps that plain iteration is given where it is compared with the accelerated one."""

CASES: Final = (
    "T=10", "T=50", "T=200", "c=0.9,unrolled", "c=0.9,picard", "c=0.9,anderson", "c=0.99,picard", "c=0.99,anderson",
    "c=0.999,anderson",
)  # fmt: skip
"""Of the costs: a fixed number of steps; or a bound on the contraction, and how it is solved and differentiated."""

UNITS: Final = 64

FARTHEST: Final = 100
"""Hops that the convergent layer is trained for: at c = 0.999 a signal has 1e-10 of its size after 500."""

NEAR: Final = 0.9999
"""How near the pole of the rational layer may come to [-1, 1], as |w|: over d hops its signals decay by |w|^d."""

RATIONAL_LR: Final = 0.05
"""Learning rate of the rational layer."""

PLACES: Final = ((0.999, 0.01), (0.999, 0.05), (0.9999, 0.01), (0.9999, 0.05))
"""Candidates for (`NEAR`, `RATIONAL_LR`), which `judge` compares on validation data."""

JUDGED_ON: Final = ("chain-1000", (1_000_000, 1_000_001))
"""Where they are compared, and from which seeds: none of those that are reported."""


@dataclass(frozen=True)
class ConvergenceRow:
    """One line of ``results/convergence.csv``."""

    dataset: str
    method: str
    protocol: str
    run: int
    seed: int
    metric: str
    value: float


@dataclass(frozen=True)
class ReachTask:
    """A graph, its features and labels, and which nodes are for what; and how a network is trained on it.

    Attributes:
        units: F_out of the layer.
        act: its activation.
        dropout: on the features, on the skip connections and on the hidden units.
        identity: start from W = I, so that all methods can carry a signal far; otherwise from Glorot's.
        enough: the validation loss at which a task is solved, and training ends.
    """

    x: Tensor | CSR
    op: GraphOperator
    y: Tensor
    idx: dict[str, Tensor]
    units: int = 16
    stacks: int = 2
    act: str | None = "relu"
    dropout: float = 0.5
    lr: float = 0.01
    l2: float = 5e-4
    epochs: int = 200
    patience: int = 30
    identity: bool = False
    bias: bool = True
    enough: float = 0.0


def chain(hops: int, counts: tuple[int, int, int] = (4, 4, 12)) -> ReachTask:
    """Chains of ``hops`` + 1 nodes, of two classes: the first node shows the class, and the last is to be classified.

    Only the first node has features: one of two, by the class, of a strength between 0.5 and 1.5. Nothing that is
    nearer to the last node tells it anything.

    Example:
        >>> task = chain(3, (1, 1, 0))
        >>> task.x.nonzero().tolist(), task.y[task.idx["train"]].tolist(), task.idx["train"].tolist()
        ([[0, 0], [4, 1]], [0], [3])
    """
    number, length = sum(counts), hops + 1
    node = torch.arange(number * length).view(number, length)
    edges = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    op = GraphOperator.from_edge_index(torch.cat([edges, edges.flip(0)], dim=1), number * length)
    label = torch.arange(number) % 2
    x = torch.zeros(number * length, 2)
    x[node[:, 0], label] = 0.5 + torch.rand(number, generator=torch.Generator().manual_seed(0))
    y = label.repeat_interleave(length)
    idx = dict(zip(("train", "val", "test"), torch.split(node[:, -1], list(counts)), strict=True))
    # small steps, because W must stay near the bound; linear, as the filter of Eq. 8
    return ReachTask(
        x, op, y, idx, units=4, stacks=1, act=None, dropout=0.0, lr=1e-3, l2=0.0, epochs=40, identity=True,
        bias=False, enough=0.1,
    )  # fmt: skip


def problem(name: str) -> ReachTask:
    """The task of a name: a citation network, or chains."""
    choice("dataset", name, DATASETS)
    if name.startswith("chain-"):
        return chain(int(name.removeprefix("chain-")))
    data = load(name)
    return ReachTask(data.x, data.operator(), data.y, {split: data.idx(split) for split in ("train", "val", "test")})


def one_pole(near: float = NEAR) -> dict[str, Any]:
    """The arguments of a `RationalConv` with one real pole, which begins as near to [-1, 1] as it may."""
    pole = 2 * near / (1 + near**2)  # its residue makes h(M) of order one far away
    start = ARMAFilter([pole], [(1 - pole**2) ** 0.5])
    return {"order": 1, "init": start, "radius": near, "method": "exact"}


def methods(name: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What is compared on a dataset: (method, protocol), and the arguments of `ARMAConv`, or of `RationalConv`."""
    choice("dataset", name, DATASETS)
    hops = int(name.removeprefix("chain-")) if name.startswith("chain-") else 0
    bounds = (0.9, 0.99, 0.999) if 0 < hops <= FARTHEST else (0.9,) if hops == 0 else ()
    fixed = {("arma", f"T={steps}"): {"num_layers": steps} for steps in (10, 100)}
    convergent = {
        ("convergent", f"c={bound}"): {"fixed_point": FixedPoint(tol=1e-4, max_iter=5000, contraction=bound)}
        for bound in bounds
    }
    return fixed | convergent | ({("rational", "K=1"): one_pole()} if hops else {})


class Net(nn.Module):
    """logits = readout(dropout(conv(dropout(X))))."""

    def __init__(self, task: ReachTask, options: dict[str, Any]) -> None:
        super().__init__()
        classes = int(task.y.max()) + 1
        self.dropout = task.dropout
        self.conv: Any
        if "order" in options:
            self.conv = RationalConv(task.x.shape[1], task.units, act=task.act, bias=task.bias, **options)
        else:
            self.conv = ARMAConv(
                task.x.shape[1], task.units, task.stacks, act=task.act, dropout=task.dropout, bias=task.bias, **options
            )
        if task.identity and "order" not in options:
            with torch.no_grad():
                self.conv.weight.copy_(torch.eye(task.units).expand_as(self.conv.weight))
        self.readout = nn.Linear(task.units, classes)

    def forward(self, x: Tensor | CSR, op: GraphOperator) -> Tensor:
        """Logits of all nodes."""
        hidden = self.conv(drop(x, self.dropout, self.training), op)
        logits: Tensor = self.readout(drop(hidden, self.dropout, self.training))
        return logits


def train(task: ReachTask, options: dict[str, Any], seed: int, rational_lr: float = RATIONAL_LR) -> dict[str, float]:
    """Train a network once, and return the metrics of the weights with the lowest validation loss."""
    torch.manual_seed(seed)
    net = Net(task, options)
    if isinstance(net.conv, RationalConv):  # whose systems are nearly singular
        assert isinstance(task.x, Tensor)
        net, task = net.double(), replace(task, x=task.x.double(), op=task.op.to(torch.float64), lr=rational_lr)
    optimizer = torch.optim.Adam(net.parameters(), lr=task.lr, weight_decay=2 * task.l2)
    best, state, waited, epoch = float("inf"), copy.deepcopy(net.state_dict()), 0, 0
    adjoint: list[int] = []
    start = time.perf_counter()
    while epoch < task.epochs and waited < task.patience and best > task.enough:
        epoch, waited = epoch + 1, waited + 1
        logits, statistics = net.train()(task.x, task.op), net.conv.statistics
        # without dropout one pass serves for both
        found = evaluate(net, task, "val", None if task.dropout else logits)["loss"]
        if found < best:
            best, waited, state = found, 0, copy.deepcopy(net.state_dict())
        loss = cross_entropy(logits[task.idx["train"]], task.y[task.idx["train"]])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        adjoint += [] if statistics is None or statistics.adjoint is None else statistics.adjoint.steps
    seconds = time.perf_counter() - start
    net.load_state_dict(state)
    val, test = evaluate(net, task, "val"), evaluate(net, task, "test")
    metrics = {
        "accuracy": test["accuracy"], "val_accuracy": val["accuracy"], "val_loss": val["loss"],
        "epochs": float(epoch), "seconds": seconds,
    }  # fmt: skip
    if isinstance(net.conv, RationalConv):
        assert net.conv.statistics is not None
        metrics["steps"], metrics["adjoint_steps"] = _mean(net.conv.statistics.steps), _mean(adjoint)
    elif net.conv.statistics is not None:
        norms = torch.linalg.matrix_norm(net.conv.bounded_weight.detach(), 2)
        metrics["contraction"] = float(norms.max())
        metrics["steps"] = _mean(net.conv.statistics.steps)
        metrics["adjoint_steps"] = _mean(adjoint)
        metrics["plain_steps"] = _mean(plain_steps(net, task))
    return metrics


@torch.no_grad()
def evaluate(net: Net, task: ReachTask, split: str, logits: Tensor | None = None) -> dict[str, float]:
    """Loss, and accuracy in per cent, on the nodes of a split; from logits that are there already, if given."""
    logits = net.eval()(task.x, task.op) if logits is None else logits
    logits, y = logits[task.idx[split]], task.y[task.idx[split]]
    return {"loss": float(cross_entropy(logits, y)), "accuracy": 100 * float(accuracy(logits, y))}


@torch.no_grad()
def plain_steps(net: Net, task: ReachTask) -> list[int]:
    """The steps that plain iteration takes to the same tolerance."""
    assert net.conv.fixed_point is not None
    plain = copy.deepcopy(net.eval())
    plain.conv.fixed_point = replace(net.conv.fixed_point, solver="picard", max_iter=PLAIN, on_failure="warn")
    plain(task.x, task.op)
    assert plain.conv.statistics is not None
    found: list[int] = plain.conv.statistics.steps
    return found


def judge(
    dataset: str = JUDGED_ON[0], seeds: tuple[int, ...] = JUDGED_ON[1], places: Iterable[tuple[float, float]] = PLACES
) -> Iterator[tuple[float, float, float]]:
    """Yield (radius, learning rate, mean validation loss) of every place of the rational layer's pole.

    The labels of the test nodes are not in the task that is trained.
    """
    task = problem(dataset)
    task = replace(task, idx=task.idx | {"test": task.idx["val"]})
    for near, lr in places:
        losses = [train(task, one_pole(near), seed, lr)["val_loss"] for seed in seeds]
        yield near, lr, statistics.fmean(losses)


def run(path: Path, datasets: Iterable[str] = DATASETS, seeds: int = 10) -> Iterator[str]:
    """Train what is missing from a table, and add it training by training; yield a line for each."""
    datasets = [datasets] if isinstance(datasets, str) else list(datasets)
    integer("seeds", seeds, 1, 100_000)
    for name in datasets:
        choice("dataset", name, DATASETS)
    for job, rows in measure(_jobs(datasets, seeds), path, seeds, ConvergenceRow):
        shown = ", ".join(f"{row.metric} {row.value:.4g}" for row in rows)
        dataset, method, protocol, seed = job.covers.values()
        yield f"{dataset} {method} {protocol} seed {seed}: {shown}"


def _jobs(datasets: Iterable[str], seeds: int) -> Iterator[Measurement]:
    for name in datasets:
        task = problem(name)
        for (method, protocol), options in methods(name).items():
            for seed in range(seeds):
                cell: dict[str, str | int] = {"dataset": name, "method": method, "protocol": protocol, "run": seed}
                yield Measurement(cell, partial(_rows, cell, task, options))


def _rows(cell: dict[str, Any], task: ReachTask, options: dict[str, Any], runs: int) -> list[ConvergenceRow]:
    metrics = train(task, options, cell["run"])
    return [ConvergenceRow(**cell, seed=cell["run"], metric=metric, value=value) for metric, value in metrics.items()]


def _mean(numbers: list[int]) -> float:
    return sum(numbers) / max(len(numbers), 1)


# ---------------------------------------------------------------------------------------------------------------- costs


def options_of(case: str) -> dict[str, Any]:
    """The arguments of `ARMAConv` for a case.

    Example:
        >>> options_of("T=50")
        {'num_layers': 50}
        >>> options_of("c=0.9,unrolled")["fixed_point"].backward
        'unrolled'
    """
    kind, _, number = choice("case", case, CASES).partition("=")
    number, _, way = number.partition(",")
    if kind == "T":
        return {"num_layers": int(number)}
    fixed_point = FixedPoint(1e-4, 5000, float(number))
    if way == "unrolled":
        return {"fixed_point": replace(fixed_point, backward="unrolled")}
    return {"fixed_point": replace(fixed_point, solver=way)}  # type: ignore[arg-type]


def cost(case: str, runs: int = 5) -> tuple[float, float, float]:
    """Return the mean steps of a stack, the median milliseconds and the peak MiB of a training step."""
    integer("runs", runs, 1, 100_000)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    op = load("cora").operator()
    conv = ARMAConv(UNITS, UNITS, 2, act="relu", **options_of(case))
    with torch.no_grad():  # so that the contraction is as weak as the bound lets it be
        conv.weight.copy_(torch.eye(UNITS).expand_as(conv.weight))
    x = torch.randn(op.num_nodes, UNITS)

    def step(x: Tensor, op: GraphOperator) -> float:
        start = time.process_time()
        conv(x, op).square().mean().backward()
        return 1e3 * (time.process_time() - start)

    step(x[:2], GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]])))  # loads what is needed once
    peak = peak_mib(lambda: step(x, op))
    taken = conv.num_layers if conv.statistics is None else statistics.fmean(conv.statistics.steps)
    return float(taken), statistics.median(step(x, op) for _ in range(runs)), peak


def costs() -> Iterator[tuple[str, float, float, float]]:
    """Yield (case, steps, milliseconds, MiB) for all cases."""
    for case in CASES:
        command = [sys.executable, "-m", "armagnn_paper.convergence", case]
        printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        yield case, *(float(number) for number in printed)  # type: ignore[misc]


if __name__ == "__main__":
    if sys.argv[1] == "judge":
        for place in judge():
            print(*(f"{number:.6g}" for number in place), flush=True)
    else:
        print(*(f"{number:.4g}" for number in cost(sys.argv[1])))
