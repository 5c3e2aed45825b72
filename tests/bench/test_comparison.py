"""The benchmarks' machinery, on small sizes; nothing here asserts a time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from armagnn.bench import Comparison, table, write
from armagnn.bench.comparison import compared, medians


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


def test_the_ratio_is_the_peer_s_number_over_ours() -> None:
    assert compared("w", "s", 2.0, 6.0, required=3.0) == Comparison("w", "s", 2.0, 6.0, 3.0, 3.0)


def test_the_peak_of_a_step_is_what_it_takes() -> None:
    """In a process of its own: this one may have freed memory to give."""
    program = "import torch; from armagnn.bench.comparison import peak_mib; print(peak_mib(lambda: torch.ones(2**25)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not float(done.stdout) < 100  # 128 MiB, or NaN where the system hides it
