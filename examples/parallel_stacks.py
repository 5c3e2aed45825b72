"""Share the stacks of an ARMA layer out over processes, and see what each of them needs.

    torchrun --standalone --nproc-per-node 2 examples/parallel_stacks.py --stacks 8

(On a machine whose name does not resolve, gloo wants ``GLOO_SOCKET_IFNAME=lo``.) The ranks train a layer with dropout
on a random graph, all on the same loss; it does not depend on their number. The last lines say what each rank held:
its stacks and parameters, the memory at its peak beyond that at the start, and of a training step the time on the clock
and the processor's.
"""

from __future__ import annotations

import argparse
import datetime
import resource
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from armagnn import GraphOperator
from armagnn.distributed import parallelize_stacks
from armagnn.nn import ARMAConv


def peak() -> float:
    """Return the most memory that this process has held so far, in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def main() -> None:
    """Train for a few steps on every rank and print a table on the first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("nodes", 20_000), ("degree", 8), ("features", 32), ("width", 32), ("stacks", 8),
                          ("layers", 4), ("steps", 5)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--dropout", type=float, default=0.25)
    chosen = parser.parse_args()

    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=2))
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)  # alike on all ranks: they then have the same graph, and drop the same entries
    ends = torch.randint(chosen.nodes, (2, chosen.nodes * chosen.degree // 2))
    op = GraphOperator.from_edge_index(torch.cat([ends, ends.flip(0)], dim=1), chosen.nodes)
    x, target = torch.randn(chosen.nodes, chosen.features), torch.randn(chosen.nodes, chosen.width)
    conv = ARMAConv(chosen.features, chosen.width, chosen.stacks, chosen.layers, dropout=chosen.dropout)
    conv = parallelize_stacks(conv, init_device_mesh("cpu", (ranks,)))
    optimizer = torch.optim.Adam(conv.parameters(), lr=1e-3)

    seconds, busy, start = [], [], peak()
    for step in range(chosen.steps):
        begin, used = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = (conv(x, op) - target).square().mean()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - begin)
        busy.append(time.process_time() - used)
        if rank == 0:
            print(f"step {step}: loss {loss.item():.6f}", flush=True)

    numbers = sum(parameter.numel() for parameter in conv.parameters())
    times = f"{statistics.median(seconds):>7.3f} {statistics.median(busy):>7.3f}"
    own = f"{rank:<4} {conv.local.num_stacks:>6} {numbers:>10} {peak() - start:>8.1f} {times}"
    lines: list[str] = [""] * ranks
    dist.all_gather_object(lines, own)
    if rank == 0:
        print("rank stacks parameters peak/MiB clock/s   CPU/s", *lines, sep="\n", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
