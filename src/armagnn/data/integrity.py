"""Hash the files again: what is whole, what is missing, what is corrupt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from armagnn.checks import instance
from armagnn.data.catalogue import all_entries, find_entry
from armagnn.data.store import find
from armagnn.errors import DataError


@dataclass(frozen=True)
class Check:
    """What was found of one file."""

    name: str
    file: str
    state: Literal["ok", "missing", "corrupt"]
    note: str


def verify(names: Iterable[str] = ()) -> list[Check]:
    """Hash every file of these datasets (of all, if none is named) and compare with the catalogue.

    Example:
        >>> verify(["cora"])
        [Check(name='cora', file='cora.npz', state='ok', note='embedded/cora.npz')]
    """
    if isinstance(names, str):
        names = [names]
    instance("names", names, (list, tuple, set, frozenset, dict), "a list of names of datasets")
    entries = {name: find_entry(name) for name in names} or all_entries()
    found = []
    for name, entry in entries.items():
        for file in entry.files:
            place = find(entry, name, file)
            if place is None:
                found.append(Check(name, file, "missing", ""))
                continue
            try:
                digest = hashlib.sha256(place.raw()).hexdigest()
            except DataError as error:
                found.append(Check(name, file, "corrupt", str(error)))
                continue
            if digest in place.accepted:
                found.append(Check(name, file, "ok", place.source))
            else:
                note = f"{place.source}: SHA-256 is {digest[:12]}..., not {place.accepted[0][:12]}..."
                found.append(Check(name, file, "corrupt", note))
    return found
