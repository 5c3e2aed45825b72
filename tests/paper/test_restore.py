"""Trials from exported tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from armagnn.data import load
from armagnn.errors import DataError, ParameterError
from armagnn.sealed import write_sealed
from armagnn.training.record import Record, to_csv
from armagnn_paper.restore import restore
from armagnn_paper.table import Cell
from armagnn_paper.tables import GRAPHS, NODES, paper_config

RESULTS = Path(__file__).resolve().parents[2] / "results"


def trial(run: int, method: str = "arma", **changes: object) -> Record:
    cell = Cell("cora", method, "paper")
    config = NODES.stored(cell, replace(paper_config("cora", method), **changes))
    metrics = {"accuracy": 100 / (run + 3), "val_loss": 0.1 + run / 7}
    return Record(
        NODES.name, *cell, run, 0, run, config, metrics, epochs=9, seconds=1.25,
        data_sha256=load("cora").sha256, device="NVIDIA H200",
    )  # fmt: skip


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / f"{NODES.name}.csv"
    write_sealed(path, to_csv([trial(0), trial(1), trial(0, "gcn")]))
    return path


def test_all_but_the_versions_comes_back(table: Path) -> None:
    found = restore(table)
    assert found.records == [trial(0), trial(1), trial(0, "gcn")]
    assert (found.other, found.absent) == (0, {})


def test_the_fold_has_its_own_configuration(tmp_path: Path) -> None:
    cell = Cell("mutag", "chebyshev", "tuned")
    first, *others = (GRAPHS.stored(cell, GRAPHS.config(cell, fold)) for fold in range(10))
    other = next(fold for fold, config in enumerate(others, 1) if config != first)
    records = [Record("graph-classification", *cell, 0, fold, 0, first, {"accuracy": 80.0}) for fold in (0, other)]
    write_sealed(tmp_path / "graph-classification.csv", to_csv(records))
    found = restore(tmp_path / "graph-classification.csv")
    assert [(record.fold, record.config) for record in found.records] == [(0, first)]
    assert found.other == 1


def test_other_settings_and_unknown_cells_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / f"{NODES.name}.csv"
    row = b"cora,no-such-method,paper,0,0,accuracy,1.0,0,1,1.0,cpu,0123456789ab\n"
    write_sealed(path, to_csv([trial(0), trial(1, l2=0.1)]) + row)
    found = restore(path)
    assert found.records == [trial(0)]
    assert found.other == 2


def test_a_dataset_that_is_not_here(fresh: None, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARMAGNN_DATA", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cell = Cell("pubmed", "arma", "paper")
    config = NODES.stored(cell, NODES.config(cell))
    record = Record(NODES.name, *cell, 0, 0, 0, config, {"accuracy": 79.0})
    write_sealed(table, to_csv([trial(0), record]))
    found = restore(table)
    assert found.records == [trial(0)]
    assert list(found.absent) == ["pubmed"]
    assert "pubmed" in found.absent["pubmed"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dataset,method", "data,method", "its first line must be dataset,method,protocol"),
        ("NVIDIA H200,", "", "line 2: 12 values are needed"),
        ("0.1,0,9", "many,0,9", "run 0 of cora arma paper: could not convert string to float"),
        ("33.333333333333336,0,9", "33.333333333333336,zero,9", "seed of a row of cora is 'zero', no integer"),
    ],
)
def test_what_cannot_be_read(table: Path, old: str, new: str, message: str) -> None:
    text = table.read_text()
    assert old in text
    write_sealed(table, text.replace(old, new, 1).encode())
    with pytest.raises(DataError, match=message):
        restore(table)


def test_what_is_no_table_of_trials(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"no table of trials; those are node-classification.csv"):
        restore(tmp_path / "reservoir.csv")
    with pytest.raises(DataError, match="cannot be read"):
        restore(tmp_path / "graph-signal.csv")


@pytest.mark.parametrize("name", ["node-classification", "graph-classification"])
def test_the_committed_rows_are_those_of_the_cells_now(name: str, real: Callable[[str], str]) -> None:
    for dataset in ("citeseer", "pubmed", "ppi", "enzymes", "proteins", "bench-hard"):
        real(dataset)
    found = restore(RESULTS / f"{name}.csv")
    assert (found.other, found.absent) == (0, {})
    assert to_csv(found.records) == (RESULTS / f"{name}.csv").read_bytes()
