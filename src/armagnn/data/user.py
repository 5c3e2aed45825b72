"""The user's own datasets: checked once, copied into the data folder, then known by name."""

from __future__ import annotations

import os
from pathlib import Path

from armagnn.data.arrays import check_digest, opened, path_of, read_file
from armagnn.data.catalogue import all_entries, parse
from armagnn.data.counts import Statistics, statistics
from armagnn.data.dataset import NodeDataset
from armagnn.data.entries import CATALOGUE, Entry, Kind
from armagnn.data.graphs import GraphsDataset
from armagnn.data.registry import Registered, change_registry, check_name, read_registry, register
from armagnn.data.store import DATA_VARIABLE, folders, user_folder
from armagnn.data.tu_folder import read_tu_folder
from armagnn.errors import DataError, UnknownNameError
from armagnn.files import write_atomic


def read_own(path: str | os.PathLike[str]) -> NodeDataset | GraphsDataset:
    """Read your own file, of whichever kind, or your folder of graphs in TU's format.

    Example:
        >>> read_own("papers.npz")  # doctest: +SKIP
    """
    file = Path(path_of(path))
    if os.path.isdir(file):
        return read_tu_folder(file)
    content = read_file(file)
    entry = Entry(file.name, check_digest(content, str(file)), "", kind=_kind(content, str(file)))
    return parse(entry, content, name=str(file), source=str(file))


def add(path: str | os.PathLike[str], name: str | None = None) -> tuple[str, Statistics]:
    """Check a file, copy it into the data folder and register it; return its name and its statistics.

    The name is that of the file, unless another is given; afterwards ``load(name)`` (or ``load_graphs(name)``) finds
    it, and :func:`verify` watches over it. Names are never taken twice, except by the same bytes.

    Example:
        >>> add("papers.npz", name="papers")  # doctest: +SKIP
    """
    path = Path(path_of(path))
    if os.path.isdir(path):
        raise DataError(
            f"{path}: is a folder, which is used where it lies (armagnn train graphs --data {path}). Only .npz files "
            "are added."
        )
    content = read_file(path)
    sha256 = check_digest(content, str(path))
    kind = _kind(content, str(path))
    name = check_name(path.stem if name is None else name)
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
        write_atomic(target, content)
    register(folder, name, Registered(entry.file, sha256, kind, entry.source, entry.licence, dict(found)))
    return name, found


def remove(name: str) -> str:
    """Take your own dataset out of the data folder: its row of the catalogue, and its file; return where that was.

    It is also for what :func:`fetch` or :func:`make_news` put there. The file that :func:`add` copied stays.

    Example:
        >>> remove("papers")  # doctest: +SKIP
    """
    folder = user_folder()
    rows = read_registry(folder)
    name = check_name(name)
    if name not in rows:
        other = next((each for each in folders() if name in read_registry(each)), None)
        if other is not None:
            raise DataError(f"{name!r} lies in {other}, not in your data folder {folder}: set {DATA_VARIABLE} to it.")
        if name in CATALOGUE:
            raise DataError(f"{name!r} is known to armagnn itself; only what was added, fetched or made is removed.")
        raise UnknownNameError("dataset of your own", name, rows)
    target = folder / rows[name].file
    change_registry(folder, {name: None})
    if not any(row.file == target.name for other, row in rows.items() if other != name):
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{target}: cannot be removed ({error.strerror}); {name!r} is no longer known.") from error
    return str(target)


def _kind(content: bytes, source: str) -> Kind:
    with opened(content, source) as archive:
        if "ptr" in archive.headers:
            return "graphs"
        return "multilabel" if "features_packed" in archive.headers else "nodes"
