"""Compare the names in docs/inventories with the other projects' sites, and write the pages that have moved.

    python docs/refresh_inventories.py  # or: make links

It needs a network. The site itself is built from the text files, without one. A name that a project no longer has is
reported, and left as it is: change the page of ours that mentions it.
"""

from __future__ import annotations

import re
import sys
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENTRY = re.compile(r"(\S+) py:(\S+) -?\d+ (\S+) .*")


def entries(inventory: bytes) -> Iterator[tuple[str, str, str]]:
    """Return the name, the kind and the page of each Python entry of a Sphinx inventory (``objects.inv``)."""
    head = inventory.split(b"\n", 4)
    if len(head) < 5 or b"inventory version 2" not in head[0]:
        raise ValueError("this is no Sphinx inventory of version 2")
    for line in zlib.decompress(head[4]).decode().splitlines():
        if found := ENTRY.fullmatch(line):
            yield found[1], found[2], found[3]


def refreshed(text: str, inventory: bytes) -> tuple[str, list[str]]:
    """Return the text of one of our files with the pages that the inventory has, and the names that it lacks."""
    there = {name: (kind, page) for name, kind, page in entries(inventory)}
    pages = {page.partition("#")[0] for _, page in there.values()}
    lines, lost = [], []
    for line in text.splitlines():
        name = line.split(" ")[0]
        if name == "#":
            lines.append(line)
        elif name in there:
            lines.append(" ".join((name, *there[name])))
        else:  # a name of ours for something that has another name there, or a heading: its page names that
            kind, page = line.split()[1:]
            address, _, other = page.partition("#")
            if other in there and other != name:
                page = there[other][1].replace("$", other)
            elif "$" in other or "." in other or address not in pages:
                lost.append(name)
            lines.append(f"{name} {kind} {page}")
    return "\n".join(lines) + "\n", lost


def main() -> int:
    """Refresh every file, and return 1 if a name was lost."""
    from conf import intersphinx_mapping

    missing = False
    for project, (address, _) in intersphinx_mapping.items():
        path = HERE / "inventories" / f"{project}.txt"
        with urllib.request.urlopen(f"{address}objects.inv", timeout=60) as answer:
            before = path.read_text(encoding="utf-8")
            after, lost = refreshed(before, answer.read())
        path.write_text(after, encoding="utf-8")
        moved = sum(a != b for a, b in zip(before.splitlines(), after.splitlines(), strict=True))
        print(f"{project}: {moved} pages have moved; not found: {', '.join(lost) or 'none'}")
        missing |= bool(lost)
    return int(missing)


if __name__ == "__main__":
    sys.exit(main())
