"""What the tests of the tables share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armagnn.training import SignalsConfig
from armagnn_paper import table
from tiny_signals import tiny


def forget() -> None:
    """Forget the data and experiments of this process."""
    table.experiment_of.cache_clear()
    table._loaded.cache_clear()


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing is loaded before, and nothing of the test stays loaded."""
    forget()
    yield
    forget()


@pytest.fixture
def tiny_data(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both datasets of Table 2 be a tiny one, batches be small, and trainings short."""
    usual = SignalsConfig.defaults

    def small(dataset: str, conv: str) -> dict[str, Any]:
        return {**usual(dataset, conv), "batch": 8, "epochs": 2}

    monkeypatch.setattr(SignalsConfig, "load", lambda self: tiny())
    monkeypatch.setattr(SignalsConfig, "defaults", staticmethod(small))


@pytest.fixture
def none_chosen(tmp_path: Path) -> Path:
    """The choices of a search that was not made, whatever the package has."""
    path = tmp_path / "none-chosen.json"
    path.write_text("{}\n")
    return path
