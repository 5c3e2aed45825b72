from __future__ import annotations

from typing import Any

import pytest

from armagnn.explore.report_parts import baselines_part, main_measure, measured
from armagnn.training import NodesConfig


def test_numbers_are_shown_with_their_deviation() -> None:
    assert measured("accuracy", {"mean": 0.833, "std": 0.006}, several=True) == "83.3 ± 0.6 %"
    assert measured("accuracy", {"mean": 0.833, "std": 0.0}, several=False) == "83.3 %"
    assert measured("r2", {"mean": -0.25, "std": 0.01}, several=True) == "−0.25 ± 0.01"
    assert main_measure({"loss": {}, "accuracy": {}, "micro_f1": {}}) == "micro_f1"


def results(own: float, alone: float, spread: float, std: float = 0.01) -> tuple[dict[str, Any], dict[str, Any]]:
    metrics = {"trials": [{}, {}], "test": {"accuracy": {"mean": own, "std": std}}}
    return metrics, {
        "mlp": {"seeds": 2, "test": {"accuracy": {"mean": alone, "std": std}}},
        "label_propagation": {"seeds": 1, "test": {"accuracy": {"mean": spread, "std": 0.0}}},
    }


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((0.9, 0.8, 0.7), "10.0 points better than the network that ignores the edges"),
        ((0.9, 0.8, 0.85), "5.0 points better than label propagation"),
        ((0.8, 0.805, 0.7), "within the deviation between seeds"),
        ((0.7, 0.6, 0.9), "label propagation, which ignores the features, is 20.0 points better than this run"),
    ],
)
def test_the_verdict_is_what_the_numbers_say(values: tuple[float, float, float], verdict: str) -> None:
    part = baselines_part(NodesConfig(), *results(*values))
    assert part is not None
    assert verdict in part[2]


def test_a_run_without_baselines_has_no_such_part() -> None:
    assert baselines_part(NodesConfig(), results(0.9, 0.8, 0.7)[0], {}) is None
