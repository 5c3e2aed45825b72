"""What the tests of Table 2 share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from armagnn.paper import graph_signal as signals
from tiny_signals import tiny


@pytest.fixture
def tiny_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let both datasets of Table 2 be a tiny one, and batches be small."""
    monkeypatch.setattr(signals, "load_signals", lambda name: tiny())
    monkeypatch.setattr(signals, "BATCH", {"mnist": 8, "20news": 8})
    for cached in (signals._load, signals._places):
        cached.cache_clear()
    yield
    for cached in (signals._load, signals._places):
        cached.cache_clear()


@pytest.fixture
def none_chosen(tmp_path: Path) -> Path:
    """The choices of a search that was not made, whatever the package has."""
    path = tmp_path / "none-chosen.json"
    path.write_text("{}\n")
    return path
