"""The examples of docs/guides/filters.md show what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "filters.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not here")
def test_the_page() -> None:
    failed, attempted = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
    assert attempted > 30
