"""Two ranks against one process with two threads: a training step on a geometric graph, time and memory.

    python benchmarks/ranks.py --nodes 1000000

Neighbours are the nearest points in a unit square, in the order of a grid, so that a run of nodes is a strip. The two
are measured in turns, in separate processes. "0 ranks" is a process whose operator knows of no ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve()


def make(folder: Path, nodes: int) -> None:
    """Write a geometric graph of seven nonzeros a row, cut into two parts (and joined, as one)."""
    from scipy.spatial import cKDTree

    from armagnn.distributed import EdgeStream, PartRows, partition

    points = np.random.default_rng(0).random((nodes, 2))
    points = points[np.lexsort((points[:, 1], (points[:, 0] * int(nodes**0.5)).astype(int)))]
    radius = (7 / (nodes * np.pi)) ** 0.5
    pairs = cKDTree(points).query_pairs(radius, output_type="ndarray").T
    np.save(folder / "edges.npy", pairs)
    np.save(folder / "x.npy", np.random.default_rng(1).normal(size=(nodes, 32)).astype(np.float32))
    np.save(folder / "y.npy", (points[:, 0] * 8).astype(np.int64))
    rows = PartRows.of_arrays(folder / "x.npy", folder / "y.npy")
    report = partition(EdgeStream.of_file(folder / "edges.npy"), folder / "parts", 2, rows=rows)
    print(f"{sum(report.nonzeros):,} nonzeros, halo {report.halo_rows}, balance {report.balance:.3f}", flush=True)


def measure(folder: Path, steps: int, *, plain: bool = False) -> None:
    """Time training steps on the ranks there are; run by every rank. A plain one has the operator of one process."""
    import torch

    from armagnn import GraphOperator
    from armagnn.distributed import load_part, ranks
    from armagnn.distributed.part_task import PartTask
    from armagnn.tasks import NodeNet

    with ranks() as group:
        part = load_part(str(folder / "parts"), group)
        torch.manual_seed(0)
        net = NodeNet("arma", 32, 8, hidden=32, options={"num_stacks": 2, "num_layers": 2}).train()
        task = PartTask(part, net, group)
        if plain:
            pairs = torch.from_numpy(np.load(folder / "edges.npy"))
            op = GraphOperator.from_edge_index(torch.cat([pairs, pairs.flip(0)], 1), len(part.x))
            task.parts["train"] = replace(task.parts["train"], op=op)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        seconds, cpu = [], []
        for _ in range(steps):
            torch.distributed.barrier()
            began, busy = time.perf_counter(), time.process_time()
            optimizer.zero_grad()
            task.loss(lambda *inputs: net(*inputs), task.batch()).backward()
            flat = torch.cat([p.grad.flatten() for p in net.parameters()])
            torch.distributed.all_reduce(flat)
            optimizer.step()
            seconds.append(time.perf_counter() - began)
            cpu.append(time.process_time() - busy)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        found = {
            "rank": torch.distributed.get_rank(), "step": statistics.median(seconds[2:]),
            "cpu": statistics.median(cpu[2:]), "all": seconds, "before": before, "peak": peak,
        }  # fmt: skip
        print(json.dumps(found) + "\n", end="", flush=True)  # one write, so that lines of two ranks do not mix


def run(folder: Path, ranks: int, steps: int) -> list[dict[str, float]]:
    """Measure with a number of ranks, 0 for a process without any; together they have two threads."""
    words = [str(HERE), "--folder", str(folder), "--steps", str(steps), "--measure"]
    words += ["--plain"] if ranks == 0 else []
    start = [sys.executable]
    if ranks > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    threads = str(2 // max(ranks, 1))
    environment = os.environ | {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    output = subprocess.run([*start, *words], env=environment, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def main() -> None:
    """Make the graph, and measure a plain process, one rank and two ranks in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the graph is, or goes")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp())
    if given.measure:
        measure(folder, given.steps, plain=given.plain)
        return
    if not (folder / "parts" / "manifest.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        make(folder, given.nodes)
    for _ in range(given.rounds):
        for ranks in (0, 1, 2):
            for row in run(folder, ranks, given.steps):
                print(
                    f"{ranks} ranks, rank {row['rank']}: {row['step']:.2f} s a step, {row['cpu']:.2f} CPU s, "
                    f"{row['before']:.0f} MiB before, {row['peak']:.0f} MiB at most",
                    flush=True,
                )


if __name__ == "__main__":
    main()
