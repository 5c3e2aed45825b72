"""What the README shows runs, and what it points to is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from armagnn.cli import app

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"

pytestmark = pytest.mark.skipif(not README.is_file(), reason="not a checkout: no README.md beside the tests")


def test_its_code_runs() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    for block in blocks:  # one after the other, as a reader would
        exec(compile(block, str(README), "exec"), names)
    assert names["y"].shape == (4, 16)
    assert names["z"].shape == (4, 8)


def test_it_fits_on_two_screens() -> None:
    assert len(README.read_text().splitlines()) <= 100


def test_its_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\((?!http)([^)]+)\)", README.read_text()):
        assert (ROOT / link).exists(), link
    for path in re.findall(r"`(src/armagnn/[^`]+)`", README.read_text()):
        assert (ROOT / path).exists(), path


def test_its_commands_exist() -> None:
    commands = re.findall(r"^\$ armagnn ([a-z -]+?)(?: --|  | [a-z]+/|$)", README.read_text(), re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        result = CliRunner().invoke(app, [*command.split(), "--help"])
        assert result.exit_code == 0, command
