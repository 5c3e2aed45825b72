"""Batches of molecules, ours and PyG's side by side: a batch, a training step on it, and an epoch of QM9.

A batch of 64 molecules is so little work that one thread serves it best (``OMP_NUM_THREADS=1 armagnn bench batches``):
more only wait for each other, for very long where something else runs on the machine.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ARMAConv as PyGConv
from torch_geometric.nn import global_mean_pool

from armagnn import GraphOperator
from armagnn.bench.comparison import Comparison, check_sizes, compared, in_turns, seconds_of_a_step
from armagnn.data import Fold, GraphsDataset, node_features
from armagnn.nn import ARMAConv
from armagnn.nn.pooling import AvgPool
from armagnn.operators.batches import GraphBatches, batches_of
from armagnn.tasks import GraphNet, GraphTask
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials

EPOCH: Final = 107_000
"""Graphs in an epoch of QM9 (80 % of the molecules)."""

FEATURES: Final = 5
"""The one-hot element of a heavy atom, about as wide as this."""

HELD_OUT: Final = 64
"""Graphs for validation and as many for test, which trials must have: hardly any, for it is training that is timed."""

WARMUP: Final = 10
"""Steps of PyG that do not count."""


def molecules(graphs: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return (edge_index, ptr) of random graphs as large as those of QM9: 9 nodes mostly, a tree and a ring or two.

    Example:
        >>> edge_index, ptr = molecules(1000)
        >>> round(len(edge_index[0]) / 1000), round(int(ptr[-1]) / 1000)
        (19, 9)
    """
    generator = torch.Generator().manual_seed(seed)
    sizes = 9 - (torch.rand(graphs, generator=generator) < 0.2).long()
    ptr = nn.functional.pad(sizes.cumsum(0), (1, 0))
    graph = torch.repeat_interleave(torch.arange(graphs), sizes)
    local = torch.arange(len(graph)) - ptr[graph]
    parent = (torch.rand(len(graph), generator=generator) * local).long()
    tree = torch.stack([local, parent])[:, local > 0] + ptr[graph][local > 0]
    ends = torch.stack([torch.zeros_like(sizes), sizes - 1])  # the first and the last atom close a ring
    more = torch.rand(graphs, generator=generator) < 0.7
    ring = torch.cat([(ends + ptr[:-1]), (ends + ptr[:-1] + torch.tensor([[1], [0]]))[:, more]], dim=1)
    half = torch.unique(torch.sort(torch.cat([tree, ring], dim=1), dim=0)[0], dim=1)
    return torch.cat([half, half.flip(0)], dim=1), ptr


def as_data(x: Tensor, edge_index: Tensor, ptr: Tensor, y: Tensor) -> list[Data]:
    """Return the graphs one by one, as PyG's loader takes them."""
    graph = torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff())[edge_index[0]]
    order = graph.argsort(stable=True)
    parts = torch.split(edge_index[:, order], torch.bincount(graph, minlength=len(ptr) - 1).tolist(), dim=1)
    rows = torch.split(x, ptr.diff().tolist())
    return [
        Data(x=rows[g], edge_index=part - ptr[g], y=y[g : g + 1], num_nodes=len(rows[g]))
        for g, part in enumerate(parts)
    ]


class MoleculeNet(nn.Module):
    """GNN(64)-AvgPool-FC(128)-1 of the paper's Table 4, on our layers or PyG's."""

    def __init__(self, conv: nn.Module, pool: Callable[..., Tensor]) -> None:
        super().__init__()
        self.conv, self.pool = conv, pool
        self.head = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, x: Tensor, graph: Any, batch: Any) -> Tensor:
        """Return one number for each graph of a batch."""
        out: Tensor = self.head(self.pool(self.conv(x, graph), batch)).squeeze(-1)
        return out


def pyg_network() -> MoleculeNet:
    """The same network on PyG's layer."""
    return MoleculeNet(PyGConv(FEATURES, 64, 3, 3, shared_weights=True), global_mean_pool)


def learn(out: Tensor, y: Tensor, adam: torch.optim.Adam) -> None:
    """Take a step of Adam on the mean squared error."""
    adam.zero_grad()
    nn.functional.mse_loss(out, y).backward()  # type: ignore[no-untyped-call]
    adam.step()


# ---------------------------------------------------------------------------------------------------- batches and steps


