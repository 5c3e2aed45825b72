"""What a rational layer of order 4 costs on this processor: ``python benchmarks/rational_step.py``.

1. Filtering 50,000 nodes with 1,000,000 entries, 16 channels, float32: all poles in one Krylov space, K separate solves
   (`ARMAFilter.filter`, each term or pair by itself), and pole by pole with the layer's own solver. The three go in
   turns; printed are the medians of the rounds, by the clock and of processor time.
2. A training step (forward, backward to weights, poles and residues) on 1,000,000 nodes and 10,000,000 entries.
3. The same comparison as in 1 on that graph: once each, some two minutes.

``--small``, ``--large`` or ``--solves`` does only the first, second or third. Random graphs, seed 0; threads by
``--threads``.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch

from armagnn import GraphOperator
from armagnn.nn import RationalConv
from armagnn.solvers.partial_fractions import partial_fractions

CHANNELS = 16


def random_operator(nodes: int, entries: int) -> GraphOperator:
    """The operator of a random graph with about this number of stored entries."""
    half = torch.randint(0, nodes, (2, entries // 2), generator=torch.Generator().manual_seed(0))
    return GraphOperator.from_edge_index(torch.cat([half, half.flip(0)], 1), nodes)


def timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time."""
    clock, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - clock, time.process_time() - processor


def ratios(order: int, nodes: int, entries: int, rounds: int) -> None:
    """Print how long one space, separate solves and single poles take."""
    op = random_operator(nodes, entries)
    x = torch.randn(nodes, CHANNELS, generator=torch.Generator().manual_seed(1))
    conv = RationalConv(CHANNELS, CHANNELS, order=order, method="exact")
    with torch.no_grad():
        a, b, _ = (t.expand(*t.shape[:-1], CHANNELS) for t in conv._fractions())
    given = conv.filter()

    def one_space() -> torch.Tensor:
        return partial_fractions(op, x, a, b)

    def pole_by_pole() -> torch.Tensor:
        return sum(partial_fractions(op, x, a[k : k + 1], b[k : k + 1]) for k in range(len(a)))  # type: ignore[return-value]

    cases = {"one space": one_space, "K separate solves": lambda: given.filter(op, x, method="exact"),
             "pole by pole": pole_by_pole}  # fmt: skip
    with torch.no_grad():
        found: dict[str, torch.Tensor] = {}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}

        def run(name: str) -> None:
            found[name] = cases[name]()

        for number in range(rounds):
            for name in list(cases) if number % 2 else list(cases)[::-1]:
                times[name].append(timed(partial(run, name)))
        # the filter has the constant term, too
        whole = found["one space"] + conv.constant.detach() * x
        apart = [
            float((one - other).norm() / one.norm())
            for one, other in ((whole, found["K separate solves"]), (found["one space"], found["pole by pole"]))
        ]
    print(f"order {order}, {nodes:,} nodes, {op.nnz:,} entries, {rounds} rounds; answers differ by {max(apart):.1e}:")
    for name, pairs in times.items():
        clock, processor = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
        quotients = [
            statistics.median(one[k] / own[k] for one, own in zip(pairs, times["one space"], strict=True))
            for k in (0, 1)
        ]
        shown = "" if name == "one space" else f"; {quotients[0]:.2f} times as long ({quotients[1]:.2f} of a processor)"
        print(f"  {name:18} {clock:.3f} s by the clock, {processor:.3f} s of a processor{shown}", flush=True)


def step(nodes: int, entries: int) -> None:
    """Print what a training step takes."""
    op = random_operator(nodes, entries)
    x = torch.randn(nodes, CHANNELS, generator=torch.Generator().manual_seed(1))
    conv = RationalConv(CHANNELS, CHANNELS, order=4, method="exact")
    small = random_operator(1000, 5000)
    conv(x[:1000], small).square().mean().backward()  # compile
    conv.zero_grad()
    clock, processor = timed(lambda: conv(x, op).square().mean().backward())
    how = conv.statistics
    assert how is not None
    assert how.adjoint is not None
    print(
        f"training step, {nodes:,} nodes, {op.nnz:,} entries, {CHANNELS} channels: {clock:.1f} s by the clock, "
        f"{processor:.1f} s of a processor, {torch.get_num_threads()} threads; products: {how.iterations} forwards, "
        f"{how.adjoint.iterations} backwards; residual {how.residual:.1e}, {how.adjoint.residual:.1e}"
    )


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--solves", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    ratios(4, 1000, 5000, 1)  # compile
    every = not (given.small or given.large or given.solves)
    if given.small or every:
        for order in (4, 8):
            ratios(order, 50_000, 1_000_000, given.rounds)
    if given.large or every:
        step(1_000_000, 10_000_000)
    if given.solves or every:
        ratios(4, 1_000_000, 10_000_000, 1)


if __name__ == "__main__":
    main()
