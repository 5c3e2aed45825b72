"""docs/paper/spectral.md names every equation, and its pictures are there."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "paper" / "spectral.md"


def test_the_walk_is_complete_and_its_pictures_are_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    named = {int(first) for first in re.findall(r"Eqs?\. (\d+)", text)}
    named |= {int(last) for last in re.findall(r"Eqs\. \d+ (?:to|and) (\d+)", text)}
    assert {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20} <= named
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert len(pictures) >= 8
    for picture in pictures:
        assert (PAGE.parent / picture).is_file(), picture
    assert sum(path.stat().st_size for path in (PAGE.parents[1] / "figures").iterdir()) < 2_000_000
