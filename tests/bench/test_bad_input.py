"""Odd arguments of the comparisons and of the paper's rooms: a typed error, before any work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import bench, sealed
from armagnn.bench import copy_bandwidth, cpu_rows, filter_learning, gpu_rows, mnist_signals, molecule_batches
from armagnn.data import load
from armagnn.errors import ArmagnnError
from armagnn_paper import (
    claims,
    claims_layers,
    convergence,
    reservoir_table,
    responses,
    restore,
    training_time,
)
from armagnn_paper.table import Cell
from armagnn_paper.tables import TABLES

NO_SIZE: tuple[Any, ...] = (
    0, -1, 2.5, float("nan"), float("inf"), "3", "", b"3", True, 2**63, 10**30, [3], {}, object(), torch.ones(3),
    np.ones(2), 1 + 1j,
)  # fmt: skip
NO_NAME: tuple[Any, ...] = (
    0, None, 2.5, "", "[/x]", "a\x00b", "x" * 100_000, "\udc80", b"cora", ["cora"], {}, object(), torch.ones(3),
    np.array(["cora", "arma"]), ...,
)  # fmt: skip

SIZES: dict[str, tuple[Callable[..., Any], str]] = {
    "layers": (bench.compare_layers, "rounds"),
    "products": (bench.compare_products, "rounds"),
    "products, widths": (lambda widths: bench.compare_products((widths,)), "widths"),
    "batches": (bench.compare_batches, "rounds graphs size"),
    "signals": (bench.compare_signals, "rounds batch stacks steps"),
    "images": (lambda training: mnist_signals.random_images((training, 1, 1)), "training"),
    "trials": (bench.compare_trials, "rounds count epochs"),
    "peers": (bench.compare_peers, "rounds nodes nonzeros width"),
    "bandwidth": (bench.compare_bandwidth, "rounds"),
    "R-MAT": (lambda **given: copy_bandwidth.rmat(**{"nodes": 4, "nonzeros": 6} | given), "nodes nonzeros"),
    "epochs": (molecule_batches.compare_epochs, "graphs size"),
    "gpu": (gpu_rows.compare_gpu, "runs"),
    "graph": (lambda **given: cpu_rows.random_graph(**{"nodes": 4, "nonzeros": 6} | given), "nodes nonzeros"),
    "grid": (filter_learning.pixel_grid, "side"),
    "photographs": (filter_learning.photographs, "side"),
    "counts": (lambda train: filter_learning.filter_data(26, {"train": train}), "train"),
    "widest": (lambda budget: filter_learning.widest("gcn", budget), "budget"),
    "learn": (lambda **given: filter_learning.learn("gcn", None, **given), "seeds epochs budget"),
    **{
        f"trials of {table.name}": (
            lambda runs, table=table: table.trials(Cell(table.datasets[0], "arma", "paper"), runs),
            "runs",
        )
        for table in TABLES.values()
    },
    "convergence": (lambda seeds: convergence.run(Path("t.csv"), ["cora"], seeds), "seeds"),
    "cost": (lambda runs: convergence.cost("T=10", runs), "runs"),
    "reservoir": (lambda runs: reservoir_table.measure("cora", runs), "runs"),
    "claims": (lambda runs: claims.measure(claims_layers.DEPTH.jobs, Path("c.csv"), runs), "runs"),
    "training time": (lambda **given: training_time.measure("cora", ["gcn"], **given), "epochs patience"),
    "figure 2": (lambda steps: responses.figure2(load("cora"), [steps]), "steps"),
    "figure 3": (lambda steps: responses.figure3(load("cora"), steps), "steps"),
    "sweep": (lambda layers: responses.gamma_sweep(load("cora"), [0.0], layers), "layers"),
}

NAMES: dict[str, Callable[[Any], Any]] = {
    "nodes": cpu_rows.large_case,
    "pass": cpu_rows.cora_case().forward,
    "memory": cpu_rows.peak_of_training_step,
    "widest": filter_learning.widest,
    **{f"dataset of {t.name}": lambda name, t=t: t.config(Cell(name, "arma", "paper")) for t in TABLES.values()},
    **{f"method of {t.name}": lambda name, t=t: t.check(t.datasets[0], name) for t in TABLES.values()},
    **{f"protocol of {t.name}": lambda name, t=t: t.check(t.datasets[0], "arma", name) for t in TABLES.values()},
    "problem": convergence.problem,
    "methods": convergence.methods,
    "case": convergence.options_of,
    "reservoir": reservoir_table.measure,
    "grid": reservoir_table.grid,
    "training time": lambda name: training_time.measure("cora", [name]),
    "target": lambda name: responses.train_filter(
        name, load("cora").operator(dtype=torch.float64), torch.ones(2708, 1), torch.ones(2708, 1)
    ),
    "figure 2": responses.figure2,
    "figure 3": responses.figure3,
    "sweep": responses.gamma_sweep,
    "restore": restore.restore,
}  # fmt: skip


def begin(call: Callable[..., Any], **given: Any) -> None:
    """Call it, and let a generator come to its first result."""
    found = call(**given)
    if isinstance(found, Iterator):
        next(found)


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, (_, own) in SIZES.items() for size in own.split()])
def test_no_size(name: str, size: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in NO_SIZE:
        with pytest.raises(ArmagnnError):
            begin(SIZES[name][0], **{size: value})
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize("name", NAMES)
def test_no_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in NO_NAME:
        with pytest.raises(ArmagnnError) as caught:
            begin(lambda value=value: NAMES[name](value))
        assert len(str(caught.value)) < 5000
    assert list(tmp_path.iterdir()) == []


def test_no_file(tmp_path: Path) -> None:
    rows = [bench.Comparison("w", "ms", 1.0, 2.0, 2.0)]
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "b.json"):
        with pytest.raises(ArmagnnError, match="cannot be written"):
            bench.write(path, rows, "bench")
    bench.write(tmp_path / "new" / "a.json", rows, "bench")
    assert (tmp_path / "new" / "a.json").is_file()
    for path in (tmp_path, tmp_path / "a\x00b.csv", tmp_path / "x" / "missing.csv"):
        with pytest.raises(ArmagnnError, match="cannot be read"):
            sealed.read_table(path)


def test_no_graph() -> None:
    with pytest.raises(ArmagnnError, match="widths"):
        next(bench.compare_products(64))  # type: ignore[arg-type]
    with pytest.raises(ArmagnnError, match="split"):
        mnist_signals.random_images((3, 3))  # type: ignore[arg-type]
    with pytest.raises(ArmagnnError, match="multiple of 8"):
        next(bench.compare_peers(width=12))
    for counts in ({}, None, [1]):
        with pytest.raises(ArmagnnError, match="counts"):
            filter_learning.filter_data(26, counts)  # type: ignore[arg-type]
