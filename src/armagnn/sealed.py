"""Tables with a digest in the same folder: a table that was damaged or edited since it was written is refused.

A file ``SHA256SUMS`` in the folder of the tables has a line for each, as ``sha256sum --check SHA256SUMS`` reads them:
the tables themselves are plain CSV for everyone. `write_sealed` keeps both in step, `read_sealed` and `read_table`
refuse a table that does not match, `seal` takes files as they are, after an edit on purpose.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

from armagnn.errors import DataError, RunError
from armagnn.files import sha256_of, write_atomic

SUMS: Final = "SHA256SUMS"
SEALED: Final = (".csv", ".json")
"""The kinds of files that `seal` finds in a folder."""

T = TypeVar("T")

_LINE: Final = re.compile(r"([0-9a-f]{64}) [ *](\S.*)")


def read_sealed(folder: Traversable, name: str, *, needed: bool = True) -> str:
    """The text of a file that is what was written there; without a digest it is refused, too, if one is `needed`.

    Example:
        >>> read_sealed(Path("results"), "reservoir.csv")  # doctest: +SKIP
    """
    path = folder.joinpath(name)
    content = _content(path)
    known = _sums(folder).get(name, ())
    if not known and needed:
        raise DataError(
            f"{path}: has no digest in {SUMS} of its folder, so nobody can say that it is whole. Write it again with "
            f"the command that makes it, or, if it is as it should be, give it one: armagnn results seal {path}"
        )
    if known and sha256_of(content) not in known:
        raise DataError(
            f"{path}: is not what was written: its digest is another one than in {SUMS} of its folder. Get both files "
            f"again. If you changed it on purpose: armagnn results seal {path}"
        )
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no text in UTF-8 ({error.reason}, byte {error.start}). Get it again.") from error


def read_table(path: Path, columns: Sequence[str] = ()) -> list[dict[str, str]]:
    """The rows of a sealed CSV file; all of them have a value in each column, and its columns are these, if given."""
    reader = csv.DictReader(io.StringIO(read_sealed(path.parent, path.name), newline=""), strict=True)
    try:
        head = tuple(reader.fieldnames or ())
        if columns and head != tuple(columns):
            raise DataError(f"{path}: is another table; its first line must be {','.join(columns)}.")
        rows = []
        for row in reader:
            if None in row or None in row.values():
                raise DataError(f"{path}, line {reader.line_num}: {len(head)} values are needed.")
            rows.append(row)
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: no CSV ({error}).") from error
    return rows


def rows_csv(kind: type[Any], rows: Iterable[Any], digits: int | None = None) -> bytes:
    """The instances of a dataclass as a table, a column for each field; floats with `digits` significant digits."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(field.name for field in fields(kind))
    for row in rows:
        table.writerow(f"{v:.{digits}g}" if digits and isinstance(v, float) else v for v in astuple(row))
    return text.getvalue().encode()


def read_rows(path: Path, kind: type[T], what: str, advice: str = "") -> list[T]:
    """The instances of a dataclass that `rows_csv` wrote (fields: str, int, float); `what` they are, for the error."""
    hints = get_type_hints(kind)
    rows = read_table(path, list(hints))
    try:
        return [kind(**{name: hints[name](value) for name, value in row.items()}) for row in rows]
    except ValueError as error:
        raise DataError(f"{path}: not {what} ({error}). {advice}".rstrip()) from error


def write_sealed(path: Path, content: bytes) -> None:
    """Write a table and its digest. Whenever it is interrupted, the table that is there is one that is accepted."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}).") from error
    sums = _sums(path.parent)
    digest = sha256_of(content)
    if path.is_file():
        _write_sums(path.parent, sums | {path.name: (*sums.get(path.name, ()), digest)})  # the old one, or the new
    write_atomic(path, content)
    _write_sums(path.parent, sums | {path.name: (digest,)})


def check_all_there(folder: Path) -> None:
    """Refuse a folder from which a sealed table is gone: what is made of the rest would say nothing about it."""
    for name in _sums(folder):
        if not folder.joinpath(name).is_file():
            raise DataError(
                f"{folder / name}: is gone, but has a digest in {SUMS}. Get it again. If you removed it on purpose: "
                f"armagnn results seal {folder}"
            )


def seal(paths: Iterable[Path]) -> list[Path]:
    """Give files, or all tables of folders and of those below them, the digest of what they hold now.

    Returns those that had another one, or none; digests of files that are gone are removed.
    """
    changed = []
    for path in paths:
        if path.is_dir():
            files = [file for file in sorted(path.rglob("*")) if file.suffix in SEALED and file.is_file()]
            if not files:
                raise DataError(f"{path}: has no table (*.csv or *.json).")
        else:
            files = [path]
        for folder in dict.fromkeys(file.parent for file in files):
            try:
                sums = _sums(folder)
            except DataError:
                sums = {}  # a damaged list is what is mended here
            sums = {name: known for name, known in sums.items() if folder.joinpath(name).is_file()}
            for file in (file for file in files if file.parent == folder):
                digest = sha256_of(_content(file))
                if sums.get(file.name) != (digest,):
                    sums[file.name] = (digest,)
                    changed.append(file)
            _write_sums(folder, sums)
    return changed


def _content(path: Traversable) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # the second of a name with a zero byte in it
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{path}: cannot be read ({reason}).") from error


def _sums(folder: Traversable) -> dict[str, tuple[str, ...]]:
    """The digests of the files of a folder, by their names; two where a table is being written."""
    path, found = folder.joinpath(SUMS), dict[str, tuple[str, ...]]()
    if not path.is_file():
        return found
    for line in filter(None, _content(path).decode(errors="surrogateescape").split("\n")):
        match = _LINE.fullmatch(line)
        if match is None:
            raise DataError(
                f"{path}: is damaged; a line of it is no digest and name. Get it again, or, if all tables of the "
                f"folder are as they should be, write it anew: armagnn results seal {folder}"
            )
        found[match[2]] = (*found.get(match[2], ()), match[1])
    return found


def _write_sums(folder: Path, sums: dict[str, tuple[str, ...]]) -> None:
    lines = [f"{digest}  {name}\n" for name, known in sorted(sums.items()) for digest in known]
    path, text = folder / SUMS, "".join(lines).encode(errors="surrogateescape")
    if not path.is_file() or path.read_bytes() != text:
        write_atomic(path, text)
