"""Datasets known by name: those of armagnn, those that the user added, and those of other installed packages.

armagnn's are in ``catalogue.toml``, in this package. Another package names a file like it by an entry point of the
group ``armagnn.datasets``. The user's are in ``catalogue.json``, in a data folder, next to the files that it describes.
It ends with a checksum of itself, and its bytes must be what armagnn writes, so that no damage passes unseen. A file of
armagnn 0.1 has no checksum; it is accepted as it is, and rewritten with one where that is possible.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final, Literal, get_args

from armagnn.errors import DataError, ParameterError, shown
from armagnn.files import platform_folder, read_file, write_atomic

Kind = Literal["nodes", "multilabel", "graphs", "images", "documents", "signals", "molecules", "splits"]
KINDS: Final = get_args(Kind)
FILE: Final = "catalogue.json"
FORMAT: Final = "armagnn data catalogue 1"
REGISTERED: Final = ("file", "sha256", "kind", "source", "licence", "statistics")
"""What ``catalogue.json`` has of an entry, in this order."""
PLUGINS: Final = "armagnn.datasets"
DATA_VARIABLE: Final = "ARMAGNN_DATA"
SHARED_FOLDER: Final = Path("..", "shared", "data")  # next to a checkout, relative to the current directory
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Entry:
    """One dataset.

    Attributes:
        file: the name of its file.
        sha256: the checksum of the file.
        source: where it is from.
        embedded: does a package carry it?
        kind: what the file holds, and so how it is read.
        licence: under which terms the source gives it.
        title: what to call it in results.
        also: further files, name to checksum.
        paper: the paper's statistics, by the names that :func:`armagnn.data.statistics` uses.
        differences: how the file differs from what the paper used, in sentences.
        statistics: what was counted when the user added it.
        folder: where the files are, if a package carries them.
        subfolder: a folder in a folder of data where the files may be, too.
    """

    file: str
    sha256: str
    source: str
    embedded: bool = False
    kind: Kind = "nodes"
    licence: str = "not stated"
    title: str = ""
    also: Mapping[str, str] = field(default_factory=dict)
    paper: Mapping[str, str] = field(default_factory=dict)
    differences: str = ""
    statistics: Mapping[str, Any] = field(default_factory=dict)
    folder: str = ""
    subfolder: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.file, str) or not isinstance(self.also, Mapping):
            raise ParameterError("file must be the name of a file, also a dict of further files and their checksums.")

    @property
    def files(self) -> dict[str, str]:
        """Every file and its checksum."""
        return {self.file: self.sha256, **self.also}


def read_entries(path: str | os.PathLike[str]) -> dict[str, Entry]:
    """Read a TOML file of entries, a table for each name; embedded files lie in the folder ``embedded`` next to it."""
    path = Path(path)
    try:
        rows = tomllib.loads(read_file(path).decode())
        entries = {name: Entry(**row) for name, row in rows.items()}
    except (ValueError, TypeError, ParameterError) as error:
        raise DataError(f"{path}: is not a catalogue of datasets ({error}).") from error
    folder = str(path.with_name("embedded"))
    return {name: replace(entry, folder=folder if entry.embedded else "") for name, entry in entries.items()}


CATALOGUE: dict[str, Entry] = read_entries(Path(__file__).with_name("catalogue.toml"))


def all_entries() -> dict[str, Entry]:
    """Every dataset that has a name: those of armagnn, then those that the user added, then those of other packages."""
    known = dict(CATALOGUE)
    for entries in (*map(read_user_catalogue, folders()), _of_packages()):
        known |= {name: entry for name, entry in entries.items() if name not in known}
    return known


def _of_packages() -> dict[str, Entry]:
    """The datasets of other packages; each entry point gives the path of a TOML file, or a mapping of entries."""
    found: dict[str, Entry] = {}
    for point in entry_points(group=PLUGINS):
        try:
            given = point.load()
            entries = read_entries(given) if isinstance(given, str | os.PathLike) else dict(given)
            for name, entry in entries.items():
                _check(name, entry)
        except Exception as error:  # another package can raise anything
            raise DataError(
                f"The datasets of the package behind the entry point {point.name} = {point.value} cannot be read "
                f"({error}). Mend that package, or uninstall it."
            ) from error
        found = entries | found
    return found


def _check(name: str, entry: Entry) -> None:
    """Refuse what the catalogue of a user or of a package cannot hold, by a ValueError."""
    if not _is_name(name):
        raise ValueError(f"{shown(name)} cannot name a dataset")
    if not isinstance(entry, Entry):
        raise ValueError(f"{name} is no Entry")
    texts = (entry.sha256, entry.kind, entry.source, entry.licence, *entry.also, *entry.also.values())
    if not all(isinstance(text, str) for text in texts) or not isinstance(entry.statistics, Mapping):
        raise ValueError(f"the row of {shown(entry.file)} has entries of other types")
    files, kind = entry.files, entry.kind
    if kind == "molecules" and len(files) != 2:
        raise ValueError(f"the row of {entry.file!r} must have one other file, of the graphs of the molecules")
    if kind not in KINDS or any(Path(file).name != file or not _SHA256.fullmatch(files[file]) for file in files):
        raise ValueError(f"the row of {entry.file!r} is not a dataset")


def check_name(name: str) -> str:
    """Return a name that a user may give a dataset; it is also the name of its file, so it cannot be a path."""
    if not _is_name(name):
        raise DataError(f"{shown(name)} cannot name a dataset: use letters, digits, '.', '_' and '-', and no '.npz'.")
    return name


def _is_name(name: object) -> bool:
    return isinstance(name, str) and bool(_NAME.fullmatch(name)) and not name.endswith(".npz")


# ------------------------------------------------------------------------------------------------- the user's catalogue


def user_folder() -> Path:
    """The folder that ``data add`` and ``data fetch`` write to: ``$ARMAGNN_DATA``, or the platform's place for data."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else platform_folder("data")


