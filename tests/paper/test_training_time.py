"""Figure 4, in small."""

from __future__ import annotations

import csv

from armagnn.paper.training_time import draw, measure, to_csv


def test_every_method_is_timed_and_drawn() -> None:
    timings = list(measure("cora", ("gcn", "arma"), epochs=8))
    assert [timing.method for timing in timings] == ["gcn", "arma"]
    for timing in timings:
        assert timing.epochs == 8
        assert 1 <= timing.best_epoch <= 8
        assert timing.seconds_per_epoch > 0
    assert draw(timings).startswith(b"\x89PNG")
    rows = list(csv.DictReader(to_csv(timings).splitlines()))
    assert [row["method"] for row in rows] == ["gcn", "arma"]
