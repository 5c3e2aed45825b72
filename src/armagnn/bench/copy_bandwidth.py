"""How near products with large graphs come to the speed at which memory can be copied."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Final

import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.bench.comparison import Comparison, check_sizes, compared, medians
from armagnn.bench.cpu_rows import random_graph
from armagnn.checks import integer

WIDTH: Final = 64
COPIED: Final = 1 << 28
"""Bytes that are copied to find the bandwidth: more than a cache holds."""

QUADRANTS: Final = (0.57, 0.76, 0.95)
"""Of R-MAT: cumulated probabilities of its first three quadrants."""


def rmat(nodes: int, nonzeros: int, device: str = "cpu", seed: int = 0) -> Tensor:
    """Return an undirected R-MAT graph (0.57, 0.19, 0.19, 0.05): degrees follow a power law, and a few nodes are hubs.

    Example:
        >>> rmat(100, 1000).shape
        torch.Size([2, 1000])
    """
    check_sizes(nodes=nodes, nonzeros=nonzeros)
    generator = torch.Generator(device).manual_seed(integer("seed", seed, 0))
    half = torch.zeros(2, nonzeros // 2, dtype=torch.int64, device=device)
    ends = torch.tensor(QUADRANTS, device=device)
    for _ in range((nodes - 1).bit_length()):
        quadrant = torch.bucketize(torch.rand(nonzeros // 2, generator=generator, device=device), ends, right=True)
        half = 2 * half + torch.stack([quadrant // 2, quadrant % 2])
    half = half % nodes
    return torch.cat([half, half.flip(0)], dim=1)


def with_hub(edges: Tensor, nodes: int) -> Tensor:
    """Return the edges and one more node that is a neighbour of all others."""
    others = torch.arange(nodes, device=edges.device)
    hub = torch.full_like(others, nodes)
    return torch.cat([edges, torch.stack([others, hub]), torch.stack([hub, others])], dim=1)


def compare_bandwidth(
    rounds: int = 3, sizes: tuple[tuple[int, int], ...] = ((100_000, 2_000_000), (1_000_000, 20_000_000))
) -> Iterator[Comparison]:
    """Measure ``op @ x`` in bytes moved a second, in turns with a copy; and the largest against torch's CSR product.

    For every nonzero a row of x, a column and a value are read, for every node a row is written. Where rows of x are
    found in a cache, that is faster than a copy.
    """
    check_sizes(rounds=rounds)
    source = torch.ones(COPIED // 4)
    target = torch.empty_like(source)
    for nodes, nonzeros in sizes:
        graphs: dict[str, Callable[[], Tensor]] = {
            "uniform": lambda: random_graph(nodes, nonzeros),  # noqa: B023
            "R-MAT": lambda: rmat(nodes, nonzeros),  # noqa: B023
            f"uniform, a hub of {nodes:,} neighbours": lambda: with_hub(random_graph(nodes, nonzeros), nodes),  # noqa: B023
        }
        for name, make in graphs.items():
            op = GraphOperator.from_edge_index(make(), nodes + ("hub" in name))
            x = torch.randn(op.num_nodes, WIDTH, generator=torch.Generator().manual_seed(1))
            times = medians({"ours": lambda: op @ x, "copy": lambda: target.copy_(source)}, rounds)  # noqa: B023
            moved = op.nnz * (4 * WIDTH + 8) + op.num_nodes * 4 * WIDTH
            ours, copy = moved / times["ours"] / 1e6, 2 * COPIED / times["copy"] / 1e6
            work = f"op @ x, F={WIDTH}, {op.num_nodes:,} nodes, {op.nnz:,} nonzeros, {name}"
            yield Comparison(f"{work}: share of the copy bandwidth", "GB/s", ours, copy, ours / copy)
            if name == "uniform":
                yield _against_torch(work, op, x, rounds, 4.0 if nodes >= 1_000_000 else 0.0)


def _against_torch(work: str, op: GraphOperator, x: Tensor, rounds: int, required: float) -> Comparison:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(op.rowptr, op.col, op.value, op.shape, check_invariants=False)
    times = medians({"ours": lambda: op @ x, "torch": lambda: matrix @ x}, rounds)
    return compared(f"{work}, against torch CSR @ x", "ms", times["ours"], times["torch"], required)
