"""Two checkouts are measured in fresh processes, in turns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scripts import SCRIPTS, script

CASE = "op @ x"


def test_both_sides_take_turns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    turns, asked = script("in_turns"), list[str]()

    def fake(checkout: Path, wanted: str, threads: int) -> dict[str, float]:
        asked.append(checkout.name)
        return {"a case": 2.0 if checkout.name == "a" else 3.0}

    monkeypatch.setattr(turns, "in_process", fake)
    monkeypatch.setattr(sys, "argv", ["in_turns.py", "a", "b", "--rounds", "3"])
    turns.main()
    assert asked == ["a", "b", *"ab", *"ba", *"ab"]  # the first of each only compile
    assert capsys.readouterr().out.splitlines()[-1].split() == (
        ["a", "case", "2.000", "3.000", "1.500", "1.500", "to", "1.500"]
    )


def test_a_checkout_beside_itself() -> None:
    script("in_turns")
    root = str(SCRIPTS.parent)
    command = [sys.executable, str(SCRIPTS / "in_turns.py"), root, root, "--rounds", "1", "--cases", CASE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(CASE))
    assert float(line.split()[-4]) > 0


def test_another_package_is_refused(tmp_path: Path) -> None:
    turns = script("in_turns")
    with pytest.raises(SystemExit, match="imported"):
        turns.in_process(tmp_path, "no such case", 1)
