"""The layer against PyG's: the rows that the project promises."""

from __future__ import annotations

from collections.abc import Iterator

from armagnn.bench import memory
from armagnn.bench.problems import Case, cora_case, large_case
from armagnn.bench.report import Comparison
from armagnn.bench.timing import check_sizes, medians


def _versus_pyg(work: str, case: Case, inference: bool, required: float, rounds: int, ours: str = "ours") -> Comparison:
    make = case.forward if inference else case.training_step
    times = medians({"ours": make(ours), "pyg": make("pyg")}, rounds)
    return Comparison(work, "ms", times["ours"], times["pyg"], times["pyg"] / times["ours"], required)


def compare_layers(rounds: int = 5) -> Iterator[Comparison]:
    """Measure one row after the other: training step, inference and memory of the layer beside PyG's ``ARMAConv``."""
    check_sizes(rounds=rounds)
    cora, large = cora_case(), large_case()
    size = "20,000 nodes, 560,000 nonzeros, 50 -> 64, K=3, T=2"
    yield _versus_pyg("Cora, sparse features, 1433 -> 16, K=2, T=1, training step", cora, False, 8.0, rounds)
    yield _versus_pyg(f"{size}, training step", large, False, 25.0, rounds)
    yield _versus_pyg("the same, operator built from edge_index in every step", large, False, 0.0, rounds, "edges")
    yield _versus_pyg("the same, inference", large, True, 30.0, rounds)
    ours, pyg = memory.peak_of_training_step("ours"), memory.peak_of_training_step("pyg")
    yield Comparison("the same, peak memory of a training step", "MiB", ours, pyg, pyg / ours, 5.0)
    double = large_case(nonzeros=1_120_000)
    times = medians({"double": double.training_step("ours"), "single": large.training_step("ours")}, rounds)
    ratio = times["double"] / times["single"]
    yield Comparison(
        "edges doubled, time against the single graph (ours)", "ms", times["double"], times["single"], ratio, -2.2
    )
