"""An epoch of QM9 on one device: trials on batches that are built there, beside PyG's loader and PyG's layer."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Iterator

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import ARMAConv as PyGConv
from torch_geometric.nn import global_mean_pool

from armagnn.bench.batches import EPOCH, FEATURES, MoleculeNet, as_data, learn, molecules
from armagnn.bench.report import Comparison
from armagnn.bench.timing import check_sizes
from armagnn.data import Fold, GraphsDataset, node_features
from armagnn.tasks import GraphNet, GraphTask
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials

HELD_OUT = 64
"""Graphs for validation and as many for test, which trials must have: hardly any, for it is training that is timed."""

WARMUP = 10
"""Steps of PyG that do not count."""


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
    net = MoleculeNet(PyGConv(FEATURES, 64, 3, 3, shared_weights=True), global_mean_pool).to(device)
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    began, done = math.nan, 0
    for number, loaded in enumerate(DataLoader(data, size, shuffle=True)):
        if number == WARMUP:
            wait(device)
            began = time.perf_counter()
        batch = loaded.to(device)
        learn(net(batch.x, batch.edge_index, batch.batch), batch.y, adam)
        done += number >= WARMUP
    wait(device)
    return (time.perf_counter() - began) / done


def compare_epochs(graphs: int = EPOCH, device: str = "cuda", pyg: bool = True, size: int = 64) -> Iterator[Comparison]:
    """Measure an epoch over `graphs` molecules; PyG's is a few hundred steps of it, scaled to all."""
    check_sizes(graphs=graphs, size=size)
    dataset, fold = random_molecules(graphs)
    ours = epoch_seconds(trial_of(dataset, fold, device, size))
    theirs = math.ceil(graphs / size) * pyg_step_seconds(dataset, fold, device, size) if pyg else math.nan
    work = f"an epoch of QM9: {graphs:,} molecules, batches of {size}, ARMA 64, K=3, T=3"
    yield Comparison(work, "s", ours, theirs, theirs / ours, limit=3.0)


def wait(device: str) -> None:
    """Wait until a GPU has done what was launched."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
