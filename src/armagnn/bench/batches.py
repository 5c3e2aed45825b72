"""Batches of small graphs, ours and PyG's side by side: ``OMP_NUM_THREADS=1 python -m armagnn.bench.batches``.

A batch of 64 molecules is so little work that one thread serves it best: more only wait for each other, for very long
where something else runs on the machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ARMAConv as PyGConv
from torch_geometric.nn import global_mean_pool

from armagnn import GraphOperator
from armagnn.bench.report import Comparison
from armagnn.bench.timing import check_sizes, medians
from armagnn.nn import ARMAConv
from armagnn.nn.pooling import AvgPool
from armagnn.operators.batches import GraphBatches, batches_of

EPOCH: int = 107_000
"""Graphs in an epoch of QM9 (80 % of the molecules)."""

FEATURES = 5
"""The one-hot element of a heavy atom, about as wide as this."""


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


def compare_batches(graphs: int = 20_000, size: int = 64, rounds: int = 3) -> Iterator[Comparison]:
    """Measure how long a batch takes to build, and a training step in ARMA (64 units, K = 3, T = 3) with its batch.

    The third row is an epoch of QM9 at that pace, in seconds.
    """
    check_sizes(graphs=graphs, size=size, rounds=rounds)
    edge_index, ptr = molecules(graphs)
    x = torch.randn(int(ptr[-1]), FEATURES, generator=torch.Generator().manual_seed(1))
    y = torch.randn(graphs, generator=torch.Generator().manual_seed(2))
    ours = GraphBatches(GraphOperator.from_edge_index(edge_index, int(ptr[-1])), ptr)
    plan = itertools.cycle(batches_of(torch.arange(graphs), size, seed=0, epoch=0))
    data = as_data(x, edge_index, ptr, y)
    loader = DataLoader(data, size, shuffle=True)
    collate, single = loader.collate_fn, itertools.cycle(batches_of(torch.arange(graphs), size, seed=0, epoch=0))
    loaded = iter(_forever(loader))

    times = medians(
        {
            "ours": lambda: ours.take(next(plan)),
            "pyg": lambda: collate([data[g] for g in next(single).tolist()]),
        },
        rounds,
    )
    yield Comparison(
        f"a batch of {size} molecules", "ms", times["ours"], times["pyg"], times["pyg"] / times["ours"], limit=0.1
    )

    network = MoleculeNet(ARMAConv(FEATURES, 64, 3, 3), AvgPool())
    peer = MoleculeNet(PyGConv(FEATURES, 64, 3, 3, shared_weights=True), global_mean_pool)
    adam, peer_adam = torch.optim.Adam(network.parameters(), 1e-3), torch.optim.Adam(peer.parameters(), 1e-3)

    def step() -> None:
        batch = ours.take(next(plan))
        out = network(x.index_select(0, batch.nodes), batch.op, batch)
        learn(out, y.index_select(0, batch.ids), adam)

    def peer_step() -> None:
        batch = next(loaded)
        learn(peer(batch.x, batch.edge_index, batch.batch), batch.y, peer_adam)

    times = medians({"ours": step, "pyg": peer_step}, rounds)
    ratio, steps = times["pyg"] / times["ours"], -(-EPOCH // size) / 1e3
    yield Comparison(
        f"a training step on {size} molecules, ARMA 64, K=3, T=3", "ms", times["ours"], times["pyg"], ratio
    )
    yield Comparison("an epoch of QM9 at that pace", "s", steps * times["ours"], steps * times["pyg"], ratio, limit=60)


def learn(out: Tensor, y: Tensor, adam: torch.optim.Adam) -> None:
    """Take a step of Adam on the mean squared error."""
    adam.zero_grad()
    nn.functional.mse_loss(out, y).backward()  # type: ignore[no-untyped-call]
    adam.step()


def _forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


if __name__ == "__main__":
    from rich.console import Console

    from armagnn.bench.report import table

    Console().print(table(list(compare_batches())))