def folders() -> list[Path]:
    """Where files are looked for, in this order: ``$ARMAGNN_DATA``, the platform's folder, ``../shared/data``."""
    return list(dict.fromkeys([user_folder(), platform_folder("data"), SHARED_FOLDER]))


def read_user_catalogue(folder: Path) -> dict[str, Entry]:
    """Read the user's catalogue in a folder; there is none where there is no file."""
    entries, sealed = _read(folder)
    if not sealed:
        with suppress(DataError):  # a folder that cannot be written to keeps its old file
            change_user_catalogue(folder, {})
    return entries


def change_user_catalogue(folder: Path, changes: Mapping[str, Entry | None]) -> None:
    """Put entries into the user's catalogue, or take out those that are None; the file is replaced whole."""
    with _alone(folder):
        entries = {**_read(folder)[0], **changes}
        write_atomic(folder / FILE, _to_bytes({name: entry for name, entry in entries.items() if entry is not None}))


def _to_bytes(entries: Mapping[str, Entry]) -> bytes:
    """Return the bytes of a catalogue, with the checksum of what they would be without one."""
    rows = {name: {key: getattr(entries[name], key) for key in REGISTERED} for name in sorted(entries)}
    document = {"format": FORMAT, "datasets": rows}
    return _json({**document, "sha256": hashlib.sha256(_json(document)).hexdigest()})


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, ensure_ascii=False) + "\n").encode(errors="replace")


def _read(folder: Path) -> tuple[dict[str, Entry], bool]:
    """Return the entries of the file, if there is one, and whether it has its checksum."""
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
        entries = {}
        for name, row in document["datasets"].items():
            if row.keys() != set(REGISTERED):
                raise ValueError(f"the row of {shown(name)} has the entries {', '.join(row)}")
            entries[name] = Entry(**row, title=name)
            _check(name, entries[name])
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ParameterError) as error:
        raise DataError(f"{path}: is not a catalogue of armagnn ({error}). Mend it or move it away.") from error
    if sealed and content != _to_bytes(entries):
        raise DataError(
            f"{path}: its checksum does not fit: it is damaged, or was changed by hand. If you changed it, take the "
            "entry 'sha256' out of it; otherwise move it away and add the datasets again (armagnn data add FILE)."
        )
    return entries, sealed


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
