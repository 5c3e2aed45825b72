"""The table of the commands, their help at 80 columns, completion in a shell, refusals, bugs, and the version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import armagnn
from armagnn.cli import app
from armagnn.cli.app import COMMANDS, Group, Lazy, load
from armagnn.training import NodesConfig
from armagnn.training.shared_options import TABLES
from cli.quick_run import QUICK


def lazies(table: Mapping[str, Lazy | Group], *names: str) -> Iterator[tuple[tuple[str, ...], Lazy]]:
    for name, entry in table.items():
        if isinstance(entry, Lazy):
            yield (*names, name), entry
        else:
            yield from lazies(entry.commands, *names, name)


def paths(command: object, *names: str) -> Iterator[tuple[str, ...]]:
    """Every command that can be called."""
    yield names
    for name, below in getattr(command, "commands", {}).items():
        yield from paths(below, *names, name)


ALL = [
    found
    for names, entry in lazies(COMMANDS)
    for found in paths(load(names[-1], entry), *names)
] + [(), *((name,) for name, entry in COMMANDS.items() if isinstance(entry, Group))]  # fmt: skip


def narrow(monkeypatch: pytest.MonkeyPatch, *, charset: str = "utf-8") -> CliRunner:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    return CliRunner(charset=charset)


@pytest.mark.parametrize("names", ALL, ids=" ".join)
def test_every_help_is_whole_at_80_columns(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    result = narrow(monkeypatch).invoke(app, [*names, "--help"])
    assert result.exit_code == 0, result.output
    assert " ".join(["Usage: root", *names]) in " ".join(result.output.split())
    assert "<bool>" not in result.output
    assert "…" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80


@pytest.mark.parametrize("names", ALL, ids=" ".join)
def test_every_help_can_be_read_in_ascii(names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    result = narrow(monkeypatch, charset="ascii").invoke(app, [*names, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.isascii()
    assert "?" not in result.output


def test_every_line_of_help_names_its_command() -> None:
    for names, entry in lazies(COMMANDS):
        assert entry.help.endswith("."), names
        assert re.fullmatch(r"armagnn\.cli\.\w+:\w+", entry.place), names


def test_the_commands_stand_in_the_order_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    text = narrow(monkeypatch).invoke(app, ["--help"]).output
    places = [text.index(f"│ {name} ") for name in COMMANDS]
    assert places == sorted(places)
    assert list(COMMANDS)[:3] == ["train", "tune", "predict"]


def test_a_command_may_be_a_function_or_a_group() -> None:
    assert isinstance(COMMANDS["train"], Lazy)
    one, several = load("show", Lazy("armagnn.cli.finished_runs:show", "")), load("train", COMMANDS["train"])
    assert (one.name, several.name) == ("show", "train")
    assert "graphs" in several.commands


def test_misspelt_commands_below_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    result = narrow(monkeypatch).invoke(app, ["reproduce", "graph-sinal"])
    assert result.exit_code == 2
    assert "graph-signal" in result.output
    assert isinstance(app, typer.Typer)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("armagnn ", {"train", "results"}),
        ("armagnn re", {"reproduce", "results"}),
        ("armagnn results ", {"list", "seal"}),
        ("armagnn train --st", {"--stacks", "--stop-on"}),
    ],
)
def test_completion_in_a_shell(words: str, wanted: set[str]) -> None:
    environment = os.environ | {
        "_ARMAGNN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "armagnn"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert wanted <= set(done.stdout.split()), done.stderr


def test_commands_of_a_package_that_is_not_installed_say_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("armagnn.cli.app"), "entry_points", lambda group: ())
    runner = narrow(monkeypatch)
    assert "reproduce" not in runner.invoke(app, ["--help"]).output
    result = runner.invoke(app, ["reproduce", "node-classification"])
    assert result.exit_code == 2
    assert "pip install armagnn-paper" in " ".join(result.stderr.split())


# ------------------------------------------------------------------------------------------------------- refusals, bugs


@pytest.mark.parametrize("command", ["show", "predict"])
def test_a_damaged_run(run: CliRunner, finished: Path, tmp_path: Path, command: str) -> None:
    path = shutil.copytree(finished, tmp_path / "copy")
    weights = path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    result = run.invoke(app, [command, str(path)])
    assert result.exit_code == 2
    assert "weights.safetensors: corrupt or truncated" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--dataset", "coar"], "Did you mean 'cora'?"),
        (["train", "--stop-on", "los"], "Did you mean 'loss'?"),
        (["train", "--act", "reluu"], "Did you mean 'relu'?"),
        (["train", "--init", "liner"], "Did you mean 'linear'?"),
        (["train", "--dropout", "1"], "dropout"),
        (["train", "--skip-dropout", "-0.5"], "skip_dropout"),
        (["train", "--stacks", "0"], "stacks"),
        (["train", "--layers", "0"], "layers"),
        (["train", "--hidden", "0"], "hidden"),
        (["train", "--lr", "nan"], "lr"),
        (["train", "--seeds", "0"], "seeds"),
        (["train", "--device", "gpu"], "device"),
        (["train", "--device", "cuda:77"], "Use 'cpu'"),
        (["train", "--conv", "chebishev"], "Did you mean 'chebyshev'?"),
        (["train", "--last-stacks", "-1"], "last_stacks"),
        (["train", "--input-dropout", "2"], "input_dropout"),
        (["train", "--resume"], "not a run of armagnn"),
        (["train", "--dataset", "missing.npz"], "missing.npz"),
        (["show", "nowhere"], "not a run of armagnn"),
        (["predict", "nowhere"], "not a run of armagnn"),
    ],
)
def test_refusals_are_one_clear_line(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []  # nothing was begun


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [(["train", "--datset", "cora"], "--dataset"), (["train", "--skipdropout", "0"], "--skip-dropout"),
     (["trian"], "train"), (["predcit", "x"], "predict")],
)  # fmt: skip
def test_unknown_options_and_commands_get_the_nearest(run: CliRunner, arguments: list[str], nearest: str) -> None:
    result = run.invoke(app, arguments)
    assert result.exit_code == 2
    assert nearest in result.stderr


def test_bugs_keep_their_traceback(run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bug(name: str, **options: str) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("armagnn.data.load", bug)
    result = run.invoke(app, ["train", "--out", str(tmp_path / "run"), *QUICK])
    assert isinstance(result.exception, RuntimeError)


def test_help_and_version(run: CliRunner) -> None:
    assert run.invoke(app, ["--version"]).stdout.strip() == f"armagnn {armagnn.__version__}"
    overview = run.invoke(app, ["--help"])
    assert overview.exit_code == 0
    for command in ("train", "predict", "show"):
        assert command in overview.stdout
        assert run.invoke(app, [command, "-h"]).exit_code == 0
    text = " ".join(run.invoke(app, ["train", "--help"]).stdout.split())
    assert "the paper's text stops on validation accuracy" in text
    own = " ".join(run.invoke(app, ["train", "nodes", "--help"]).stdout.split())
    for each in fields(NodesConfig):
        flag = each.metadata["flag"] or f"--{each.name.replace('_', '-')}"
        assert flag in own
        assert (f"{flag} " in text) == (each.metadata["panel"] != TABLES)
    for name in ("out", "resume", "overwrite", "dropout"):
        assert f"--{name.replace('_', '-')}" in text


@pytest.mark.parametrize(
    "command",
    [
        ["bench", "cpu"], ["bench", "filter-learning"], ["figure", "training-time", "--dataset", "cora"],
        ["figure", "response"], ["figure", "claims"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_place_that_cannot_be_written_to_is_told_before_the_work(
    run: CliRunner, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from armagnn import bench
    from armagnn.bench import filter_learning
    from armagnn_paper.cli import experiments

    def work(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr(bench, "compare_layers", work)
    monkeypatch.setattr(filter_learning, "filter_data", work)
    monkeypatch.setattr(experiments.times, "measure", work)
    monkeypatch.setattr(experiments, "load", work)
    monkeypatch.setattr(experiments, "measure", work)
    (tmp_path / "file").touch()
    result = run.invoke(app, [*command, "--out", str(tmp_path / "file" / "below" / "a.png")])
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
    monkeypatch.chdir(tmp_path)  # and a good place is not refused
    result = run.invoke(app, [*command, "--out", str(tmp_path / "new" / "a.png")])
    assert isinstance(result.exception, AssertionError)
