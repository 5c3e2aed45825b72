"""The run store: every finished trial of every table in one SQLite file that survives ``kill -9``.

A trial is known by what determines it, so a trial that comes twice, from a command given again or from another
machine, is recognised and the first stays.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from armagnn import checks
from armagnn.errors import ParameterError, RunError, UnknownNameError, shown
from armagnn.training.record import FIELDS, INTEGERS, JSON_FIELDS, ORDER, Record, canonical, digest

if sys.platform != "win32":
    import fcntl

APPLICATION = int.from_bytes(b"ARMA")  # in the header of every store: what tells it from other SQLite files
VERSION = 1
PATIENCE = 60.0  # seconds to wait for another process that is writing
DEFAULT_STORE = Path("runs", "store.sqlite")


def checkpoints_of(store: Path) -> Path:
    """The folder of the checkpoints of a store's unfinished trials: next to the store, another one for each store.

    Example:
        >>> checkpoints_of(Path("runs", "store.sqlite")).name
        'store.sqlite-checkpoints'
    """
    return store.with_name(f"{store.name}-checkpoints")


class Merged(NamedTuple):
    """What :meth:`Store.merge` found: new trials, double ones, and those of the double ones whose metrics differ."""

    new: int
    double: int
    different: int


class Store:
    """The SQLite file at `path`, made if it is missing (unless `must_exist`), checked when opened.

    Trials that :meth:`add` has returned from are on the disk for good. Any number of processes may share a store.

    Example:
        >>> import tempfile
        >>> record = Record("demo", "cora", "arma", "paper", 0, 0, 7, {"lr": 0.01}, {"accuracy": 83.4})
        >>> with tempfile.TemporaryDirectory() as folder, Store(f"{folder}/store.sqlite") as store:
        ...     store.add([record]), store.add([record]), len(store), store.get(record.key) == record
        (1, 0, 1, True)
    """

    def __init__(self, path: str | Path, *, must_exist: bool = False) -> None:
        self.path = checks.path("path", path)
        self._claims: int | None = None  # descriptor of the file whose bytes are claimed
        if must_exist and not self.path.is_file():
            raise RunError(f"{self.path}: there is no such store. Check the path.")
        if must_exist and not self.path.stat().st_size:
            raise RunError(f"{self.path}: is empty: whatever it held is lost. Restore it from a copy, or remove it.")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{self.path}: cannot be made ({error.strerror}).") from error
        if self.path.exists() and not self.path.is_file():
            raise RunError(f"{self.path}: no file, and so no store. Choose another path.")
        with self._errors():
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            with self._errors():
                self._open()
        except BaseException:
            self._connection.close()
            raise

    def _open(self) -> None:
        if self._is_empty():  # another process may be making it at this moment: look again with the lock held
            with self._transaction():
                if self._is_empty():
                    columns = ", ".join(f'"{name}" {_sql_type(name)} NOT NULL' for name in FIELDS)
                    self._do(
                        f"CREATE TABLE trials (key TEXT PRIMARY KEY, {columns}, sha256 TEXT NOT NULL)"
                        " STRICT, WITHOUT ROWID"
                    )
                    self._do(f"PRAGMA application_id = {APPLICATION}")
                    self._do(f"PRAGMA user_version = {VERSION}")
        if self._value("PRAGMA application_id") != APPLICATION:
            raise RunError(f"{self.path}: a database, but no store of armagnn, and is left alone. Check the path.")
        version = self._value("PRAGMA user_version")
        if version != VERSION:
            raise RunError(
                f"{self.path}: store version {version}, this armagnn reads {VERSION}. Use the one that wrote it."
            )
        found = self._value("PRAGMA integrity_check")
        if found != "ok":
            raise RunError(f"{self.path}: corrupt ({found}). Restore it from a copy, or begin a new store.")
        self._write_ahead()
        self._do("PRAGMA synchronous = FULL")  # a commit returns when the trial is on the disk
        # Every commit goes on into the main file at once: a copy of that file alone, even after kill -9, is whole.
        self._do("PRAGMA wal_autocheckpoint = 1")

    def _write_ahead(self) -> None:
        # SQLite does not wait for others in this one statement, so we do.
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self._do("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _is_empty(self) -> bool:
        known = self._value("PRAGMA application_id"), self._value("PRAGMA user_version")
        return known == (0, 0) and self._value("SELECT count(*) FROM sqlite_master") == 0

    # -------------------------------------------------------------------------------------------------- trials

    def add(self, records: Iterable[Record]) -> int:
        """Keep `records` for good, all or none of them, and return how many were new."""
        return self._add(records).new

    def _add(self, records: Iterable[Record]) -> Merged:
        new = double = different = 0
        marks = ", ".join("?" * (len(FIELDS) + 2))
        with self._errors(), self._transaction():
            for record in _listed("records", records):
                if not isinstance(record, Record):
                    raise ParameterError(f"A store keeps records of trials, got {shown(record)}.")
                known = self.get(record.key)
                if known is None:
                    self._do(f"INSERT INTO trials VALUES ({marks})", _to_row(record))
                    new += 1
                    continue
                if known.cell != record.cell:  # silently, a cell of the table would stay empty
                    raise RunError(
                        f"{self.path}: a trial of {record.cell} has the configuration of one of {known.cell}. "
                        "The configuration must tell them apart."
                    )
                double += 1
                different += known.metrics != record.metrics
        return Merged(new, double, different)

    def has(self, key: str) -> bool:
        """Is the trial in the store?"""
        with self._errors():
            return bool(self._value("SELECT count(*) FROM trials WHERE key = ?", (key,)))

    def get(self, key: str) -> Record | None:
        """The trial, if it is in the store."""
        with self._errors():
            row = self._do("SELECT * FROM trials WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._to_record(row)

    def missing(self, keys: Iterable[str]) -> list[str]:
        """Those of `keys` that are not in the store, in their order."""
        return [key for key in _listed("keys", keys) if not self.has(key)]

    def select(self, **filters: str | int) -> list[Record]:
        """The trials with these values of table, dataset, method, protocol, run, fold, seed, ..., in a fixed order.

        Example:
            >>> store.select(dataset="cora", method="arma")  # doctest: +SKIP
        """
        for name in filters:
            if name not in FIELDS or name in JSON_FIELDS:
                raise UnknownNameError("filter", name, set(FIELDS) - JSON_FIELDS)
        where = " AND ".join(f'"{name}" = ?' for name in filters) or "true"
        order = ", ".join(f'"{name}"' for name in ORDER)
        with self._errors():
            rows = self._do(
                f"SELECT * FROM trials WHERE {where} ORDER BY {order}, key", (*filters.values(),)
            ).fetchall()
        return [self._to_record(row) for row in rows]

    def merge(self, other: str | Path) -> Merged:
        """Add all trials of the store at `other`, which stays as it is."""
        with Store(other, must_exist=True) as source:
            if self.path.resolve() == source.path.resolve():
                raise ParameterError(f"{other}: is the store to merge into.")
            return self._add(source.select())

    def __len__(self) -> int:
        with self._errors():
            return int(self._value("SELECT count(*) FROM trials"))

    # -------------------------------------------------------------------------------------------------- claims

    def claim(self, keys: Sequence[str]) -> bool:
        """Say that this process is at work on these trials: all of them, or none if another one is at work on any.

        A claim is a lock of the operating system on one byte per trial of a file next to the store, so it ends with
        the process, however that ends. It saves double work on one machine; nothing depends on it.
        """
        if sys.platform == "win32":  # it has no such locks
            return True
        if self._claims is None:
            try:
                self._claims = os.open(f"{self.path}-claims", os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise RunError(f"{self.path}-claims: cannot be written ({error.strerror}).") from error
        for number, key in enumerate(_listed("keys", keys)):
            try:
                fcntl.lockf(self._claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(key))
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    self.release(keys[:number])
                    return False
                return True  # a file system without locks
        return True

    def release(self, keys: Iterable[str]) -> None:
        """Take claims back."""
        if sys.platform == "win32" or self._claims is None:
            return
        for key in _listed("keys", keys):
            fcntl.lockf(self._claims, fcntl.LOCK_UN, 1, _byte(key))

    # ------------------------------------------------------------------------------------------------- SQLite

    def close(self) -> None:
        """Close the file. What was added is on the disk already."""
        if self._claims is not None:
            os.close(self._claims)
            self._claims = None
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _do(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def _value(self, statement: str, values: Sequence[object] = ()) -> Any:
        return self._do(statement, values).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._do("BEGIN IMMEDIATE")  # a lock to write from the start: one taken later could not be waited for
        try:
            yield
            self._do("COMMIT")
        except BaseException:  # also Ctrl-C
            if self._connection.in_transaction:
                self._do("ROLLBACK")
            raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        # an error about text that is no text may be a UnicodeError, and an integer beyond 64 bits an OverflowError
        except (sqlite3.Error, UnicodeError, OverflowError) as error:
            raise RunError(f"{self.path}: cannot be used as a store ({error}).") from error

    def _to_record(self, row: Sequence[Any]) -> Record:
        try:
            values = dict(zip(FIELDS, row[1:-1], strict=True))
            record = Record(**{n: json.loads(v) if n in JSON_FIELDS else v for n, v in values.items()})
            whole = (record.key, digest(asdict(record))) == (row[0], row[-1])
        except (ValueError, TypeError, RecursionError) as error:
            raise RunError(f"{self.path}: corrupt, trial {shown(row[0])} cannot be read ({error}).") from error
        if not whole:
            raise RunError(f"{self.path}: corrupt, trial {row[0]!s:.12} does not have its checksum.")
        return record


def _sql_type(name: str) -> str:
    return "INTEGER" if name in INTEGERS else "REAL" if name == "seconds" else "TEXT"


def _to_row(record: Record) -> list[object]:
    content = asdict(record)
    values = [canonical(value) if name in JSON_FIELDS else value for name, value in content.items()]
    # SQLite keeps no checksums; this one finds every damaged digit.
    return [record.key, *values, digest(content)]


def _listed(name: str, values: Any) -> Iterator[Any]:
    """The values, if they can be gone through and are not one text."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ParameterError(f"{name} must be a list, got {shown(values)}.")
    return iter(values)


def _byte(key: str) -> int:
    try:
        return int(key[:15], 16)  # 60 bits: file offsets have 63
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{shown(key)} is no key of a trial: they come from trial_key(...).") from error
