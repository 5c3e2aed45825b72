"""Finished trials for the tests of what keeps, names and exports them."""

from __future__ import annotations

from typing import Any

from armagnn.training.record import Record


def finished(seed: int = 0, method: str = "arma", **changes: Any) -> Record:
    """A finished trial of Cora."""
    values: dict[str, Any] = {
        "table": "node-classification", "dataset": "cora", "method": method, "protocol": "paper", "run": seed,
        "fold": 0, "seed": seed, "config": {"method": method, "lr": 0.01, "widths": [16, 7]},
        "metrics": {"accuracy": 80 + seed / 3}, "epochs": 12, "seconds": 0.1, "versions": {"torch": "2"},
        "data_sha256": "ab" * 32, "device": "cpu",
    }  # fmt: skip
    return Record(**{**values, **changes})
