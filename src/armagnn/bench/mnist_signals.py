"""Many signals on one graph: the network for MNIST, with our layers and with PyG's; one step of it, or a training."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from armagnn.bench.comparison import Comparison, check_sizes, compared, in_turns, seconds_of_a_step
from armagnn.bench.molecule_batches import epoch_seconds
from armagnn.checks import integer
from armagnn.data.sets.mnist import grid_graph
from armagnn.data.signals import SignalsDataset
from armagnn.errors import ParameterError, shown
from armagnn.operators import CSR, coarsen
from armagnn.tasks.signal_task import Levels, SignalNet, SignalTask, pooled_nodes
from armagnn.training.outcome import Setting
from armagnn.training.trials import Trials

SIDE: Final = 28
STRIDES: Final = (4, 4)
REQUIRED: Final = 15.0
SPLIT: Final = (55_000, 5_000, 10_000)
"""MNIST's signals for training, validation and test."""

EPOCHS: Final = 20


def mnist_net(stacks: int = 5, steps: int = 10) -> SignalNet:
    """Return GNN(32)-P(4)-GNN(64)-P(4)-FC(512)-FC(10) with ARMA layers, with the paper's K and T for MNIST."""
    integer("stacks", stacks, 1, 1000)
    integer("steps", steps, 1, 1000)
    places = pooled_nodes(grid_graph(SIDE), SIDE * SIDE, STRIDES)
    options = {"num_stacks": stacks, "num_layers": steps}
    return SignalNet("arma", 10, places, widths=(32, 64), strides=STRIDES, head=(512,), options=options)


class OfPyG(nn.Module):
    """The same network, weight for weight, with PyG's ``ARMAConv``; all else is shared code.

    A batch is one graph of disjoint copies, as PyG's ``Batch`` makes it. Its layers take (B, N, F) on one graph as
    well, which is slower by a quarter.
    """

    def __init__(self, net: SignalNet, batch: int) -> None:
        super().__init__()
        self.convs = nn.ModuleList(conv.to_pyg() for conv in net.convs)  # type: ignore[operator]
        self.pools, self.head = copy.deepcopy(net.pools), copy.deepcopy(net.head)
        tree = coarsen(grid_graph(SIDE), 4, num_nodes=SIDE * SIDE)
        for level in (0, 2):
            edge_index, weight = copies(*tree.edges(level), tree.adjacency[level].shape[0], batch)
            self.register_buffer(f"edge_index_{level}", edge_index)
            self.register_buffer(f"weight_{level}", weight)

    @property
    def edges(self) -> list[tuple[Tensor, Tensor]]:
        """The edges and weights of both levels."""
        return [(self.get_buffer(f"edge_index_{level}"), self.get_buffer(f"weight_{level}")) for level in (0, 2)]

    def forward(self, x: Tensor | CSR, levels: Levels) -> Tensor:
        """Logits (B, C) from signals (B, N, 1)."""
        for conv, pool, (edge_index, weight), pooling in zip(
            self.convs, self.pools, self.edges, levels.poolings, strict=True
        ):
            assert isinstance(x, Tensor)
            assert pooling is not None
            x = pooling(pool, conv(x.flatten(0, 1), edge_index, weight).view(*x.shape[:2], -1))
        assert isinstance(x, Tensor)
        first, last = self.head
        logits: Tensor = last(torch.relu(first(x.flatten(-2))))
        return logits


def copies(edge_index: Tensor, weight: Tensor, nodes: int, batch: int) -> tuple[Tensor, Tensor]:
    """Return the edges and weights of a graph of disjoint copies."""
    shift = nodes * torch.arange(batch).repeat_interleave(edge_index.shape[1])
    return edge_index.repeat(1, batch) + shift, weight.float().repeat(batch)


def training_step(net: nn.Module, levels: Levels, x: Tensor, y: Tensor) -> Callable[[], None]:
    """Return a step of Adam on a batch."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x, levels), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def compare_signals(rounds: int = 1, batch: int = 32, **sizes: Any) -> Iterator[Comparison]:
    """Measure one training step of the ARMA network for MNIST, ours and PyG's."""
    check_sizes(rounds=rounds, batch=batch)
    net = mnist_net(**sizes)
    levels = net.levels(grid_graph(SIDE), SIDE * SIDE)
    x = torch.rand(batch, SIDE * SIDE, 1, generator=torch.Generator().manual_seed(0))
    y = torch.arange(batch) % 10
    peer = OfPyG(net, batch)
    work = f"MNIST, {batch} signals, GNN(32)-P(4)-GNN(64)-P(4)-FC(512)-FC(10), training step"
    yield in_turns(work, training_step(net, levels, x, y), training_step(peer, levels, x, y), rounds, REQUIRED)


def random_images(split: tuple[int, int, int] = SPLIT) -> SignalsDataset:
    """Return random signals on MNIST's grid, as bytes, and random labels.

    Example:
        >>> random_images((6, 2, 2)).num_signals
        10
    """
    if not isinstance(split, tuple | list) or len(split) != 3:
        raise ParameterError(f"split must be the sizes of training, validation and test, got {shown(split)}.")
    check_sizes(**dict(zip(("training", "validation", "test"), split, strict=True)))
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (sum(split), SIDE * SIDE), generator=generator, dtype=torch.uint8)
    parts = torch.split(torch.arange(sum(split)), list(split))
    return SignalsDataset.of(grid_graph(SIDE), x, torch.arange(sum(split)) % 10, *parts)


def compare_training(
    device: str = "cuda", pyg: bool = True, split: tuple[int, int, int] = SPLIT, batch: int = 32, **sizes: Any
) -> Iterator[Comparison]:
    """Measure a whole training on MNIST by some of its epochs, validation and all; PyG's by some of its steps."""
    check_sizes(batch=batch)
    dataset, epochs = random_images(split), 5
    task = SignalTask(dataset, mnist_net(**sizes), batch_size=batch, device=device)
    trials = Trials(
        lambda: mnist_net(**sizes), task, [Setting(0, 1e-3, 0.0)], epochs=epochs, patience=epochs, stop_on="accuracy",
        device=device,
    )  # fmt: skip
    ours = EPOCHS * epoch_seconds(trials)
    theirs = EPOCHS * task.steps * _pyg_step_seconds(task, device, batch, sizes) if pyg else math.nan
    work = f"a training on MNIST: {EPOCHS} epochs of {split[0]:,} signals, batches of {batch}"
    yield compared(work, "s", ours, theirs, limit=240.0)


def _pyg_step_seconds(task: SignalTask, device: str, batch: int, sizes: dict[str, Any], steps: int = 20) -> float:
    x, y = task.inputs(torch.arange(batch, device=device)), task.y[:batch]
    assert isinstance(x, Tensor)
    step = training_step(OfPyG(mnist_net(**sizes), batch).to(device), task.levels, x, y)
    return seconds_of_a_step(step, steps, 1, device)
