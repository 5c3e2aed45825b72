"""The rows of ``armagnn bench cpu`` that measure layers, products and trials: ours and the peers' side by side."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn

from armagnn import CSR, GraphOperator
from armagnn.bench.comparison import STATUS, Comparison, check_sizes, compared, in_turns, medians, peak_mib
from armagnn.checks import choice, integer
from armagnn.data import NodeDataset, load
from armagnn.errors import ParameterError, shown
from armagnn.nn import ARMAConv
from armagnn.nn.gat_conv import HEADS, GATConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.sage_conv import SAGEConv
from armagnn.training import NodesConfig

BATCHED: Final = 3.0
"""How many times faster ten seeds are as one batch, at least."""


def random_graph(nodes: int, nonzeros: int, seed: int = 0) -> Tensor:
    """Return the edges of an undirected random graph, both directions, shape (2, nonzeros)."""
    check_sizes(nodes=nodes, nonzeros=nonzeros)
    generator = torch.Generator().manual_seed(integer("seed", seed, 0))
    half = torch.randint(0, nodes, (2, nonzeros // 2), generator=generator)
    return torch.cat([half, half.flip(0)], dim=1)


# ------------------------------------------------------------------------------------------------- the layer, and PyG's


@dataclass(frozen=True)
class Case:
    """One layer on one graph, for us (a pre-built operator) and for PyG (an edge index)."""

    x: Tensor | CSR
    dense_x: Tensor
    edge_index: Tensor
    op: GraphOperator
    ours: ARMAConv
    pyg: Any

    def forward(self, which: str) -> Callable[[], Tensor]:
        """Return a forward pass without gradients: ``"ours"``, ``"pyg"``, or ``"edges"`` (ours, graph built anew)."""
        return torch.no_grad()(self._run(which))

    def training_step(self, which: str) -> Callable[[], None]:
        """Return a forward and backward pass and the zeroing of gradients."""
        run, module = self._run(which), self.pyg if which == "pyg" else self.ours

        def step() -> None:
            module.zero_grad()
            run().sum().backward()  # type: ignore[no-untyped-call]

        return step

    def _run(self, which: str) -> Callable[[], Tensor]:
        choice("layer", which, ("ours", "pyg", "edges"))
        if which == "pyg":
            return lambda: self.pyg(self.dense_x, self.edge_index)
        if which == "edges":
            return lambda: self.ours(self.x, self.edge_index)
        return lambda: self.ours(self.x, self.op)


def large_case(
    nodes: int = 20_000, nonzeros: int = 560_000, fin: int = 50, fout: int = 64, k: int = 3, t: int = 2
) -> Case:
    """Return a layer of PPI's shape on a random graph."""
    index = random_graph(nodes, nonzeros)
    x = torch.randn(nodes, fin, generator=torch.Generator().manual_seed(1))
    op = GraphOperator.from_edge_index(index, nodes)
    return Case(x, x, index, op, ARMAConv(fin, fout, k, t), pyg.ARMAConv(fin, fout, k, t, shared_weights=True))


def cora_case() -> Case:
    """Return the first layer of the paper's network on Cora: ours on the sparse features, PyG's on dense ones."""
    data = load("cora")
    fin, fout, k, t = data.x.shape[1], 16, 2, 1
    op = GraphOperator.from_edge_index(data.edge_index, data.x.shape[0])
    return Case(
        data.x, data.x.to_dense(), data.edge_index, op, ARMAConv(fin, fout, k, t), pyg.ARMAConv(fin, fout, k, t, True)
    )


def compare_layers(rounds: int = 5) -> Iterator[Comparison]:
    """Measure one row after the other: training step, inference and memory of the layer and of PyG's ``ARMAConv``."""
    check_sizes(rounds=rounds)
    cora, large = cora_case(), large_case()

    def row(work: str, case: Case, required: float, ours: str = "ours", inference: bool = False) -> Comparison:
        make = case.forward if inference else case.training_step
        return in_turns(work, make(ours), make("pyg"), rounds, required)

    size = "20,000 nodes, 560,000 nonzeros, 50 -> 64, K=3, T=2"
    yield row("Cora, sparse features, 1433 -> 16, K=2, T=1, training step", cora, 8.0)
    yield row(f"{size}, training step", large, 25.0)
    yield row("the same, operator built from edge_index in every step", large, 0.0, "edges")
    yield row("the same, inference", large, 30.0, inference=True)
    peaks = peak_of_training_step("ours"), peak_of_training_step("pyg")
    yield compared("the same, peak memory of a training step", "MiB", *peaks, 5.0)
    double = large_case(nonzeros=1_120_000)
    times = medians({"double": double.training_step("ours"), "single": large.training_step("ours")}, rounds)
    work, ratio = "edges doubled, time against the single graph (ours)", times["double"] / times["single"]
    yield Comparison(work, "ms", times["double"], times["single"], ratio, -2.2)


def peak_of_training_step(which: str) -> float:
    """Return the peak memory that a training step of the large case adds, in MiB, measured in a separate process."""
    choice("layer", which, ("ours", "pyg", "edges"))
    if not STATUS.exists():
        return float("nan")
    program = f"from armagnn.bench.cpu_rows import print_peak; print_peak({which!r})"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else float("nan")  # what went wrong stays visible


