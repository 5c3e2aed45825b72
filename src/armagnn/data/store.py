"""Where the files of the catalogue are: in the package, or in a folder."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from armagnn.data.arrays import check_digest, read_file
from armagnn.data.entries import Entry
from armagnn.data.registry import read_registry
from armagnn.errors import DataError

DATA_VARIABLE: Final = "ARMAGNN_DATA"
SHARED_FOLDER: Final = Path("..", "shared", "data")  # beside a checkout, relative to the current directory


def user_folder() -> Path:
    """The folder that ``data add`` and ``data fetch`` write to: ``$ARMAGNN_DATA``, or the platform's place for data."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else _platform_folder()


def folders() -> list[Path]:
    """Where files are looked for, in this order: ``$ARMAGNN_DATA``, the platform's folder, ``../shared/data``."""
    return list(dict.fromkeys([user_folder(), _platform_folder(), SHARED_FOLDER]))


def _platform_folder() -> Path:
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "armagnn"


@dataclass(frozen=True)
class Place:
    """A file that is there: `source` is its path (or ``embedded/...``), `accepted` are the checksums it may have."""

    source: str
    accepted: tuple[str, ...]
    embedded: bool

    def content(self) -> bytes:
        """The bytes of the file, which must have an accepted checksum."""
        content = self.raw()
        check_digest(content, self.source, *self.accepted)
        return content

    def whole(self) -> bool:
        """Can the file be read, and has it an accepted checksum?"""
        try:
            return bool(self.content())
        except DataError:
            return False

    def raw(self) -> bytes:
        """The bytes of the file, whatever they are."""
        if not self.embedded:
            return read_file(self.source)
        try:
            return resources.files("armagnn.data").joinpath("embedded", Path(self.source).name).read_bytes()
        except OSError as error:
            raise DataError(f"{self.source}: cannot be read ({error.strerror}). Install armagnn again.") from error


def find(entry: Entry, name: str, file: str | None = None) -> Place | None:
    """Find a file of a dataset; None if it is nowhere.

    What ``data fetch`` converted on this machine has the checksum that is registered beside it: another version of
    the compression library writes the same arrays as other bytes.
    """
    file = file or entry.file
    sha256 = entry.files[file]
    if entry.embedded:
        return Place(f"embedded/{file}", (sha256,), embedded=True)
    for folder in folders():
        if (folder / file).is_file():
            own = read_registry(folder).get(name)
            more = (own.sha256,) if own is not None and own.file == file else ()
            return Place(str(folder / file), tuple(dict.fromkeys([sha256, *more])), embedded=False)
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
