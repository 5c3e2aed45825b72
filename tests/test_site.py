"""The documentation site builds without a warning, and every link within it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer

from armagnn.cli import app

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "docs"
OTHER_SITE = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[^\s<>\"'`]*)?(?<![.,;:)$])")

pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "conf.py").is_file(), reason="not a checkout: no docs")


class Page(HTMLParser):
    """The links of a page and the places in it that links can lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value and tag != "use":
                self.links.append(value)
            elif name == "id" and value:
                self.places.add(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    """Build what has changed since `make docs`, with its options; return the pages."""
    pytest.importorskip("sphinx", reason="the site needs the extra docs")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "-b", "html"]
    built = subprocess.run([*command, "docs", str(SITE)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-4000:]
    return {path: Page(path) for path in SITE.rglob("*.html") if path.name != "explorer.html"}


def dead_links(pages: dict[Path, Page]) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue  # outside
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                yield f"{path.relative_to(SITE)}: {link} is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                yield f"{path.relative_to(SITE)}: {link}: there is no such place on that page"


def test_every_link_within_leads_somewhere(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    assert list(dead_links(pages)) == []


def test_links_to_other_sites_are_well_formed(pages: dict[Path, Page]) -> None:
    """Whether they are there only a network can tell: `make links`."""
    links = {link for page in pages.values() for link in page.links if urlsplit(link).scheme not in ("", "data")}
    assert len(links) > 20
    assert [link for link in links if not OTHER_SITE.fullmatch(link)] == []


def test_every_command_has_its_place_on_the_page_of_commands() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    for name in typer.main.get_command(app).commands:  # type: ignore[attr-defined]
        assert f"\n## armagnn {name}\n" in page, name


def test_every_script_of_the_gallery_has_run_and_drawn(pages: dict[Path, Page]) -> None:
    scripts = sorted((ROOT / "examples" / "gallery").glob("*.py"))
    assert len(scripts) >= 6
    for script in scripts:
        links = pages[SITE / "gallery" / f"{script.stem}.html"].links
        assert sum(f"sphx_glr_{script.stem}_" in link and link.endswith(".png") for link in links) >= 1, script.name
        assert "Warning:" not in (SITE / "gallery" / f"{script.stem}.html").read_text(encoding="utf-8"), script.name


def test_pages_ask_nothing_of_other_machines(pages: dict[Path, Page]) -> None:
    """Links to others are for people to follow; styles, scripts, fonts and pictures come with the page."""
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert 'src="http' not in text, path
        assert '<link rel="stylesheet" href="http' not in text, path
