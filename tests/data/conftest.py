"""Folders of its own for every test that adds, fetches or looks for files, and the real files where they are."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from armagnn.data import CATALOGUE

CHECKOUT = Path(__file__).resolve().parents[2]


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
def real(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Make a dataset that the package does not carry loadable by name, or skip."""

    def find(name: str) -> str:
        for folder in (os.environ.get("ARMAGNN_DATA"), CHECKOUT.parent / "shared" / "data"):
            if folder and all((Path(folder) / file).is_file() for file in CATALOGUE[name].files):
                monkeypatch.setenv("ARMAGNN_DATA", str(folder))
                return name
        pytest.skip(f"{CATALOGUE[name].file} is not here: set ARMAGNN_DATA to the folder that holds it")

    return find
