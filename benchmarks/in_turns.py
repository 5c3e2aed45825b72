"""Compare the speed of two checkouts on this processor: ``python benchmarks/in_turns.py OLD NEW``.

Each round runs all cases once in a fresh process for each checkout, in turns (old new, new old, ...), so that a slow
minute of the machine meets both. The first process of each checkout only compiles and does not count. With one thread,
processor time is measured, which other programs on the machine change little; with more threads, wall time. A case is
measured by the median of its runs; printed are the medians over the rounds, and the ratio new / old of the rounds: its
median, and the quarter points between which half of the rounds lie. Below 1 the new checkout is faster. The cases use
public names only that 0.1.0 (8adf61b) has, too.
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
from collections.abc import Callable
from pathlib import Path

LEAST, MOST = 0.4, 200
"""Seconds that the runs of a case take together at least, of three runs or more; and the most runs."""


# --------------------------------------------------------------------------------------- in the process of one checkout


def cases() -> dict[str, Callable[[], Callable[[], object]]]:
    """By name, what prepares a case; what that returns is measured."""
    import torch

    from armagnn import GraphOperator
    from armagnn.data import load
    from armagnn.nn import ARMAConv, make_conv
    from armagnn.tasks import NodeNet, NodeTask
    from armagnn.training.trials import Trials

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(1))

    def random_edges(nodes: int = 20_000, nonzeros: int = 560_000) -> torch.Tensor:
        half = torch.randint(0, nodes, (2, nonzeros // 2), generator=torch.Generator().manual_seed(0))
        return torch.cat([half, half.flip(0)], dim=1)

    def step(conv: torch.nn.Module, *given: object) -> Callable[[], object]:
        def run() -> None:
            conv.zero_grad()
            conv(*given).sum().backward()

        return run

    def product() -> Callable[[], object]:
        op, x = GraphOperator.from_edge_index(random_edges(), 20_000), randn(20_000, 64)
        return lambda: op @ x

    def build() -> Callable[[], object]:
        edges = random_edges()
        return lambda: GraphOperator.from_edge_index(edges, 20_000)

    def cora_layer() -> Callable[[], object]:
        data = load("cora")
        return step(ARMAConv(data.num_features, 16, 2, 1), data.x, data.operator())

    def large_layer() -> tuple[torch.nn.Module, torch.Tensor, GraphOperator]:
        op = GraphOperator.from_edge_index(random_edges(), 20_000)
        return ARMAConv(50, 64, 3, 2), randn(20_000, 50), op

    def inference() -> Callable[[], object]:
        conv, x, op = large_layer()
        return torch.no_grad()(lambda: conv(x, op))

    def signals() -> Callable[[], object]:
        number = torch.arange(28 * 28).view(28, 28)
        pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
        half = torch.cat([torch.stack([one.flatten(), other.flatten()]) for one, other in pairs], 1)
        op = GraphOperator.from_edge_index(torch.cat([half, half.flip(0)], 1), 28 * 28)
        return step(ARMAConv(1, 32, 5, 10), randn(32, 28 * 28, 1), op)

    def layer(name: str, kind: str) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            op = GraphOperator.from_edge_index(random_edges(), 20_000, kind=kind)
            return step(make_conv(name, 64, 64), randn(20_000, 64), op)

        return prepare

    def trials(count: int) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            from armagnn.training import Setting

            data = load("cora")
            options = {"num_stacks": 2, "num_layers": 1}

            def network() -> NodeNet:
                return NodeNet("arma", data.num_features, data.num_classes, options=options)

            settings = [Setting(seed, 0.01, 5e-4, (0.5, 0.5, 0.5)) for seed in range(count)]

            def run() -> object:
                task = NodeTask(data, network())
                return list(Trials(network, task, settings, epochs=10, patience=10, stop_on="loss").run())

            return run

        return prepare

    def command() -> Callable[[], object]:
        program = "from armagnn.cli import main; main()"

        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                arguments = ["train", "--dataset", "cora", "--epochs", "30", "--out", str(Path(folder, "run"))]
                subprocess.run(
                    [sys.executable, "-c", program, *arguments],
                    check=True,
                    capture_output=True,
                )

        return run

    return {
        "operator from 560,000 edges": build,
        "op @ x, F=64": product,
        "ARMA on Cora, training step": cora_layer,
        "ARMA 50 -> 64, K=3, T=2, training step": lambda: step(*large_layer()),
        "ARMA 50 -> 64, K=3, T=2, inference": inference,
        "ARMA on 32 signals, K=5, T=10, training step": signals,
        "GCN, training step": layer("gcn", "gcn"),
        "GAT, training step": layer("gat", "adjacency"),
        "GraphSAGE, training step": layer("sage", "adjacency"),
        "10 epochs on Cora, one trial": trials(1),
        "10 epochs on Cora, ten trials": trials(10),
        "armagnn train, ten seeds, 30 epochs, whole process": command,
    }


def processor_seconds() -> float:
    """The time that this process and its finished children have had a processor."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(wanted: str) -> dict[str, float]:
    """The median milliseconds of every case whose name has the wanted text in it."""
    clock = processor_seconds if os.environ.get("OMP_NUM_THREADS") == "1" else time.perf_counter
    found = {}
    for name, prepare in cases().items():
        if wanted not in name:
            continue
        run, times = prepare(), list[float]()
        whole = name.endswith("process")
        for _ in range(0 if whole else 2):  # compile, and fill the caches
            run()
        while len(times) < (1 if whole else 3) or (sum(times) < LEAST and len(times) < MOST):
            began = clock()
            run()
            times.append(clock() - began)
        found[name] = 1e3 * statistics.median(times)
    return found


