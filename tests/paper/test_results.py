"""``armagnn results`` and the progress of trials."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.cli.progress import TableProgress
from armagnn.sealed import write_sealed
from armagnn.training.record import Record, config_hash
from armagnn.training.results_store import Store
from armagnn_paper.table import Cell
from armagnn_paper.tables import NODES, paper_config
from toy_trials import ToyJob, record


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner()


def trials(method: str, *seeds: int) -> list[Record]:
    return [record(ToyJob(method, ()), seed) for seed in seeds]


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    for path, content in zip(paths, (trials("arma", 0, 1), trials("arma", 1, 2) + trials("gcn", 0)), strict=True):
        with Store(path) as store:
            store.add(content)
    return paths


def test_merge(run: CliRunner, stores: tuple[Path, Path], tmp_path: Path) -> None:
    into = tmp_path / "deep" / "all.sqlite"
    result = run.invoke(app, ["results", "merge", *map(str, stores), "--into", str(into)])
    assert result.exit_code == 0, result.output
    assert f"{stores[0]}: 2 new trials, 0 double" in result.output
    assert f"{stores[1]}: 2 new trials, 1 double" in result.output
    assert f"{into}: 4 trials" in result.output
    with Store(into) as store:
        assert store.select() == trials("arma", 0, 1, 2) + trials("gcn", 0)


def test_merge_changes_nothing_if_a_store_is_bad(run: CliRunner, stores: tuple[Path, Path], tmp_path: Path) -> None:
    stores[1].write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    result = run.invoke(app, ["results", "merge", *map(str, stores), "--into", str(tmp_path / "all")])
    assert result.exit_code == 2
    assert "Error:" in result.output
    assert not (tmp_path / "all").exists()


def test_list(run: CliRunner, stores: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    result = run.invoke(app, ["results", "list", str(stores[1])])
    assert result.exit_code == 0, result.output
    values = [trial.metrics["accuracy"] for trial in trials("arma", 1, 2)]
    assert f"{sum(values) / 2:.2f} ± {abs(values[0] - values[1]) / 2**0.5:.2f}" in result.output
    assert "node-classification" in result.output
    assert "3 trials" in result.output


def test_list_of_the_default_store_that_is_missing(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, ["results", "list"])
    assert result.exit_code == 2
    assert "runs/store.sqlite: there is no such store" in result.output.replace(os.sep, "/")
    assert not (tmp_path / "runs").exists()


def test_export(run: CliRunner, stores: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the settings of the toys are not the table's
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    result = run.invoke(app, ["results", "export", str(stores[0]), "--out", str(tmp_path / "results")])
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "results" / "node-classification.csv").read_text().splitlines()
    assert lines[0].startswith("dataset,method,protocol,run,fold,metric,value,")
    assert len(lines) == 1 + 2 * 2


def test_export_leaves_out_folds_that_are_half_done(
    run: CliRunner, stores: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    result = run.invoke(app, ["results", "export", str(stores[1]), "--out", str(tmp_path / "results")])
    assert "cora arma paper: 2 trials, of half done folds, are left out" in result.output  # of runs 1 and 2
    lines = (tmp_path / "results" / "node-classification.csv").read_text().splitlines()
    assert {line.split(",")[1] for line in lines[1:]} == {"gcn"}


def test_export_tells_of_folds_that_are_missing(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    of_graphs = replace(trials("gcn", 0)[0], table="graph-classification", dataset="mutag")
    with Store(tmp_path / "store") as store:
        store.add([replace(of_graphs, fold=fold) for fold in range(3)])
    result = run.invoke(app, ["results", "export", str(tmp_path / "store"), "--out", str(tmp_path / "results")])
    assert "mutag gcn paper: 3 of 10 folds are there; reproduce does the others" in result.output
    assert len((tmp_path / "results" / "graph-classification.csv").read_text().splitlines()) == 1 + 3 * 2


def test_export_leaves_out_what_is_no_longer_chosen(run: CliRunner, stores: tuple[Path, Path], tmp_path: Path) -> None:
    result = run.invoke(app, ["results", "export", str(stores[1]), "--out", str(tmp_path / "results")])
    assert result.exit_code == 0, result.output
    assert "3 trials with other settings than the table has now are left out" in result.output
    assert not (tmp_path / "results").exists()


# ---------------------------------------------------------------------------------------------------------- progress


def shown(terminal: bool, planned: int | None = None) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=140, color_system=None)
    plan = None if planned is None else {("cora", "arma", "paper"): planned}
    with TableProgress(console, plan) as progress:
        progress.start(4)
        for number, trial in enumerate(trials("arma", 0, 1) + trials("gcn", 0, 1)):
            progress.trial(trial, new=number > 0)
            if number == 1:
                middle = text.getvalue()
        time.sleep(0.15)  # a bar is drawn ten times a second
    return middle if planned is not None else text.getvalue()


def test_one_line_per_cell_without_a_terminal() -> None:
    lines = shown(terminal=False).splitlines()
    assert [line.split(" accuracy ")[0] for line in lines] == ["cora arma paper:", "cora gcn paper:"]
    assert all("±" in line and line.endswith("(2)") for line in lines)
    assert len(shown(terminal=False, planned=2).splitlines()) == 1  # at once, where the plan says it is finished
    assert shown(terminal=False, planned=3) == ""


@pytest.mark.parametrize(("terminal", "seconds", "lines"), [(False, 0.0, 3), (False, 1e9, 0), (True, 0.0, 0)])
def test_a_log_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: float, lines: int
) -> None:
    monkeypatch.setattr("armagnn.cli.progress.BETWEEN_LINES", seconds)
    text = io.StringIO()
    progress = TableProgress(Console(file=text, force_terminal=terminal, width=140))  # not entered: no bar is drawn
    progress.start(20)
    for trial in trials("arma", *range(6)):
        progress.trial(trial, new=True)
        if trial.seed % 2:
            progress.batch()
    found = text.getvalue().splitlines()
    assert len(found) == lines
    for number, line in zip((2, 4, 6), found, strict=False):
        assert line.startswith(f"{number} of 20 trials, ")
        assert " left; cora arma paper: accuracy " in line
        assert line.endswith(f"({number})")


def test_a_bar_on_a_terminal() -> None:
    text = shown(terminal=True)
    assert "4/4" in text
    assert "left" in text
    assert "cora gcn paper: accuracy" in text


def test_ctrl_c_says_how_to_continue() -> None:
    text = io.StringIO()

    def interrupted() -> None:
        with TableProgress(Console(file=text), command="armagnn reproduce --workers 2") as progress:
            progress.start(10)
            progress.trial(trials("arma", 0)[0], new=True)
            progress.lost("exit code -9")
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as caught:
        interrupted()
    assert caught.value.exit_code == 130
    assert text.getvalue().splitlines() == [
        "Note: a worker died (exit code -9); its trials are given to another one.",
        "Interrupted. 1 of 10 trials are kept. Continue with: armagnn reproduce --workers 2",
    ]


INTERRUPTED = """
import sys
sys.path.insert(0, sys.argv[2])
from toy_trials import all_jobs, work