def compare_batches(graphs: int = 20_000, size: int = 64, rounds: int = 3) -> Iterator[Comparison]:
    """Measure how long a batch takes to build, and a training step in ARMA (64 units, K = 3, T = 3) with its batch.

    The third row is an epoch of QM9 at that pace, in seconds.
    """
    check_sizes(graphs=graphs, size=size, rounds=rounds)
    edge_index, ptr = molecules(graphs)
    x = torch.randn(int(ptr[-1]), FEATURES, generator=torch.Generator().manual_seed(1))
    y = torch.randn(graphs, generator=torch.Generator().manual_seed(2))
    ours = GraphBatches(GraphOperator.from_edge_index(edge_index, int(ptr[-1])), ptr)
    plan, single = (itertools.cycle(batches_of(torch.arange(graphs), size, seed=0, epoch=0)) for _ in range(2))
    data = as_data(x, edge_index, ptr, y)
    loader = DataLoader(data, size, shuffle=True)
    loaded = _forever(loader)

    yield in_turns(
        f"a batch of {size} molecules",
        lambda: ours.take(next(plan)),
        lambda: loader.collate_fn([data[g] for g in next(single).tolist()]),
        rounds,
        limit=0.1,
    )

    network, peer = MoleculeNet(ARMAConv(FEATURES, 64, 3, 3), AvgPool()), pyg_network()
    adam, peer_adam = torch.optim.Adam(network.parameters(), 1e-3), torch.optim.Adam(peer.parameters(), 1e-3)

    def step() -> None:
        batch = ours.take(next(plan))
        out = network(x.index_select(0, batch.nodes), batch.op, batch)
        learn(out, y.index_select(0, batch.ids), adam)

    def peer_step() -> None:
        batch = next(loaded)
        learn(peer(batch.x, batch.edge_index, batch.batch), batch.y, peer_adam)

    row = in_turns(f"a training step on {size} molecules, ARMA 64, K=3, T=3", step, peer_step, rounds)
    steps = -(-EPOCH // size) / 1e3
    yield row
    yield compared("an epoch of QM9 at that pace", "s", steps * row.ours, steps * row.peer, limit=60)


def _forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


# ----------------------------------------------------------------------------------------------------- epochs of trials


def random_molecules(graphs: int) -> tuple[GraphsDataset, Fold]:
    """Return random graphs like QM9's, `graphs` for training and a few besides, with one random target to learn.

    Example:
        >>> random_molecules(1000)[1]
        Fold(train=1000, val=64, test=64)
    """
    count = graphs + 2 * HELD_OUT
    edge_index, ptr = molecules(count)
    elements = torch.randint(0, FEATURES, (int(ptr[-1]),), generator=torch.Generator().manual_seed(1))
    y = torch.randn(count, 1, generator=torch.Generator().manual_seed(2))
    dataset = GraphsDataset(
        "random molecules", edge_index, ptr, y, 0, "", node_labels=elements, targets=("y",), feature_kinds=("labels",)
    )
    train, val, test = torch.split(torch.arange(count), [graphs, HELD_OUT, HELD_OUT])
    return dataset, Fold(train, val, test)


def network() -> GraphNet:
    """Return ARMA(64 units, K = 3, T = 3)-AvgPool-FC(128)-1, the network of the paper's Table 4."""
    options = {"num_stacks": 3, "num_layers": 3}
    return GraphNet("arma", FEATURES, 1, hidden=64, depth=1, head=(128,), options=options)


def trial_of(dataset: GraphsDataset, fold: Fold, device: str, size: int = 64, epochs: int = 6) -> Trials:
    """Return one training of the network, not yet begun."""
    task = GraphTask(dataset, network(), fold, batch_size=size, device=device)
    settings = [Setting(0, 1e-3, 0.0, (0.0, 0.0))]
    return Trials(network, task, settings, epochs=epochs, patience=epochs, stop_on="loss", device=device)


def epoch_seconds(trials: Trials) -> float:
    """Train, and return how long an epoch took: the median of all but the first, which compiles and records.

    The last does not count either: the test follows it. There must be 25 steps or more, or not every epoch is looked
    at.
    """
    looks: list[tuple[int, float]] = []  # on a GPU, a look waits for what has been launched
    for _ in trials.run(lambda trials: looks.append((trials.done, time.perf_counter()))):
        pass
    pairs = list(itertools.pairwise(looks))[:-1]
    return statistics.median((late - early) / (after - before) for (before, early), (after, late) in pairs)


def pyg_step_seconds(dataset: GraphsDataset, fold: Fold, device: str, size: int = 64, steps: int = 300) -> float:
    """Return how long a training step of the same network on PyG's layer takes, with the batch from PyG's loader.

    The loader works in this process, as it does unless one asks for others.
    """
    part = dataset.select(fold.train[: size * (WARMUP + steps)])
    data = as_data(node_features(part).x, part.edge_index, part.ptr, part.y.squeeze(1))
    net = pyg_network().to(device)
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(data, size, shuffle=True)
    loaded = iter(loader)

    def step() -> None:
        batch = next(loaded).to(device)
        learn(net(batch.x, batch.edge_index, batch.batch), batch.y, adam)

    return seconds_of_a_step(step, len(loader) - WARMUP, WARMUP, device)


def compare_epochs(graphs: int = EPOCH, device: str = "cuda", pyg: bool = True, size: int = 64) -> Iterator[Comparison]:
    """Measure an epoch over `graphs` molecules; PyG's is a few hundred steps of it, scaled to all."""
    check_sizes(graphs=graphs, size=size)
    dataset, fold = random_molecules(graphs)
    ours = epoch_seconds(trial_of(dataset, fold, device, size))
    theirs = math.ceil(graphs / size) * pyg_step_seconds(dataset, fold, device, size) if pyg else math.nan
    work = f"an epoch of QM9: {graphs:,} molecules, batches of {size}, ARMA 64, K=3, T=3"
    yield compared(work, "s", ours, theirs, limit=3.0)
