"""The layer on a GPU against PyG's, with the memory system's floor measured in the same run."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.nn import ARMAConv as PyGConv

from armagnn import CSR, GraphOperator
from armagnn.bench.comparison import Comparison, check_sizes, compared
from armagnn.bench.copy_bandwidth import rmat
from armagnn.bench.cpu_rows import cora_case
from armagnn.bench.mnist_signals import compare_training
from armagnn.bench.molecule_batches import compare_epochs
from armagnn.errors import DeviceError
from armagnn.nn import ARMAConv
from armagnn.training.cuda_graphs import capture


@dataclass(frozen=True)
class Size:
    """One graph and one layer, with the times that are wanted (milliseconds; gibibytes)."""

    name: str
    nodes: int
    nonzeros: int
    fin: int
    fout: int
    k: int
    t: int
    train: float
    inference: float = 0.0
    memory: float = 0.0


SIZES = (
    Size("PPI-size: 56,944 nodes, 1.59M nonzeros, 50 -> 64, K=3, T=2", 56_944, 1_590_000, 50, 64, 3, 2, 1.4, 0.55, 0.3),
    Size("100,000 nodes, 1.6M nonzeros, 64 -> 64, K=3, T=4", 100_000, 1_600_000, 64, 64, 3, 4, 4.0),
    Size("1M nodes, 20M nonzeros, 64 -> 64, K=2, T=2", 1_000_000, 20_000_000, 64, 64, 2, 2, 16.0, 5.5, 2.5),
)


def uniform(nodes: int, nonzeros: int) -> Tensor:
    """Return the edges of an undirected random graph on the GPU, both directions."""
    generator = torch.Generator("cuda").manual_seed(0)
    half = torch.randint(0, nodes, (2, nonzeros // 2), generator=generator, device="cuda")
    return torch.cat([half, half.flip(0)], dim=1)


def median_ms(function: Callable[[], object], runs: int = 100, warmup: int = 10) -> float:
    """Return the median time of a function on the GPU, by events."""
    for _ in range(warmup):
        function()
    times: list[float] = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def copy_bandwidth() -> float:
    """Return how fast a large copy runs, in bytes per second read and written."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / (median_ms(lambda: target.copy_(source), 20) * 1e-3)


def _steps(conv: torch.nn.Module, x: Tensor | CSR, graph: object) -> tuple[Callable[[], None], Callable[[], None]]:
    def train() -> None:
        conv.zero_grad(set_to_none=False)
        conv(x, graph).sum().backward()

    def inference() -> None:
        with torch.no_grad():
            conv(x, graph)

    return train, inference


def _peak_gib(step: Callable[[], None]) -> float:
    step()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() / 2**30


def compare_gpu(pyg: bool = True, runs: int = 100) -> Iterator[Comparison]:
    """Measure each size: ours launched one by one and as a captured graph, and PyG.

    Then an epoch of QM9 and a training on MNIST. TF32 stays off.
    """
    check_sizes(runs=runs)
    if not torch.cuda.is_available():
        raise DeviceError("torch sees no GPU here. Use: armagnn bench cpu")
    bandwidth = copy_bandwidth()
    yield Comparison("copy bandwidth (TB/s)", "TB/s", bandwidth / 1e12, bandwidth / 1e12, 1.0)
    for make in (uniform, functools.partial(rmat, device="cuda")):
        for size in SIZES:
            yield from _compare(size, make, bandwidth, pyg, runs)
    case = cora_case()
    x, op = case.x.to("cuda"), case.op.to("cuda")
    train, _ = _steps(case.ours.to("cuda"), x, op)
    peer = _steps(case.pyg.to("cuda"), case.dense_x.to("cuda"), case.edge_index.to("cuda"))[0]
    reference = median_ms(peer, runs) if pyg else float("nan")
    work = "Cora 1433 -> 16, K=2, T=1, training step"
    yield compared(f"{work}, captured", "ms", median_ms(capture(train), runs), reference, limit=0.15)
    yield compared(work, "ms", median_ms(train, runs), reference)
    yield from compare_epochs(pyg=pyg)
    yield from compare_training(pyg=pyg)


def _compare(
    size: Size, make: Callable[[int, int], Tensor], bandwidth: float, pyg: bool, runs: int
) -> Iterator[Comparison]:
    torch.cuda.empty_cache()
    op = GraphOperator.from_edge_index(make(size.nodes, size.nonzeros), size.nodes)
    x = torch.randn(size.nodes, size.fin, device="cuda")
    conv = ARMAConv(size.fin, size.fout, size.k, size.t).cuda()
    train, inference = _steps(conv, x, op)
    memory = _peak_gib(train)  # before PyG leaves anything behind
    times: dict[str, float] = {"train": float("nan"), "inference": float("nan"), "memory": float("nan")}
    if pyg:
        index = make(size.nodes, size.nonzeros)
        theirs = PyGConv(size.fin, size.fout, size.k, size.t, shared_weights=True).cuda()
        peer_train, peer_inference = _steps(theirs, x, index)
        few = max(5, runs // 10)
        times["train"], times["inference"] = median_ms(peer_train, few, 2), median_ms(peer_inference, few, 2)
        times["memory"] = _peak_gib(peer_train)
        del theirs, peer_train, peer_inference, index
    torch.cuda.empty_cache()
    name = size.name if make is uniform else f"{size.name} (R-MAT)"
    wanted = make is uniform
    floor = size.t * op.nnz * size.k * size.fout * 4 / bandwidth * 1e3
    yield compared(f"{name}, training step", "ms", median_ms(train, runs), times["train"])
    replay, limit = median_ms(capture(train), runs), wanted * size.train
    yield compared(f"{name}, training step, captured", "ms", replay, times["train"], limit=limit)
    yield compared(f"{name}, training memory", "GiB", memory, times["memory"], limit=wanted * size.memory)
    yield compared(f"{name}, inference", "ms", median_ms(inference, runs), times["inference"])
    replay, limit = median_ms(capture(inference), runs), wanted * size.inference
    work = f"{name}, inference, captured (floor {floor:.3f} ms)"
    yield compared(work, "ms", replay, times["inference"], limit=limit)