# ------------------------------------------------------------------------------------------------------------ in turns


def in_process(checkout: Path, wanted: str, threads: int) -> dict[str, float]:
    """Measure a checkout in a separate process."""
    source = checkout / "src"
    given = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, str(Path(__file__).resolve()), "--measure", wanted]
    done = subprocess.run(command, env=os.environ | given, stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    if not Path(answer["package"]).is_relative_to(source.resolve()):
        raise SystemExit(f"{checkout}: the process imported {answer['package']}.")
    times: dict[str, float] = answer["times"]
    return times


def spread(values: list[float]) -> tuple[float, float, float]:
    """The lower quarter point, the median and the upper quarter point; of one value all are that."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def table(rounds: list[tuple[dict[str, float], dict[str, float]]]) -> list[str]:
    """A line for each case: the medians of both checkouts, and the ratio of the rounds with its spread."""
    lines = [f"{'case':52} {'old, ms':>10} {'new, ms':>10} {'new/old':>8}  half of the rounds"]
    for name in rounds[0][0]:
        old, new = ([pair[side][name] for pair in rounds] for side in (0, 1))
        low, middle, high = spread([b / a for a, b in zip(old, new, strict=True)])
        medians = f"{statistics.median(old):10.3f} {statistics.median(new):10.3f}"
        lines.append(f"{name:52} {medians} {middle:8.3f}  {low:.3f} to {high:.3f}")
    return lines


def main() -> None:
    """Measure both checkouts in turns, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path, nargs="?", help="a checkout, with the package in its src/")
    parser.add_argument("new", type=Path, nargs="?", help="the other one")
    parser.add_argument("--rounds", type=int, default=10, help="at most")
    parser.add_argument("--minutes", type=float, default=12.0, help="begin no round that would end later than this")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--cases", default="", help="only cases with this text in their names")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        import armagnn

        print(json.dumps({"package": str(Path(armagnn.__file__).resolve()), "times": measure(options.measure)}))
        return
    if options.new is None:
        parser.error("two checkouts are needed")
    began = time.perf_counter()
    sides = [path.resolve() for path in (options.old, options.new)]
    for side in sides:
        in_process(side, options.cases, options.threads)
    rounds: list[tuple[dict[str, float], dict[str, float]]] = []
    longest = 0.0
    while len(rounds) < options.rounds:
        start = time.perf_counter()
        if rounds and start - began + longest > 60 * options.minutes:
            break
        order = (0, 1) if len(rounds) % 2 == 0 else (1, 0)
        found = {side: in_process(sides[side], options.cases, options.threads) for side in order}
        rounds.append((found[0], found[1]))
        longest = max(longest, time.perf_counter() - start)
        print(f"round {len(rounds)}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{len(rounds)} rounds in turns, {options.threads} threads, {time.perf_counter() - began:.0f} s")
    print("\n".join(table(rounds)))


if __name__ == "__main__":
    main()
