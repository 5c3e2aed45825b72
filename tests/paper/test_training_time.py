"""Figure 4, in small."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from armagnn.errors import DataError
from armagnn.sealed import rows_csv, write_sealed
from armagnn_paper.page import results_page
from armagnn_paper.training_time import Timing, draw, from_csv, measure


def test_every_method_is_timed_and_drawn() -> None:
    timings = list(measure("cora", ("gcn", "arma"), epochs=8))
    assert [timing.method for timing in timings] == ["gcn", "arma"]
    for timing in timings:
        assert timing.epochs == 8
        assert 1 <= timing.best_epoch <= 8
        assert timing.seconds_per_epoch > 0
    left, right = draw(timings, "cora").axes
    assert [text.get_text() for text in left.texts] == [f"{1e3 * t.seconds_per_epoch:.3g}" for t in timings]
    assert [text.get_text() for text in right.texts] == [f"{t.seconds_to_best:.3g}" for t in timings]
    assert left.get_ylim()[0] == right.get_ylim()[0] == 0
    rows = list(csv.DictReader(rows_csv(Timing, timings).decode().splitlines()))
    assert [row["method"] for row in rows] == ["gcn", "arma"]


def test_the_numbers_survive_the_file_and_stand_on_the_page(tmp_path: Path) -> None:
    timings = [Timing("arma", "NVIDIA H200", 600, 0.0051, 594, 3.03, 80.9)]
    path = tmp_path / "training-time.csv"
    write_sealed(path, rows_csv(Timing, timings))
    assert from_csv(path) == timings
    section = results_page(tmp_path)
    assert "| ARMA | 5.10 | 3.03 | 594 of 600 | 80.9 |" in section
    assert "Made on NVIDIA H200 by `armagnn figure training-time --device cuda --epochs 600`" in section
    assert "their best may come later: ARMA." in section


def test_a_file_of_other_numbers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "training-time.csv"
    for text, message in {
        "method,device\narma,cpu\n": "another table",
        rows_csv(Timing, []).decode(): "not the numbers of Figure 4",
    }.items():
        write_sealed(path, text.encode())
        with pytest.raises(DataError, match=message):
            from_csv(path)
