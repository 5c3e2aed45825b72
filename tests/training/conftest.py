"""Folders of graphs with classes and with numbers, a finished run on each, and curves that are quick to draw."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from armagnn.training import run_folder as run_module
from armagnn.training import train
from own_graphs import folder_of, quick, rings_and_paths, with_numbers


@pytest.fixture(scope="module")
def quick_curves() -> Any:
    """Draw no curves, which takes a second, but write their title."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(run_module, "draw_curves", lambda trials, title: f"{title} {len(trials)}".encode())
        yield


@pytest.fixture(scope="module")
def graph_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("data")
    rings = rings_and_paths()
    return {"classes": folder_of(rings, root / "rings"), "numbers": folder_of(with_numbers(rings), root / "numbers")}


@pytest.fixture(scope="module")
def graph_runs(
    quick_curves: None, graph_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("runs")
    for kind in graph_folders:
        train(quick(graph_folders[kind], skip_dropout=0.3, pooling="padded"), root / kind)
    return {kind: root / kind for kind in graph_folders}


@pytest.fixture
def graph_copy(graph_runs: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(graph_runs["classes"], tmp_path / "copy"))


@pytest.fixture(scope="module")
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the `CONFIG` of the module."""
    path = tmp_path_factory.mktemp("runs") / "run"
    train(request.module.CONFIG, path)
    return path


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))
