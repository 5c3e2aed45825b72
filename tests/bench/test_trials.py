"""The benchmark of trials trains the same seeds both ways."""

from __future__ import annotations

import pytest

from armagnn.bench import trials


def test_both_ways_train_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[int], int]] = []

    def fake(dataset: object, seeds: range, epochs: int) -> float:
        asked.append((list(seeds), epochs))
        return 1.0 if len(seeds) > 1 else 2.0

    monkeypatch.setattr(trials, "seconds", fake)
    (row,) = trials.compare_trials(rounds=2, count=3, epochs=7)
    assert asked[2:] == 2 * [([0, 1, 2], 7), ([0], 7), ([1], 7), ([2], 7)]
    assert (row.ours, row.peer, row.ratio, row.required, row.met) == (1.0, 6.0, 6.0, 3.0, True)


def test_a_training_is_timed() -> None:
    assert trials.seconds(trials.load("cora"), [0, 1], 2) > 0
