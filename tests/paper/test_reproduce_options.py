"""The options of the commands of the tables: they reach the work, and the help has them all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from armagnn.cli import app as armagnn
from armagnn.training.results_store import DEFAULT_STORE
from armagnn_paper.cli import reproduce
from armagnn_paper.cli.reproduce import Where

USUAL = Where(DEFAULT_STORE, "cpu", 1, "local", Path("results"))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the work is given."""
    found: list[Any] = []
    monkeypatch.setattr(reproduce, "_do", lambda table, trials, where, **_: found.append(where))
    monkeypatch.setattr(reproduce, "write_search", lambda table, records, budgets, *paths: found.append(paths))
    return found


@pytest.mark.parametrize(
    ("given", "where", "paths"),
    [
        ([], USUAL, (None, None)),
        (["--device", "cuda:1", "--scores", "s.csv"], USUAL._replace(device="cuda:1"), (None, Path("s.csv"))),
        (["--workers", "3", "--store", "a/b", "--engine", "ray", "--out", "o"],
         Where(Path("a/b"), "cpu", 3, "ray", Path("results")), (Path("o"), None)),
        (["--results", "other"], USUAL._replace(results=Path("other")), (None, None)),
    ],
)  # fmt: skip
def test_options_reach_the_work(
    given: list[str], where: Where, paths: tuple[Path | None, Path | None], seen: list[Any], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    name = "graph-signal-search"
    result = CliRunner().invoke(armagnn, ["reproduce", name, "--dataset", "mnist", "--method", "gcn", *given])
    assert result.exit_code == 0, result.output
    assert seen == [where, paths]
    seen.clear()
    given = [each for each in given if each not in ("--scores", "s.csv", "--out", "o")]
    command = ["reproduce", "graph-signal", "--dataset", "mnist", "--method", "gcn", "--protocol", "paper", *given]
    result = CliRunner().invoke(armagnn, command)
    assert result.exit_code == 0, result.output
    assert seen == [where]


def test_bad_options_are_refused() -> None:
    for option in (["--workers", "many"], ["--where", "here"]):
        assert CliRunner().invoke(armagnn, ["reproduce", "graph-signal", *option]).exit_code == 2


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
