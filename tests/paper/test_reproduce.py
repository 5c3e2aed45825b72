"""The commands that make a table and search its settings, and a table that survives kills."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.errors import ArmagnnError
from armagnn.training.record import Record
from armagnn.training.results_store import Store
from armagnn_paper import tables
from armagnn_paper.cli import reproduce
from armagnn_paper.table import Cell, CellTrial, Job
from armagnn_paper.tables import GRAPHS, NODES, SIGNALS, TABLES


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["reproduce", *arguments], env={"COLUMNS": "300"})


def shown(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[CellTrial]]:
    """The trials that commands ask for, which are not done."""
    found: list[list[CellTrial]] = []
    monkeypatch.setattr(reproduce, "_do", lambda table, trials, *others, **more: found.append(list(trials)))
    return found


# -------------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("name", [name for name in TABLES if "paper" in TABLES[name].protocols])
def test_the_command_names_what_it_does_not_know(name: str, tmp_path: Path) -> None:
    table, store = TABLES[name], tmp_path / "store.sqlite"
    for arguments, message in (
        (["--dataset", "mist"], table.datasets[0]),
        (["--method", "armma"], "arma"),
        (["--protocol", "text"], ", ".join(sorted((*table.protocols, *table.beyond_protocols)))),
        (["--runs", "0"], "at least 1"),
        (["--device", "foo", "--dataset", table.datasets[0], "--method", "gcn", "--protocol", "paper"], "use 'cpu'"),
        (["--chosen", str(tmp_path / "no.json")], "does not exist"),  # a mistyped name is no search to be made
    ):
        result = run(name, "--store", str(store), *arguments)
        assert result.exit_code == 2, result.output
        assert message in result.output
    assert not store.exists()


def test_a_cell_without_a_choice_is_left_out_or_refused(
    asked: list[list[CellTrial]], none_chosen: Path, tmp_path: Path
) -> None:
    chosen = ["--chosen", str(none_chosen), "--runs", "1"]
    told = shown("graph-signal", *chosen)
    (trials,) = asked
    cells = [trial.cell for trial in trials]
    assert len(cells) == len(set(cells)) == 17  # 8 cells to the letter, 5 in the other reading, 4 on all documents
    assert told.count(" on mnist") == told.count(" on 20news") == 4
    asked.clear()
    shown("graph-signal", "--protocol", "defferrard", *chosen)
    (trials,) = asked
    wanted = [("mnist", "arma"), *(("20news", method) for method in SIGNALS.methods)]
    assert {trial.cell[:2] for trial in trials} == set(wanted)
    asked.clear()
    result = run("graph-signal", "--dataset", "mnist", "--method", "gcn", "--protocol", "tuned", *chosen)
    assert result.exit_code == 2
    assert "No search has been made for gcn on mnist: run armagnn reproduce graph-signal-search" in result.output
    assert asked == []


def test_a_protocol_that_a_method_does_not_have_is_refused_by_name(asked: list[list[CellTrial]]) -> None:
    result = run("graph-signal", "--dataset", "mnist", "--method", "gcn", "--protocol", "defferrard")
    assert result.exit_code == 2
    assert "paper" in result.output
    assert "tuned" in result.output
    assert asked == []
    cell = Cell("mnist", "gcn", "defferrard")
    content = SIGNALS.stored(cell, SIGNALS.literal(*cell))
    assert not SIGNALS.is_current(Record("graph-signal", *cell, 0, 0, 0, content, {"accuracy": 1.0}))


def test_a_cell_that_is_named_twice_is_done_once(asked: list[list[CellTrial]]) -> None:
    for name in ("graph-classification", "graph-classification-search"):
        for datasets in (["--dataset", "mutag"], ["--dataset", "mutag"] * 2):
            shown(name, "--method", "gcn", *datasets)
    numbers = [len(trials) for trials in asked]
    assert numbers[0] == numbers[1]
    assert numbers[2:] == [60, 60]


def test_the_plan_says_what_there_is_to_do(tmp_path: Path, none_chosen: Path) -> None:
    store = tmp_path / "store.sqlite"
    told = shown(
        "graph-classification", "--dataset", "mutag", "--method", "gcn", "--plan", "--runs", "1",
        "--chosen", str(none_chosen), "--store", str(store),
    )  # fmt: skip
    assert "mutag gcn paper" in told
    assert "0/10" in told
    assert "10 trainings to do: about " in told
    assert "no search has chosen" in told
    assert not store.exists()


def test_each_store_has_checkpoints_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr(reproduce, "execute", lambda asked, *others: jobs.extend(asked))
    for name in ("a.sqlite", "a.db"):
        where = reproduce.Where(tmp_path / "runs" / name, "cpu", 1, "local", tmp_path)
        reproduce._do(GRAPHS, GRAPHS.trials(Cell("mutag", "gat", "paper"))[:1], where)
    one, other = (Path(job.checkpoints) for job in jobs)
    assert one != other
    assert one.parent == other.parent == tmp_path / "runs"


def test_the_command_trains_what_is_missing(tiny_data: None, tmp_path: Path) -> None:
    store, chosen = tmp_path / "runs" / "store.sqlite", tmp_path / "chosen.json"
    cell = Cell("20news", "arma", "tuned")
    tuned = SIGNALS.stored(cell, replace(SIGNALS.literal(*cell), lr=0.004, skip_dropout=0.1))  # type: ignore[call-arg]
    chosen.write_text(json.dumps({"20news/arma": tuned}))
    command = ["graph-signal", "--dataset", "20news", "--method", "gcn", "--method", "arma", "--runs", "2"]
    command += ["--store", str(store), "--chosen", str(chosen)]
    assert "no search has chosen their settings yet: gcn on 20news (tuned)." in shown(*command)
    with Store(store) as opened:
        records = opened.select(table="graph-signal")
    assert len(records) == 14
    assert {(record.method, record.protocol, record.config["reading"]) for record in records} == {
        ("gcn", "paper", "text"), ("gcn", "defferrard", "defferrard"),
        ("arma", "paper", "text"), ("arma", "defferrard", "defferrard"), ("arma", "tuned", "defferrard"),
        ("gcn", "all", "defferrard"), ("arma", "all", "defferrard"),
    }  # fmt: skip
    for record in records:
        leak = {"accuracy_leak"} if record.protocol in ("defferrard", "all") else set()
        assert set(record.metrics) == {"accuracy", "val_accuracy", "val_loss", "accuracy_last"} | leak
        assert 0 <= record.metrics["accuracy"] <= 100
        assert record.epochs == 2
        if record.protocol == "tuned":
            assert record.config == tuned
        else:
            assert SIGNALS.is_current(record)
    before = [asdict(record) for record in records]
    shown(*command)
    with Store(store) as opened:
        assert [asdict(record) for record in opened.select(table="graph-signal")] == before


# ------------------------------------------------------------------------------------------------------------ searches


def test_the_search_of_signals(tiny_data: None, tmp_path: Path) -> None:
    out, scores, store = (tmp_path / name for name in ("chosen.json", "scores.csv", "store.sqlite"))
    shown(
        "graph-signal-search", "--dataset", "20news", "--method", "gcn", "--method", "arma", "--settings", "2",
        "--seeds", "2", "--epochs", "1", "--store", str(store), "--out", str(out), "--scores", str(scores),
    )  # fmt: skip
    with Store(store) as opened:
        tried = opened.select()
    assert {record.table for record in tried} == {"graph-signal-search"}
    assert len(tried) == 8
    assert {record.epochs for record in tried} == {1}
    assert all(set(record.metrics) == {"val_accuracy", "val_loss"} for record in tried)  # no test data
    assert sorted(json.loads(out.read_text())) == ["20news/arma", "20news/gcn"]
    for method in ("arma", "gcn"):
        config = SIGNALS.config(Cell("20news", method, "tuned"), chosen=out)
        assert config in SIGNALS.search.settings("20news", method, 2)
        assert config.epochs == 2  # trained to its end
    rows = list(csv.DictReader(scores.read_text().splitlines()))
    assert len(rows) == 8
    assert {float(row["lr"]) for row in rows} == {c.lr for c in SIGNALS.search.settings("20news", "gcn", 2)}
    assert {row["seed"] for row in rows} == {"1000000", "1000001"}


def test_a_search_asks_for_what_the_budgets_say(asked: list[list[CellTrial]]) -> None:
    for extra in ([], ["--dataset", "mnist"], ["--dataset", "20news"] * 2, ["--method", "gcn", "--seeds", "3"]):
        shown("graph-signal-search", *extra)
    assert [len(trials) for trials in asked] == [4 * (8 + 16), 4 * 8, 4 * 16, 2 * 24]


def test_every_fold_searches(fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = tables._graphs

    def small(*cell: str) -> Any:
        return replace(usual(*cell), epochs=1, hidden=4, layers=1)

    monkeypatch.setattr(tables, "_graphs", small)
    out, scores, store = (tmp_path / name for name in ("chosen.json", "scores.csv", "store.sqlite"))
    shown(
        "graph-classification-search", "--dataset", "mutag", "--method", "gcn", "--settings", "1", "--seeds", "1",
        "--store", str(store), "--out", str(out), "--scores", str(scores),
    )  # fmt: skip
    assert sorted(json.loads(out.read_text())) == [f"mutag/gcn/{fold}" for fold in range(10)]
    assert len(scores.read_text().splitlines()) == 11
    with Store(store) as opened:
        assert all("accuracy" not in record.metrics for record in opened.select())  # test data is not looked at
    assert GRAPHS.config(Cell("mutag", "gcn", "tuned"), 7, out).hidden == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TABLES)
def test_a_search_refuses_what_cannot_be_done_before_the_work(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere, table = str(tmp_path / "file" / "chosen.json"), TABLES[name]
    for arguments, message in (
        (["--dataset", "mist"], table.datasets[0]),
        (["--method", "armma"], "arma"),
        (["--settings", "0"], "settings"),
        (["--seeds", "0"], "seeds"),
        (["--epochs", "0"], "epochs"),
        (["--out", nowhere], "cannot be written"),
        (["--scores", nowhere], "cannot be written"),
    ):
        result = run(f"{name}-search", "--method", "gcn", "--store", str(tmp_path / "store.sqlite"), *arguments)
        assert result.exit_code == 2, arguments
        assert message in result.output
    assert not (tmp_path / "store.sqlite").exists()


def test_the_plan_of_a_search_trains_nothing(tmp_path: Path) -> None:
    store, out = tmp_path / "store.sqlite", tmp_path / "chosen.json"
    told = shown(
        "graph-signal-search", "--dataset", "mnist", "--method", "gcn", "--plan", "--store", str(store),
        "--out", str(out),
    )  # fmt: skip
    assert "8 trainings to do" in told
    assert not store.exists()
    assert not out.exists()


# --------------------------------------------------------------------------------------------------------------- kills


def command(folder: Path) -> list[str]:
    return [
        sys.executable, "-m", "armagnn.cli", "reproduce", NODES.name, "--dataset", "cora", "--method", "mlp",
        "--protocol", "paper", "--runs", "3", "--store", str(folder / "store.sqlite"),
    ]  # fmt: skip


def rows(folder: Path) -> list[dict[str, str]]:
    tool = [sys.executable, "-m", "armagnn.cli", "results", "export", str(folder / "store.sqlite")]
    subprocess.run([*tool, "--out", str(folder)], check=True, capture_output=True)
    with (folder / f"{NODES.name}.csv").open() as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def stored(folder: Path) -> int:
    """How many trials the store has; -1 before it is made."""
    path = folder / "store.sqlite"
    try:
        with Store(path, must_exist=True) as opened:
            return len(opened)
    except ArmagnnError:  # not there yet, or half made
        return -1


def test_kill_9_loses_nothing(tmp_path: Path) -> None:
    """Not with an empty store, and not between two trials of a batch."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    subprocess.run(command(whole), check=True, capture_output=True)
    for trials in (0, 1, 2):
        process = subprocess.Popen(command(killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and stored(killed) < trials:
            time.sleep(0.02)
        process.kill()
        process.wait()
        assert stored(killed) >= trials
    subprocess.run(command(killed), check=True, capture_output=True)
    assert rows(killed) == rows(whole)
    assert len(rows(whole)) == 3 * 3  # runs, metrics
