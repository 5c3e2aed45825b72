"""The user's own catalogue: ``catalogue.json`` in a data folder, next to the files that it describes.

It ends with a checksum of itself, and its bytes must be what armagnn writes, so that no damage passes unseen. A file of
armagnn 0.1 has no checksum; it is accepted as it is, and rewritten with one where that is possible.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from armagnn.data.arrays import read_file
from armagnn.data.entries import KINDS, Entry
from armagnn.errors import DataError, shown
from armagnn.files import write_atomic

FILE: Final = "catalogue.json"
FORMAT: Final = "armagnn data catalogue 1"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_name(name: str) -> str:
    """Return a name that a user may give a dataset; it is also the name of its file, so it cannot be a path."""
    if not _is_name(name):
        raise DataError(f"{shown(name)} cannot name a dataset: use letters, digits, '.', '_' and '-', and no '.npz'.")
    return name


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and not name.endswith(".npz")


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
    rows, sealed = _read(folder)
    if not sealed:
        with suppress(DataError):  # a folder that cannot be written to keeps its old file
            change_registry(folder, {})
    return rows


def change_registry(folder: Path, changes: Mapping[str, Registered | None]) -> None:
    """Put rows into the user's catalogue, or take out those that are None; the file is replaced whole."""
    with _alone(folder):
        rows = {**_read(folder)[0], **changes}
        write_atomic(folder / FILE, _to_bytes({name: row for name, row in rows.items() if row is not None}))


def register(folder: Path, name: str, row: Registered) -> None:
    """Write a row into the user's catalogue."""
    change_registry(folder, {check_name(name): row})


def _to_bytes(rows: Mapping[str, Registered]) -> bytes:
    """Return the bytes of a catalogue, with the checksum of what they would be without one."""
    document = {"format": FORMAT, "datasets": {name: vars(rows[name]) for name in sorted(rows)}}
    return _json({**document, "sha256": hashlib.sha256(_json(document)).hexdigest()})


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(errors="replace")


def _read(folder: Path) -> tuple[dict[str, Registered], bool]:
    """Return the rows of the file, if there is one, and whether it has its checksum."""
    path = folder / FILE
    if not path.is_file():
        return {}, True
    content = read_file(path)
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise DataError(f"{path}: is of the format {shown(document['format'])}, not {FORMAT!r}.")
        sealed = "sha256" in document
        if document.keys() != {"format", "datasets", *(["sha256"] if sealed else [])}:
            raise ValueError(f"it has the entries {', '.join(document)}")
        rows = {name: Registered(**row) for name, row in document["datasets"].items()}
        odd = [name for name in rows if not _is_name(name)]
        if odd:
            raise ValueError(f"{shown(odd[0])} cannot name a dataset")
        for row in rows.values():
            texts = (row.file, row.sha256, row.kind, row.source, row.licence)
            if not all(isinstance(text, str) for text in texts) or not isinstance(row.statistics, dict):
                raise ValueError(f"the row of {shown(row.file)} has entries of other types")
            if Path(row.file).name != row.file or not _SHA256.fullmatch(row.sha256) or row.kind not in KINDS:
                raise ValueError(f"the row of {row.file!r} is not a dataset")
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: is not a catalogue of armagnn ({error}). Mend it or move it away.") from error
    if sealed and content != _to_bytes(rows):
        raise DataError(
            f"{path}: its checksum does not fit: it is damaged, or was changed by hand. If you changed it, take the "
            "entry 'sha256' out of it; otherwise move it away and add the datasets again (armagnn data add FILE)."
        )
    return rows, sealed


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
