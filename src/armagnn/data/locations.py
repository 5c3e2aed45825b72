"""Where the files of datasets are, in a package or in a data folder, and whether they are whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from armagnn.checks import instance
from armagnn.data.arrays import check_digest, read_file
from armagnn.data.catalogue import DATA_VARIABLE, Entry, all_entries, find_entry, folders, read_user_catalogue
from armagnn.errors import DataError


@dataclass(frozen=True)
class Place:
    """A file that is there, with the checksums that it may have."""

    path: Path
    accepted: tuple[str, ...]
    embedded: bool

    @property
    def source(self) -> str:
        """What to call the file: its path, or ``embedded/...`` if a package carries it."""
        return f"embedded/{self.path.name}" if self.embedded else str(self.path)

    def content(self) -> bytes:
        """The bytes of the file, which must have an accepted checksum."""
        content = self.raw()
        check_digest(content, self.source, *self.accepted)
        return content

    def raw(self) -> bytes:
        """The bytes of the file, whatever they are."""
        if self.embedded and not self.path.is_file():
            raise DataError(f"{self.source}: is missing. Install again the package that should carry it.")
        return read_file(self.path)


def find(entry: Entry, name: str, file: str | None = None) -> Place | None:
    """Find a file of a dataset; None if it is nowhere.

    What ``data fetch`` converted on this machine has the checksum that is registered beside it: another version of
    the compression library writes the same arrays as other bytes.
    """
    file = file or entry.file
    sha256 = entry.files[file]
    if entry.embedded:
        return Place(Path(entry.folder, file), (sha256,), embedded=True)
    for folder in folders():
        if (folder / file).is_file():
            own = read_user_catalogue(folder).get(name)
            more = (own.sha256,) if own is not None and own.file == file else ()
            return Place(folder / file, tuple(dict.fromkeys([sha256, *more])), embedded=False)
    return None


def locate(entry: Entry, name: str, file: str | None = None) -> Place:
    """Find a file of a dataset, or say where it was looked for."""
    place = find(entry, name, file)
    if place is None:
        looked = ", ".join(str(folder) for folder in folders())
        raise DataError(
            f"The file {file or entry.file!r} of dataset {name!r} was not found in: {looked}. "
            f"Set {DATA_VARIABLE} to the folder that holds it, or get it with: armagnn data fetch {name}"
        )
    return place


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
    return [checked(name, entry, file) for name, entry in entries.items() for file in entry.files]


def checked(name: str, entry: Entry, file: str) -> Check:
    """Hash a file of a dataset and compare it with the catalogue."""
    place = find(entry, name, file)
    if place is None:
        return Check(name, file, "missing", "")
    try:
        digest = hashlib.sha256(place.raw()).hexdigest()
    except DataError as error:
        return Check(name, file, "corrupt", str(error))
    if digest in place.accepted:
        return Check(name, file, "ok", place.source)
    note = f"{place.source}: SHA-256 is {digest[:12]}..., not {place.accepted[0][:12]}..."
    return Check(name, file, "corrupt", note)
