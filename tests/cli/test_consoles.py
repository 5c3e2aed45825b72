"""Names are text, never markup; nothing is cut off at 80 columns; any stream can be written to."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from armagnn.bench import Comparison
from armagnn.bench import table as bench_table
from armagnn.cli import app
from armagnn.cli.app import IN_ASCII, _in_ascii, whole_table
from armagnn.cli.progress import TableProgress
from armagnn.data import CATALOGUE
from armagnn.training import NodesConfig, train
from armagnn.training.record import Record
from armagnn.training.results_store import Store
from toy_trials import ToyJob, record

NAMES = ("[/x]", "[bold]", "a[/]b", "[link=x]y", ":cat:", "[red]:smile:[/red]", "$^$", "\\[", "a\udcff", "日本")
LONG = "a-dataset-with-a-name-of-many-words-as-nobody-has-one"


def named(name: str) -> list[Record]:
    trial = record(ToyJob("arma", ()), 0)
    return [replace(trial, dataset=name, config=trial.config | {"dataset": name}, protocol=name)]


def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns, of which a runner sees the text alone."""
    for name, value in {"COLUMNS": "80", "TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)


def plain(text: str) -> str:
    for code in ("\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[33m", "\x1b[31m"):
        text = text.replace(code, "")
    return text


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("width", ["80", "200"])
def test_names_are_text_in_results_list(name: str, width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", width)
    shown = name.encode(errors="replace").decode()  # a lone half of a character is no text
    if shown != name:
        pytest.skip("a store has text alone")
    with Store(tmp_path / "store") as store:
        store.add(named(name))
    result = CliRunner().invoke(app, ["results", "list", str(tmp_path / "store")])
    assert result.exit_code == 0, result.output
    assert name in result.output


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_are_text_in_data_list(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.data.all_entries", lambda: {name: replace(CATALOGUE["ppi"], licence=name)})
    monkeypatch.setattr("armagnn.cli.data.find", lambda *args: None)
    result = CliRunner().invoke(app, ["data", "list"])
    assert result.exit_code == 0, result.output
    assert result.output.count(name.replace("\udcff", "?")) == 2


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize(
    "command",
    [
        ["show", "{}"], ["data", "info", "{}"], ["results", "list", "{}"], ["results", "restore", "{}"],
        ["results", "seal", "{}"], ["figure", "learned", "{}"], ["figure", "claims", "{}"], ["reproduce", "{}"],
        ["reproduce", "graph-signal", "--dataset", "{}"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_names_are_text_in_errors(
    name: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    result = CliRunner().invoke(app, [word.format(name) for word in command])
    assert result.exit_code == 2, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    said = result.output
    assert any(each in said for each in (name, repr(name), name.replace("\udcff", "?"))), said


def test_a_run_on_a_file_of_such_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "[" / "x] :cat:.npz"
    data.parent.mkdir()
    data.write_bytes(resources.files("armagnn.data").joinpath("embedded", "cora.npz").read_bytes())
    config = NodesConfig(dataset=str(data), hidden=2, stacks=1, epochs=2, seeds=1)
    train(config, tmp_path / "run")
    for command in (["show"], ["figure", "learned"]):
        monkeypatch.setenv("COLUMNS", "300")
        result = CliRunner().invoke(app, [*command, str(tmp_path / "run")])
        assert result.exit_code == 0, result.output
        assert str(tmp_path) in result.output
    assert "[/x] :cat:" in CliRunner().invoke(app, ["show", str(tmp_path / "run")]).output


def test_the_bar_of_trials_takes_names_as_they_are() -> None:
    text = io.StringIO()
    with TableProgress(Console(file=text, force_terminal=True, width=140, color_system=None)) as progress:
        progress.start(2)
        progress.trial(named("[/x]")[0], new=True)
        progress._progress.refresh()
    assert "[/x] arma [/x]: accuracy" in text.getvalue()


def test_no_name_is_cut_off_at_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    with Store(tmp_path / "store") as store:
        store.add(named("cora") + named(LONG))
    listed = plain(CliRunner().invoke(app, ["results", "list", str(tmp_path / "store")]).output)
    assert f"{LONG} arma {LONG}: 1 runs, 1 trials" in listed
    assert "accuracy " in listed
    datasets = plain(CliRunner().invoke(app, ["data", "list"]).output)
    assert all(f" {name} " in datasets for name in CATALOGUE)
    rows = [
        Comparison("1M nodes, 20M nonzeros, 64 -> 64, K=2, T=2 (R-MAT), training step, captured", "ms", 1e4, 2e5, 20, 8)
    ]
    narrow = Console(width=80, file=io.StringIO(), color_system=None)
    narrow.print(bench_table(rows))
    benched = narrow.file.getvalue()  # type: ignore[attr-defined]
    for text in (listed, datasets, benched):
        assert "…" not in text
    assert max(map(len, (datasets + benched).splitlines())) <= 80
    assert "200000.00 ms" in benched


def test_a_whole_table_folds_what_has_no_room() -> None:
    console = Console(width=24, file=io.StringIO(), color_system=None)
    table = whole_table("name", "file")
    assert isinstance(table, Table)
    table.add_row("a-long-name", "x" * 30)
    console.print(table)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert shown.count("x") == 30
    assert "a-long-name" in shown


@pytest.mark.parametrize("charset", ["ascii", "cp1252", "utf-8"])
def test_every_stream_can_be_written_to(charset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn_paper.table.Table.is_current", lambda table, record: True)
    trials = [record(ToyJob("arma", ()), seed) for seed in range(2)]
    with Store(tmp_path / "store") as store:
        store.add(trials)
    result = CliRunner(charset=charset).invoke(app, ["results", "list", str(tmp_path / "store")])
    assert result.exit_code == 0, result.output
    assert (" +- " if charset == "ascii" else " ± ") in result.output
    assert CliRunner(charset=charset).invoke(app, ["data", "info", "cora", "--no-paths"]).exit_code == 0
    assert CliRunner(charset=charset).invoke(app, ["bench", "--explain"]).exit_code == 0
    result = CliRunner(charset=charset).invoke(app, ["results", "list", "Ω\udcff"])
    assert result.exit_code == 2


def test_a_process_with_ascii_streams(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    for command in (["train", "--epochs", "1", "--seeds", "2"], ["show", "runs/cora-arma"], ["show", "\udcff±"]):
        done = subprocess.run(
            [sys.executable, "-m", "armagnn", *command], cwd=tmp_path, env=environment, capture_output=True, timeout=120
        )
        assert done.returncode == (2 if "±" in command[-1] else 0), done.stderr
        assert b"Traceback" not in done.stderr
        assert done.stdout.isascii()
    assert b"Error: ?+-" in done.stderr


def test_what_has_no_ascii_is_a_question_mark() -> None:
    assert _in_ascii(UnicodeEncodeError("ascii", "a±Ж", 1, 3, "")) == ("+-?", 3)
    assert all(text.isascii() for text in IN_ASCII.values())
    with pytest.raises(UnicodeDecodeError):
        _in_ascii(UnicodeDecodeError("ascii", b"\xff", 0, 1, ""))
