"""``armagnn explore`` writes the page, or serves it and prints its link."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.explore.explorer_page import explorer_page
from armagnn.filters import ARMAFilter


def test_it_writes_one_file(run: CliRunner, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = run.invoke(app, ["explore", "--html", str(path), "-a", "0.5+0.5j, 0.5-0.5j", "-b", "1, 1"])
    assert result.exit_code == 0, result.output
    assert path.read_text(encoding="utf-8") == explorer_page(ARMAFilter([0.5 + 0.5j, 0.5 - 0.5j], [1, 1]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-a", "0.5"], "give -a and -b"),
        (["-a", "0.5", "-b", "x"], "-b 'x'"),
        (["-a", "0.5, 0.6", "-b", "1"], "2 and 1"),
        (["-a", "nan", "-b", "1"], "finite"),
        (["--html", "folder"], "folder"),
    ],
)
def test_what_makes_no_page_is_refused(
    run: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    result = run.invoke(app, ["explore", "--html", "page.html", *arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert not Path("page.html").exists()


def test_it_shows_a_run(run: CliRunner, finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    result = run.invoke(app, ["explore", str(finished), "--html", str(path)])
    assert result.exit_code == 0, result.output
    assert '"layers"' in path.read_text(encoding="utf-8")
    missing = run.invoke(app, ["explore", str(tmp_path / "none"), "--html", str(path)])
    assert missing.exit_code == 2


def test_it_serves_the_page_at_the_link_that_it_prints() -> None:
    command = [sys.executable, "-m", "armagnn.cli", "explore", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().split()[-1]
            with urlopen(link, timeout=60) as answer:
                assert answer.read().decode() == explorer_page()
        finally:
            process.terminate()
