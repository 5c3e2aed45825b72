"""The table of the commands, their help at 80 columns, and completion in a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

import pytest
import typer
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.cli.app import COMMANDS
from armagnn.cli.lazy_commands import Group, Lazy, load


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
    assert list(COMMANDS)[:3] == ["train", "predict", "show"]


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
