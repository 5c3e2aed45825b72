"""``armagnn bench``: which comparisons run, and what is printed and written; nothing is measured here."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from armagnn import bench
from armagnn.bench import Comparison, filter_learning
from armagnn.bench.filter_learning import Result
from armagnn.cli import app

PARTS = ("layers", "products", "batches", "signals", "trials", "peers", "bandwidth")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which comparisons were made, with how many rounds."""
    found: list[tuple[str, int]] = []

    def fake(part: str, rounds: int) -> Iterator[Comparison]:
        found.append((part, rounds))
        yield Comparison(f"work of {part}", "ms", 1.0, 9.0, 9.0, 8.0)

    for part in PARTS:
        monkeypatch.setattr(bench, f"compare_{part}", lambda rounds=0, part=part: fake(part, rounds))
    return found


def test_the_cpu_has_all_parts(asked: list[tuple[str, int]], tmp_path: Path) -> None:
    out = tmp_path / "new" / "cpu.json"
    result = CliRunner().invoke(app, ["bench", "--out", str(out)], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert asked == list(zip(PARTS, (5, 5, 5, 2, 3, 3, 3), strict=True))
    assert "work of peers: 1.000 ms, peer 9.000 ms, 9.00×" in result.output
    content = json.loads(out.read_text())
    assert content["command"] == "armagnn bench cpu --rounds 5"
    assert [row["work"] for row in content["rows"]] == [f"work of {part}" for part in PARTS]


@pytest.mark.parametrize("part", PARTS[2:])
def test_a_part_alone(asked: list[tuple[str, int]], part: str) -> None:
    assert CliRunner().invoke(app, ["bench", part, "--rounds", "1"]).exit_code == 0
    assert asked == [(part, 1)]


def test_filters_are_learned_by_every_method(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def learn(method: str, data: object) -> list[Result]:
        return [Result("comb", method, 500, 7, "final", 0.01, seed, 3, 0.5, 0.25, 1 / 3) for seed in range(2)]

    monkeypatch.setattr(filter_learning, "filter_data", lambda: None)
    monkeypatch.setattr(filter_learning, "learn", learn)
    out = tmp_path / "filters.csv"
    result = CliRunner().invoke(app, ["bench", "filter-learning", "--out", str(out)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "gcn: " in result.output
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == [name for name in filter_learning.OPTIONS for _ in range(2)]
    assert rows[0]["sse"] == "0.333333"


def test_without_a_gpu_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = CliRunner().invoke(app, ["bench", "gpu"])
    assert result.exit_code == 2
    assert "torch sees no GPU here. Use: armagnn bench cpu" in " ".join(result.output.split())


def test_filters_are_learned_from_the_grid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from armagnn.bench import grid_filters, grid_training
    from bench.test_grid_filters import small_grid

    asked: list[tuple[str, str, int]] = []

    def learn(data: grid_filters.GridData, method: str, protocol: str, coefficients: int) -> grid_training.Learned:
        asked.append((method, protocol, data.images.shape[1]))
        return grid_training.Learned(method, protocol, coefficients, np.full((5, 2), 0.25), None, 0.5)

    monkeypatch.setattr(grid_filters, "grid_data", lambda images: small_grid(4, images))
    monkeypatch.setattr(grid_training, "learn_grid", learn)
    out = tmp_path / "grid.csv"
    command = ["bench", "filter-learning", "--data", "grid", "--images", "4", "--out", str(out)]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert len(asked) == 39
    assert ("rational", "fit", 4) in asked
    assert ("arma", "adam", 3) in asked
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 39 * 10
    assert rows[0]["dataset"] == "grid/low"
    assert (tmp_path / "SHA256SUMS").is_file()
