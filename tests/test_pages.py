"""The Python of every page runs: ``pycon`` blocks show what they say, ``python`` blocks run one after the other.

A page may hold code that its readers do not see (what a block takes for granted, or a check of what it has made), and
say why a block is not run:

    <!-- unseen
    x = torch.randn(4, 8)
    -->
    <!-- not run: needs two ranks -->
"""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from armagnn.errors import DataError

ROOT = Path(__file__).resolve().parents[1]
DOCS, DATA = ROOT / "docs", ROOT.parent / "shared" / "data"
BLOCK = re.compile(
    r"<!-- unseen\n(?P<unseen>.*?)-->|(?P<skip><!-- not run: [^\n]+ -->\n)?```(?P<kind>python|pycon)\n(?P<code>.*?)```",
    re.DOTALL,
)
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if BLOCK.search(path.read_text(encoding="utf-8"))]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="not a checkout: no docs")


def run_page(path: Path) -> int:
    """Run the blocks of a page in one namespace; return how many there were."""
    names: dict[str, Any] = {"__name__": "page"}
    text = path.read_text(encoding="utf-8")
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    run = 0
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 2
        if block["skip"]:
            continue
        run += 1
        if block["kind"] == "pycon":
            test = doctest.DocTestParser().get_doctest(block["code"], names, path.name, str(path), line)
            runner.run(test, clear_globs=False)
            names.update(test.globs)  # the test has its own copy
        else:
            code = block["unseen"] or block["code"]
            exec(compile("\n" * (line - 1) + code, str(path), "exec"), names)
    assert runner.summarize(verbose=False).failed == 0
    return run


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_code_of_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    torch.manual_seed(0)
    if DATA.is_dir():
        monkeypatch.setenv("ARMAGNN_DATA", str(DATA))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            run_page(path)
        except DataError as error:
            if "was not found in" not in str(error):
                raise
            pytest.skip(str(error))


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```pycon\n>>> 1 + 1\n3\n\n```\n")
    with pytest.raises(AssertionError):
        run_page(page)
    page.write_text("<!-- unseen\nx = 1\n-->\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        run_page(page)
    page.write_text("<!-- not run: no reason -->\n```python\nassert x == 2\n```\n")
    assert run_page(page) == 0
