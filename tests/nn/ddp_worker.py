"""What each process of the DDP test runs; a module of its own, so that spawned processes can import it."""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from armagnn.nn import ARMAConv
from nn.oracle import random_graph


def train(rank: int, world: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world, timeout=timedelta(seconds=90)
    )
    torch.manual_seed(0)
    net = torch.nn.ModuleList([ARMAConv(4, 8, 2, 1), ARMAConv(8, 3, 2, 3, init="tied")])
    model = torch.nn.parallel.DistributedDataParallel(Net(net))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    index = random_graph(9, 18)
    for step in range(3):  # a parameter without gradient would make the second step raise
        x = torch.randn(9, 4, generator=torch.Generator().manual_seed(10 * step + rank))
        optimizer.zero_grad()
        model(x, index).square().mean().backward()
        optimizer.step()
    flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    torch.save(flat, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


class Net(torch.nn.Module):
    def __init__(self, layers: torch.nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, index)
        return x
