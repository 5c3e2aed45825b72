"""Groups of options as one argument."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from armagnn.cli import app as armagnn
from armagnn_paper.cli.groups import Where, Written, with_groups

seen: list[object] = []
app = typer.Typer()


@app.command()
@with_groups
def command(where: Where, written: Written, name: Annotated[str, typer.Option(help="Whose.")] = "cora") -> None:
    """Say something."""
    seen.extend([name, where, written])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], ["cora", Where(), Written()]),
        (["--name", "ppi", "--device", "cuda:1", "--scores", "s.csv"],
         ["ppi", Where(device="cuda:1"), Written(scores=Path("s.csv"))]),
        (["--workers", "3", "--store", "a/b", "--engine", "ray", "--out", "o"],
         ["cora", Where(Path("a/b"), "cpu", 3, "ray"), Written(out=Path("o"))]),
    ],
)  # fmt: skip
def test_options_become_groups(given: list[str], expected: list[object]) -> None:
    seen.clear()
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert seen == expected


def test_bad_options_are_refused() -> None:
    assert CliRunner().invoke(app, ["--workers", "many"]).exit_code == 2
    assert CliRunner().invoke(app, ["--where", "here"]).exit_code == 2


@pytest.mark.parametrize("name", ["node-classification", "graph-signal-search", "graph-regression"])
def test_help_tells_every_option(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "dumb")
    text = CliRunner().invoke(armagnn, ["reproduce", name, "--help"]).output
    options = ["--dataset", "--method", "--store", "--device", "--workers", "--engine"]
    options += ["--out", "--scores"] if name.endswith("search") else ["--protocol", "--chosen"]
    options += ["--plan", "--results"]
    places = [text.index(option) for option in options]
    assert places[:3] == sorted(places[:3])  # its own come first
    assert "--where" not in text
