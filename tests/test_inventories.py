"""The inventories of other projects: as the site reads them, and as they are refreshed."""

from __future__ import annotations

import importlib.util
import zlib
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="not a checkout: no docs")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inventory(*lines: str) -> bytes:
    head = "# Sphinx inventory version 2\n# Project: p\n# Version: 1\n# The remainder is compressed using zlib.\n"
    return head.encode() + zlib.compress("".join(f"{line}\n" for line in lines).encode())


def test_pages_that_moved_are_written_and_lost_names_reported() -> None:
    text = (
        "# Names.\np.A class old.html#$\np.B function b.html#$\np.also.C class old.html#p.C\np.Gone class gone.html#$\n"
        "p.Part class new.html#part\np.Parted class gone.html#part\n"
    )
    there = inventory(
        "p.A py:class 1 new.html#$ -",
        "p.B py:function 1 b.html#$ -",
        "p.C py:class -1 new.html#$ p.C",
        "a b std:doc 1 x -",
    )
    after, lost = loaded("refresh_inventories").refreshed(text, there)
    assert after.splitlines() == [
        "# Names.",
        "p.A class new.html#$",
        "p.B function b.html#$",
        "p.also.C class new.html#p.C",
        "p.Gone class gone.html#$",
        "p.Part class new.html#part",  # a heading of a page that is there
        "p.Parted class gone.html#part",
    ]
    assert lost == ["p.Gone", "p.Parted"]


def test_what_is_no_inventory_is_refused() -> None:
    with pytest.raises(ValueError, match="no Sphinx inventory"):
        loaded("refresh_inventories").refreshed("p.A class a.html\n", b"<!doctype html>\n\n\n\n\n")


@pytest.mark.parametrize("project", ["torch", "pyg", "sklearn"])
def test_a_refresh_by_the_site_s_own_inventory_changes_nothing(project: str, tmp_path: Path) -> None:
    """What the site writes can be read again, and has every name."""
    pytest.importorskip("sphinx", reason="the site needs the extra docs")
    path = DOCS / "inventories" / f"{project}.txt"
    text = path.read_text(encoding="utf-8")
    written = Path(loaded("site_parts").inventory(path, tmp_path)).read_bytes()
    assert loaded("refresh_inventories").refreshed(text, written) == (text, [])