def print_peak(which: str) -> None:
    """Run one training step of the large case and print what it added at its peak, in MiB."""
    large_case(nodes=64, nonzeros=512).training_step(which)()  # compile and load everything that is needed once
    print(peak_mib(large_case().training_step(which)))


# --------------------------------------------------------------------------------------- products, other layers, trials


def compare_products(widths: tuple[int, ...] = (16, 50, 64, 192), rounds: int = 5) -> Iterator[Comparison]:
    """Measure ``op @ x`` against torch's own products on 20,000 nodes and 560,000 nonzeros."""
    check_sizes(rounds=rounds)
    if not isinstance(widths, tuple | list):
        raise ParameterError(f"widths must be a tuple of numbers of features, got {shown(widths)}.")
    for width in widths:
        check_sizes(width=width)
    nodes = 20_000
    op = GraphOperator.from_edge_index(random_graph(nodes, 560_000), nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(op.rowptr.long(), op.col.long(), op.value, op.shape, check_invariants=False)
    for width in widths:
        x = torch.randn(nodes, width, generator=torch.Generator().manual_seed(width))
        peers: dict[str, Callable[[], Tensor]] = {
            "torch CSR @ x": lambda x=x: matrix @ x,  # type: ignore[misc]
            "torch.sparse.mm(reduce='sum')": lambda x=x: torch.sparse.mm(matrix, x, reduce="sum"),  # type: ignore[misc]
        }
        times = medians({"ours": lambda x=x: op @ x, **peers}, rounds)  # type: ignore[misc]
        for name in peers:
            yield compared(f"op @ x, F={width}, against {name}", "ms", times["ours"], times[name])


def compare_peers(
    rounds: int = 3, nodes: int = 20_000, nonzeros: int = 560_000, width: int = 64
) -> Iterator[Comparison]:
    """Measure a training step of GAT, GraphSAGE and GIN, ours and PyG's, with a gradient of the input."""
    check_sizes(rounds=rounds, nodes=nodes, nonzeros=nonzeros, width=width)
    if width % HEADS:
        raise ParameterError(f"width is {width}; GAT needs a multiple of {HEADS}, the number of its heads.")
    op = GraphOperator.from_edge_index(random_graph(nodes, nonzeros), nodes, kind="adjacency")
    edges = torch.stack([op.col.long(), op._rows()])
    x = torch.randn(nodes, width, generator=torch.Generator().manual_seed(1)).requires_grad_()

    def training_step(layer: nn.Module, graph: Any) -> Callable[[], None]:
        def step() -> None:
            layer.zero_grad()
            x.grad = None
            layer(x, graph).sum().backward()

        return step

    for name, ours, theirs in layers(width):
        work = f"{name} {width} -> {width}, {nodes:,} nodes, {op.nnz:,} nonzeros, training step"
        yield in_turns(work, training_step(ours, op), training_step(theirs, edges), rounds)


def layers(width: int) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """The name of each layer, ours, and PyG's with the same weights."""
    gat, sage = GATConv(width, width, 8, True, act=None, bias=False), SAGEConv(width, width, act=None, bias=False)
    gin: Any = GINConv(width, width, act=None, bias=False)
    rows: list[tuple[str, Any, nn.Module]] = [
        ("GAT (8 heads)", gat, pyg.GATConv(width, width // 8, 8, bias=False)),
        ("GraphSAGE (max)", sage, pyg.SAGEConv(width, width, aggr="max", bias=False)),
        ("GIN", gin, pyg.GINConv(nn.Sequential(*gin.conv.nn), train_eps=True)),
    ]
    for name, ours, theirs in rows:
        theirs.load_state_dict(ours.conv.state_dict())
        yield name, ours, theirs


def compare_trials(rounds: int = 3, count: int = 10, epochs: int = 100) -> Iterator[Comparison]:
    """Measure seeds as one batch and one after the other, in turns, after a short training of each."""
    check_sizes(rounds=rounds, count=count, epochs=epochs)
    dataset, seeds = load("cora"), range(count)
    for warmup in ([0], seeds):
        seconds_of_trials(dataset, warmup, 5)
    batch, alone = [], []
    for _ in range(rounds):
        batch.append(seconds_of_trials(dataset, seeds, epochs))
        alone.append(sum(seconds_of_trials(dataset, [seed], epochs) for seed in seeds))
    work = f"{count} seeds of ARMA on Cora, {epochs} epochs, as one batch, against one after the other (ours)"
    yield compared(work, "s", statistics.median(batch), statistics.median(alone), BATCHED)


def seconds_of_trials(dataset: NodeDataset, seeds: Sequence[int], epochs: int) -> float:
    """Return how long the paper's ARMA network trains on Cora from these seeds at once, validation and all."""
    config = NodesConfig(epochs=epochs, patience=epochs, stop_on="accuracy")
    trials = config.experiment(dataset).trials([config.setting(seed) for seed in seeds])
    began = time.perf_counter()
    list(trials.run())
    return time.perf_counter() - began
