"""What a search writes: its own cells anew, those of other stores as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import DataError
from armagnn.training.record import Record
from armagnn_paper import search
from armagnn_paper.search import write_search
from armagnn_paper.tables import GRAPHS

HEAD = "dataset,method,fold,score\n"


def choose(table: object, records: list[Record], budgets: object) -> dict[str, Any]:
    return {f"{record.dataset}/{record.method}/{record.fold}": record.config for record in records}


def scores(table: object, records: list[Record]) -> str:
    return HEAD + "".join(f"{r.dataset},{r.method},{r.fold},{r.metrics['val_accuracy']:.0f}\n" for r in records)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen, and how it is scored, is another matter."""
    monkeypatch.setattr(search, "choose", choose)
    monkeypatch.setattr(search, "scores_csv", scores)


@pytest.fixture
def records() -> list[Record]:
    return [
        Record("some-search", "qm9/mu", "gcn", "tuned", 0, fold, 7, {"lr": 0.1, "fold": fold}, {"val_accuracy": 50})
        for fold in (0, 1)
    ]


def test_other_cells_stay(records: list[Record], tmp_path: Path) -> None:
    out, table = tmp_path / "chosen.json", tmp_path / "scores.csv"
    out.write_text(json.dumps({"qm9/mu/arma/0": {"lr": 1}, "qm9/mu/gcn/0": {"lr": 2}, "qm9/mu/gcn/9": {"lr": 3}}))
    table.write_text(HEAD + "qm9/mu,arma,0,77\nqm9/mu,gcn,0,11\nzinc,gcn,0,12\n")
    for _ in range(2):  # twice is once
        write_search(GRAPHS, records, {}, out, table)
        assert list(json.loads(out.read_text()).items()) == [
            ("qm9/mu/arma/0", {"lr": 1}),
            ("qm9/mu/gcn/0", {"lr": 0.1, "fold": 0}),
            ("qm9/mu/gcn/1", {"lr": 0.1, "fold": 1}),
        ]
        assert table.read_text() == HEAD + "qm9/mu,arma,0,77\nqm9/mu,gcn,0,50\nqm9/mu,gcn,1,50\nzinc,gcn,0,12\n"


def test_new_files(records: list[Record], tmp_path: Path) -> None:
    out, table = tmp_path / "chosen.json", tmp_path / "scores.csv"
    write_search(GRAPHS, records, {}, out, table)
    assert list(json.loads(out.read_text())) == ["qm9/mu/gcn/0", "qm9/mu/gcn/1"]
    assert table.read_text() == HEAD + "qm9/mu,gcn,0,50\nqm9/mu,gcn,1,50\n"


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_file_that_has_no_choices_is_left_alone(records: list[Record], tmp_path: Path, content: str) -> None:
    out = tmp_path / "chosen.json"
    out.write_text(content)
    with pytest.raises(DataError, match="not the choices of a search"):
        write_search(GRAPHS, records, {}, out, None)
    assert out.read_text() == content


def test_a_file_that_has_no_scores_is_left_alone(records: list[Record], tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    table.write_text("something,else\n1,2\n")
    with pytest.raises(DataError, match="not the scores of this search"):
        write_search(GRAPHS, records, {}, None, table)
    assert table.read_text() == "something,else\n1,2\n"
