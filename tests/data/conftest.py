"""Cora, and a folder of its own for every test that adds, fetches or looks for files."""

from __future__ import annotations

from pathlib import Path

import pytest

from armagnn.data import NodeDataset, load
from armagnn.data.arrays import pack_arrays
from data.tiny import node_arrays


@pytest.fixture(scope="session")
def cora() -> NodeDataset:
    return load("cora")


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder; nothing is found elsewhere."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ARMAGNN_DATA", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """A file of the user's own."""
    path = tmp_path / "papers.npz"
    path.write_bytes(pack_arrays(node_arrays()))
    return path
