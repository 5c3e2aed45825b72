"""What names a finished trial, and what one may hold."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Any

import pytest

from armagnn.errors import ParameterError
from armagnn.training.record import config_hash, to_csv, trial_key
from finished_trials import finished


@pytest.mark.parametrize("change", ["table", "config", "seed", "fold", "data_sha256"])
def test_what_determines_a_trial_is_in_its_key(change: str) -> None:
    other = {"table": "other", "config": {}, "seed": 1, "fold": 1, "data_sha256": ""}[change]
    assert replace(finished(), **{change: other}).key != finished().key


def test_the_key_is_that_of_the_contents() -> None:
    shuffled = {"widths": [16, 7], "method": "arma", "lr": 0.01}
    same = finished(run=5, config=shuffled, metrics={"accuracy": 2.0}, seconds=7.0, device="gpu", versions={})
    assert same.key == finished().key == trial_key("node-classification", shuffled, 0, 0, "ab" * 32)


@pytest.mark.parametrize(
    "change",
    [
        {"config": {"widths": (16, 7)}}, {"config": {"lr": float("nan")}}, {"config": {1: 2}}, {"config": [1]},
        {"config": {"x": object()}}, {"metrics": {"accuracy": float("nan")}}, {"metrics": {"accuracy": None}},
        {"run": 0.5}, {"table": "../evil"}, {"table": ""}, {"seconds": float("inf")},
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        finished(**change)


def test_the_hash_of_a_configuration_does_not_depend_on_its_order() -> None:
    assert config_hash({"a": 1, "b": [2]}) == config_hash({"b": [2], "a": 1}) != config_hash({"a": 1, "b": [3]})


def test_export() -> None:
    trials = [finished(10), finished(2), finished(2, "gcn", metrics={"loss": 0.5, "accuracy": 0.1 + 0.2})]
    content = to_csv(trials)
    assert content == to_csv(reversed(trials))
    rows = list(csv.DictReader(content.decode().splitlines()))
    assert list(rows[0]) == [
        "dataset", "method", "protocol", "run", "fold", "metric", "value",
        "seed", "epochs", "seconds", "device", "config_hash",
    ]  # fmt: skip
    assert [(r["method"], r["run"], r["metric"]) for r in rows] == [
        ("arma", "2", "accuracy"), ("arma", "10", "accuracy"), ("gcn", "2", "accuracy"), ("gcn", "2", "loss"),
    ]  # fmt: skip
    assert float(rows[2]["value"]) == 0.1 + 0.2
    assert rows[0]["config_hash"] == rows[1]["config_hash"] != rows[2]["config_hash"]
