"""The benchmarks' machinery, on small sizes; nothing here asserts a time."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest
import torch

from armagnn.bench import Comparison, memory, table, write
from armagnn.bench.problems import large_case
from armagnn.bench.timing import medians


def test_both_sides_compute_the_same() -> None:
    case = large_case(nodes=50, nonzeros=300)
    case.ours.load_state_dict(type(case.ours).from_pyg(case.pyg).state_dict())
    ours, pyg, edges = (case.forward(which)() for which in ("ours", "pyg", "edges"))
    torch.testing.assert_close(ours, pyg, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(edges, ours)
    for which in ("ours", "pyg"):
        case.training_step(which)()
    assert case.ours.weight.grad is not None
    assert case.pyg.weight.grad is not None


def test_medians_take_turns() -> None:
    calls: list[str] = []

    def slow(name: str) -> None:
        calls.append(name)
        time.sleep(0.06)

    result = medians({"a": lambda: slow("a"), "b": lambda: slow("b")}, rounds=2)
    assert calls == ["a"] * 2 + ["b"] * 2 + (["a"] * 4 + ["b"] * 4) * 2  # two to find the burst, then the turns
    assert all(50 < value < 600 for value in result.values())


def test_rows_and_json(tmp_path: Path) -> None:
    rows = [
        Comparison("w", "ms", 1.0, 9.0, 9.0, 8.0),
        Comparison("v", "ms", 3.0, 1.0, 3.0, -2.2),
        Comparison("u", "ms", 1.0, 1.0, 1.0),
    ]
    assert [row.met for row in rows] == [True, False, None]
    write(tmp_path / "b" / "cpu.json", rows, "armagnn bench")
    content = json.loads((tmp_path / "b" / "cpu.json").read_text())
    assert [row["met"] for row in content["rows"]] == [True, False, None]
    assert content["machine"]["torch"] == torch.__version__.split("+")[0] or content["machine"]["torch"]
    assert table(rows).row_count == 3


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_peak_memory_grows_with_the_step() -> None:
    ours = memory.peak_of_training_step("ours")
    assert 10 < ours < 2000
