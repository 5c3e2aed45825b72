"""The claims' measurements: how they are kept, and that they go on where they stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from armagnn.errors import DataError
from armagnn.sealed import write_sealed
from armagnn_paper.claims import ClaimRow, Measurement, measure
from armagnn_paper.claims import rows_of as read_rows

HEAD = "method,variable,level,run,metric,value\n"


def rows_of(method: str, runs: int, value: float = 1.0) -> list[ClaimRow]:
    return [ClaimRow(method, "v", "1", run, "m", value) for run in range(runs)]


def test_what_a_file_holds_is_not_measured_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def job(method: str) -> Measurement:
        def run(runs: int) -> list[ClaimRow]:
            asked.append(method)
            return rows_of(method, runs, 0.1 + 0.2)

        return Measurement({"method": method}, run)

    path = tmp_path / "deep" / "claim.csv"
    assert len(list(measure([job("a")], path, 2))) == 1
    assert len(list(measure([job("a"), job("b")], path, 2))) == 1
    assert asked == ["a", "b"]
    assert [row.method for row in read_rows(path)] == ["a", "a", "b", "b"]
    assert read_rows(path)[0].value == pytest.approx(0.3)
    assert len(list(measure([job("a")], path, 3))) == 1  # more runs than there are
    runs = {method: sorted(row.run for row in read_rows(path) if row.method == method) for method in "ab"}
    assert runs == {"a": [0, 1, 2], "b": [0, 1]}


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    wrong = {"a,b\n1,2\n": "its first line must be", HEAD + "arma,v,1,zero,m,1\n": "not the rows of a claim"}
    for content, message in wrong.items():
        write_sealed(path, content.encode())
        with pytest.raises(DataError, match=message):
            read_rows(path)
