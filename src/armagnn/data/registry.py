"""The user's own catalogue: ``catalogue.json`` in a data folder, beside the files that it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from armagnn.data.arrays import read_file
from armagnn.data.atomic import write_whole
from armagnn.data.entries import KINDS, Entry
from armagnn.errors import DataError

FILE: Final = "catalogue.json"
FORMAT: Final = "armagnn data catalogue 1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_name(name: str) -> str:
    """Return a name that a user may give a dataset; it is also the name of its file, so it cannot be a path."""
    if not _NAME.fullmatch(name) or name.endswith(".npz"):
        raise DataError(f"{name!r} cannot name a dataset: use letters, digits, '.', '_' and '-', and no '.npz'.")
    return name


@dataclass(frozen=True)
class Registered:
    """A row of ``catalogue.json``."""

    file: str
    sha256: str
    kind: str
    source: str
    licence: str
    statistics: dict[str, Any]

    def entry(self, name: str) -> Entry:
        """The row as an entry of the catalogue."""
        return Entry(self.file, self.sha256, self.source, kind=self.kind, licence=self.licence, title=name)  # type: ignore[arg-type]


def read_registry(folder: Path) -> dict[str, Registered]:
    """Read the user's catalogue in a folder; there is none where there is no file."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        document = json.loads(read_file(path))
        if document["format"] != FORMAT:
            raise DataError(f"{path}: is of the format {document['format']!r}, not {FORMAT!r}.")
        rows = {check_name(name): Registered(**row) for name, row in document["datasets"].items()}
        for row in rows.values():
            if Path(row.file).name != row.file or not _SHA256.fullmatch(row.sha256) or row.kind not in KINDS:
                raise ValueError(f"the row of {row.file!r} is not a dataset")
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: is not a catalogue of armagnn ({error}). Mend it or move it away.") from error
    return rows


def register(folder: Path, name: str, row: Registered) -> None:
    """Write a row into the user's catalogue, which is replaced whole."""
    check_name(name)
    with _alone(folder):
        rows = {**read_registry(folder), name: row}
        document = {"format": FORMAT, "datasets": {key: vars(rows[key]) for key in sorted(rows)}}
        write_whole(folder / FILE, (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode())


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let no other process change the catalogue between our reading and writing it."""
    try:
        import fcntl
    except ImportError:  # Windows: the last writer wins
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / f".{FILE}.lock", "w")  # noqa: SIM115 (it is closed below)
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror}). Set ARMAGNN_DATA to another.") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