def command(store: str, _: str) -> None:
    from rich.console import Console
    from armagnn.cli.progress import TableProgress
    from armagnn.training.engine import execute
    from armagnn.training.results_store import Store

    with Store(store) as opened, TableProgress(Console(stderr=True), command="again") as progress:
        execute(all_jobs(delay=0.5), work, opened, workers=2, observer=progress)

if __name__ == "__main__":
    import typer

    typer.run(command)
"""


@pytest.mark.skipif(os.name == "nt", reason="process groups and SIGINT are those of POSIX")
def test_a_real_ctrl_c_with_workers_is_clean(tmp_path: Path) -> None:
    script, path = tmp_path / "script.py", tmp_path / "store.sqlite"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(script), str(path), str(Path(__file__).parents[1])],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 100
        while not path.exists() or not count(path):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr == f"Interrupted. {count(path)} of 24 trials are kept. Continue with: again\n"


def count(path: Path) -> int:
    with Store(path) as store:
        return len(store)


def test_restore(run: CliRunner, tmp_path: Path) -> None:
    into = tmp_path / "new" / "store.sqlite"
    assert "has no table of trials" in run.invoke(app, ["results", "restore", str(tmp_path)]).output
    table = tmp_path / "node-classification.csv"
    head = "dataset,method,protocol,run,fold,metric,value,seed,epochs,seconds,device,config_hash"
    known = config_hash(NODES.stored(Cell("cora", "gcn", "paper"), paper_config("cora", "gcn")))
    rows = [f"cora,gcn,paper,{n},0,accuracy,8{n}.5,{n},9,1.250,cpu,{known}" for n in range(2)]
    write_sealed(table, ("\n".join([head, *rows, rows[0].replace(known, "0" * 12)]) + "\n").encode())
    for new in (2, 0):
        result = run.invoke(app, ["results", "restore", str(tmp_path), "--into", str(into)])
        assert result.exit_code == 0, result.output
        assert f"{table}: {new} new of 2 trials, 1 with other settings are left out" in result.output
    with Store(into) as store:
        assert [record.metrics for record in store.select(method="gcn")] == [{"accuracy": 80.5}, {"accuracy": 81.5}]
