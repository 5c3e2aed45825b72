"""Folders of its own for every test that adds, fetches or looks for files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder; nothing is found elsewhere."""
    folder = tmp_path / "data"
    monkeypatch.setenv("ARMAGNN_DATA", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder
