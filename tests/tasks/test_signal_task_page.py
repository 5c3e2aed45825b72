"""The tutorial of docs/guides/graph-signals.md runs, and its network learns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "graph-signals.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not here")
def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) == 6
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert min(outcome.test["accuracy"] for outcome in names["outcomes"]) > 0.8
    assert int(names["confusion"].sum()) == 60
    assert (tmp_path / "signals.png").stat().st_size > 1000
