"""The user's own datasets: checked once, copied into the data folder, then known by name."""

from __future__ import annotations

from pathlib import Path

from armagnn.data.arrays import check_digest, opened, read_file
from armagnn.data.atomic import write_whole
from armagnn.data.catalogue import all_entries, parse
from armagnn.data.counts import Statistics, statistics
from armagnn.data.entries import Entry, Kind
from armagnn.data.registry import Registered, check_name, read_registry, register
from armagnn.data.store import user_folder
from armagnn.errors import DataError


def add(path: str | Path, name: str | None = None) -> tuple[str, Statistics]:
    """Check a file, copy it into the data folder and register it; return its name and its statistics.

    The name is that of the file, unless another is given; afterwards ``load(name)`` (or ``load_graphs(name)``) finds
    it, and :func:`verify` watches over it. Names are never taken twice, except by the same bytes.

    Example:
        >>> add("papers.npz", name="papers")  # doctest: +SKIP
    """
    path = Path(path)
    name = check_name(path.stem if name is None else name)
    content = read_file(path)
    sha256 = check_digest(content, str(path))
    kind = _kind(content, str(path))
    entry = Entry(f"{name}.npz", sha256, f"added from {path.resolve()}", kind=kind)
    found = statistics(parse(entry, content, name=name, source=str(path)))
    folder = user_folder()
    known = all_entries().get(name)
    if known is not None and known.sha256 != sha256:
        raise DataError(f"The name {name!r} is taken by another dataset. Choose one with --name.")
    if known is not None and name not in read_registry(folder):
        raise DataError(f"{path}: these are the bytes of {name!r}, which the catalogue has already.")
    target = folder / entry.file
    if target.exists() and not (target.is_file() and read_file(target) == content):
        raise DataError(f"{target}: another file of this name lies there. Choose a name with --name.")
    if not target.exists():
        write_whole(target, content)
    register(folder, name, Registered(entry.file, sha256, kind, entry.source, entry.licence, dict(found)))
    return name, found


def _kind(content: bytes, source: str) -> Kind:
    with opened(content, source) as archive:
        if "ptr" in archive.headers:
            return "graphs"
        return "multilabel" if "features_packed" in archive.headers else "nodes"
