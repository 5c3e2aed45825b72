from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from armagnn.bench import grid_report
from armagnn.bench.grid_filters import RESPONSES
from armagnn.bench.grid_training import Learned, Row
from armagnn.sealed import rows_csv


def test_rows_table_and_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    learned = [
        Learned("rational", "fit", 9, np.full((5, 2), 1e-6), lambda mu: np.zeros((5, 2, len(mu))), 0.1),
        Learned("arma", "adam", 9, np.full((5, 2), 10.0), None, 2.0),
    ]
    rows = [row for one in learned for row in one.rows()]
    assert {row.dataset for row in rows} == {f"grid/{name}" for name in RESPONSES}
    assert {(row.method, row.protocol) for row in rows} == {("rational", "fit-9"), ("arma", "adam-9")}
    assert [row.run for row in rows[:2]] == [0, 1]
    head = rows_csv(Row, rows, 6).decode().splitlines()[0]
    assert head.startswith("dataset,method,protocol,run,fold,metric,value")
    assert grid_report.table(learned).row_count == 2
    grid_report.draw(learned, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
