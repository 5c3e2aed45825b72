"""Stores that hold what no store of armagnn would: bytes that are no text, rows of other types, odd questions."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import ArmagnnError, ParameterError, RunError
from armagnn.training.record import FIELDS, Record
from armagnn.training.results_store import APPLICATION, VERSION, Store
from finished_trials import finished

TRIALS = [finished(seed) for seed in range(3)]
KEY = TRIALS[0].key
ODD = (None, -1, 2**62, 1.5, float("inf"), b"\xff\xfe", b"", "x", "\0", "[]", "[" * 10**5, "9" * 5000, "NaN",
       '{"a": 1e999}', '{"a": "b"}', '{"accuracy": null}', "{")  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store(tmp_path / "store.sqlite") as store:
        store.add(TRIALS)
    return tmp_path / "store.sqlite"


def use(path: Path) -> list[Record]:
    """All that a store can be asked for."""
    with Store(path) as store:
        assert len(store) == 3
        assert store.has(KEY) == (store.get(KEY) is not None)
        assert store.missing([KEY]) in ([], [KEY])
        return store.select()


def test_a_byte_that_is_no_text_is_found(path: Path) -> None:
    """Anywhere in the rows, and in what SQLite says of a damaged store."""
    content = path.read_bytes()
    start = content.index(b'{"accuracy"') - 300
    texts = [place for place in range(start, len(content) - 1, 9) if content[place] > 31]
    header = [place for place in range(100, 600, 7) if content[place]]
    refused = 0
    for place, byte in product([*texts, *header], [0xFF, 0x80]):
        path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
        try:
            assert use(path) == TRIALS  # a byte that means nothing
        except RunError:
            refused += 1
    assert refused > 100


def loose(path: Path, rows: list[list[object]]) -> Path:
    """A store whose columns take anything, as another program may make it."""
    names = [f'"{name}"' for name in ("key", *FIELDS, "sha256")]
    with sqlite3.connect(path) as raw:
        raw.execute(f"CREATE TABLE trials ({', '.join(names)})")
        raw.execute(f"PRAGMA application_id = {APPLICATION}")
        raw.execute(f"PRAGMA user_version = {VERSION}")
        raw.executemany(f"INSERT INTO trials VALUES ({', '.join('?' * len(names))})", rows)
    raw.close()
    return path


@pytest.mark.parametrize("column", range(len(FIELDS) + 2), ids=["key", *FIELDS, "sha256"])
def test_a_row_of_other_types_is_found(path: Path, tmp_path: Path, column: int) -> None:
    with sqlite3.connect(path) as raw:
        rows = [list(row) for row in raw.execute("SELECT * FROM trials")]
    raw.close()
    assert use(loose(tmp_path / "honest", rows)) == TRIALS
    for number, value in enumerate(ODD):
        changed = [[*row[:column], value, *row[column + 1 :]] for row in rows]
        with pytest.raises(RunError):
            use(loose(tmp_path / str(number), changed))


@pytest.mark.parametrize(
    "changes",
    [{"dataset": 5}, {"method": None}, {"protocol": b"x"}, {"device": ["cpu"]}, {"data_sha256": 1.5}, {"table": 5},
     {"table": "../x"}, {"versions": {"torch": 2}}, {"versions": []}, {"metrics": []}, {"metrics": {1: 2.0}},
     {"metrics": {"a": None}}, {"metrics": {"a": 10**400}}, {"config": []}, {"config": {1: 2}}, {"config": {"a": {1}}},
     {"seed": 1.5}, {"seed": 2**63}, {"run": True}, {"fold": "0"}, {"epochs": None}, {"seconds": "x"}],
    ids=str,
)  # fmt: skip
def test_a_record_is_of_its_types(changes: dict[str, Any]) -> None:
    """With its key and checksum computed anew, a row of other types would be taken."""
    with pytest.raises(ParameterError):
        finished(**changes)


def test_a_config_that_holds_itself_is_refused() -> None:
    config: dict[str, Any] = {}
    config["config"] = config
    with pytest.raises(ParameterError, match="cannot be kept"):
        finished(config=config)


@pytest.mark.parametrize(
    "question",
    [
        lambda store: store.add(5),
        lambda store: store.add([5]),
        lambda store: store.add("trials"),
        lambda store: store.get([]),
        lambda store: store.get("\ud800"),
        lambda store: store.has({}),
        lambda store: store.missing(5),
        lambda store: store.missing("x"),
        lambda store: store.select(seed=10**30),
        lambda store: store.select(seed=[1]),
        lambda store: store.select(dataset="\ud800"),
        lambda store: store.claim(5),
        lambda store: store.claim(["key"]),
        lambda store: store.claim([5]),
        lambda store: store.claim([KEY]) and store.release(["key"]),
        lambda store: store.merge(5),
        lambda store: store.merge("\0"),
        lambda store: store.merge("."),
    ],
)
def test_odd_questions(path: Path, question: Callable[[Store], object]) -> None:
    with Store(path) as store:
        with pytest.raises(ArmagnnError):
            question(store)
        assert store.select() == TRIALS


@pytest.mark.parametrize("odd", [None, 5, b"x", "a\0b", []], ids=str)
def test_odd_paths(odd: Any) -> None:
    with pytest.raises(ArmagnnError):
        Store(odd)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_pipe_is_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RunError, match="no file"):
        Store(tmp_path / "pipe")
