"""The run store: what is kept, found again, merged and exported, and which files are refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from armagnn.errors import ParameterError, RunError, UnknownNameError
from armagnn.training.results_store import Store
from finished_trials import finished
from toy_trials import exit_code, fork


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "store.sqlite"


def test_what_is_added_is_found_by_another_connection(path: Path) -> None:
    trials = [finished(seed) for seed in range(3)]
    with Store(path) as store, Store(path) as other:
        assert store.add(trials) == 3
        assert other.select() == trials
        assert other.get(trials[1].key) == trials[1]
        assert other.has(trials[1].key)
        assert other.get("0" * 64) is None
        assert not other.has("0" * 64)
        assert other.missing([trials[2].key, "x"]) == ["x"]
        assert len(other) == 3


def test_the_first_of_double_trials_stays(path: Path) -> None:
    with Store(path) as store:
        assert store.add([finished(0), finished(0), finished(1)]) == 2
        assert store.add([finished(0, metrics={"accuracy": 1.0}, seconds=9.0)]) == 0
        assert store.get(finished(0).key) == finished(0)


def test_all_or_none_are_added(path: Path) -> None:
    def broken() -> Any:
        yield finished(0)
        raise KeyboardInterrupt

    with Store(path) as store:
        with pytest.raises(KeyboardInterrupt):
            store.add(broken())
        assert len(store) == 0
        assert store.add([finished(0)]) == 1


def test_two_cells_with_one_configuration_are_not_silently_one(path: Path) -> None:
    with Store(path) as store:
        store.add([finished()])
        with pytest.raises(RunError, match="tell them apart"):
            store.add([finished(protocol="tuned")])


def test_numbers_of_numpy_become_those_of_python(path: Path) -> None:
    trial = finished(seed=np.int64(3), run=np.int64(3), metrics={"accuracy": np.float32(0.5)}, seconds=np.float64(1))
    assert type(trial.seed) is int
    with Store(path) as store:
        store.add([trial])
        assert store.select(seed=3) == [trial]


def test_values_come_back_bit_by_bit(path: Path) -> None:
    trial = finished(metrics={"a": 0.1 + 0.2, "b": -0.0, "c": 5e-324, "d": 1.7976931348623157e308}, seconds=1 / 3)
    with Store(path) as store:
        store.add([trial])
        found = store.select()[0]
    assert {k: v.hex() for k, v in found.metrics.items()} == {k: v.hex() for k, v in trial.metrics.items()}
    assert found.seconds == 1 / 3


def test_select(path: Path) -> None:
    trials = [finished(seed, method) for method in ("arma", "gcn") for seed in (1, 0)]
    with Store(path) as store:
        store.add(trials)
        assert [t.seed for t in store.select(method="gcn")] == [0, 1]
        assert store.select(method="gcn", run=1) == [trials[2]]
        assert store.select(dataset="pubmed") == []
        with pytest.raises(UnknownNameError, match="method"):
            store.select(methd="gcn")
        with pytest.raises(UnknownNameError):
            store.select(config="")


# ------------------------------------------------------------------------------------------------------------- merge


def test_merge_recognises_doubles(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as a, Store(tmp_path / "b") as b:
        a.add([finished(0), finished(1)])
        b.add([finished(1), finished(2), finished(0, metrics={"accuracy": 1.0})])
        assert a.merge(tmp_path / "b") == (1, 2, 1)
        assert a.select() == [finished(0), finished(1), finished(2)]
        assert a.merge(tmp_path / "b") == (0, 3, 1)
        assert len(b) == 3


def test_merge_refuses_what_is_not_there_and_itself(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as store:
        with pytest.raises(RunError, match="no such store"):
            store.merge(tmp_path / "b")
        assert not (tmp_path / "b").exists()
        with pytest.raises(ParameterError, match="merge into"):
            store.merge(tmp_path / "a")


def test_the_main_file_alone_is_whole_while_the_store_is_open(tmp_path: Path) -> None:
    with Store(tmp_path / "a") as store:
        store.add([finished(0)])
        store.add([finished(1)])
        shutil.copy(tmp_path / "a", tmp_path / "copy")
        with Store(tmp_path / "copy") as copy:
            assert len(copy) == 2


# ----------------------------------------------------------------------------------------------------------- refusal


def refused(path: Path) -> str:
    before = path.read_bytes()
    with pytest.raises(RunError) as caught:
        Store(path)
    assert path.read_bytes() == before  # foreign files are left alone
    return str(caught.value)


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("no database at all, but long enough to have the header of one, if it were one " * 10)
    assert "not a database" in refused(path)
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    assert "no store of armagnn" in refused(path)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(RunError):
        Store(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be made"):
        Store(tmp_path / "file" / "store.sqlite")


def test_another_version(path: Path) -> None:
    Store(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(RunError, match="version 99"):
        Store(path)


def test_a_truncated_store(path: Path) -> None:
    with Store(path) as store:
        store.add([finished(seed) for seed in range(200)])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError):
        Store(path)


def test_no_damaged_byte_passes_unseen(path: Path) -> None:
    with Store(path) as store:
        store.add([finished(seed) for seed in range(5)])
        trials = store.select()
    content = path.read_bytes()
    start = content.index(b'{"accuracy"')
    for position in [*range(0, 120, 7), *range(start - 60, start + 90, 3)]:
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        try:
            with Store(path) as store:
                assert store.select() == trials  # a byte that means nothing, such as a counter of changes
        except RunError:
            continue


@pytest.mark.parametrize(
    ("column", "value"),
    [("metrics", json.dumps({"accuracy": 99.0})), ("metrics", "{"), ("config", "[]"), ("seed", 8), ("device", "gpu")],
)
def test_a_changed_value_is_found(path: Path, column: str, value: object) -> None:
    with Store(path) as store:
        store.add([finished()])
    with sqlite3.connect(path) as raw:
        raw.execute(f"UPDATE trials SET {column} = ?", (value,))
    raw.close()
    with Store(path) as store, pytest.raises(RunError, match="corrupt"):
        store.select()


def test_an_empty_file_becomes_a_store_unless_trials_must_be_there(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with pytest.raises(RunError, match="is empty"):
        Store(path, must_exist=True)
    with Store(path) as store:
        assert store.add([finished()]) == 1


# ---------------------------------------------------------------------------------------------------- many processes

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks and locks of POSIX")


@posix
def test_processes_share_a_store_from_its_first_moment(path: Path) -> None:
    def write() -> None:
        with Store(path) as store:
            for seed in range(25):
                store.add([finished(seed)])

    writers = [fork(write) for _ in range(4)]
    assert [exit_code(writer) for writer in writers] == [0] * 4
    with Store(path) as store:
        assert store.select() == [finished(seed) for seed in range(25)]


@posix
def test_a_claim_ends_with_its_process(path: Path) -> None:
    reader, writer = os.pipe()

    def claim() -> None:
        store = Store(path)
        os.write(writer, b"%d" % store.claim(["ab" * 32, "cd" * 32]))
        time.sleep(100)

    child = fork(claim)
    try:
        assert os.read(reader, 1) == b"1"
        with Store(path) as store:
            assert not store.claim(["ef" * 32, "cd" * 32])
            assert store.claim(["ef" * 32])
            os.kill(child, signal.SIGKILL)
            assert exit_code(child) == -9
            child = 0
            assert store.claim(["ef" * 32, "cd" * 32])
            assert store.claim(["cd" * 32])  # again, by the same process
            store.release(["cd" * 32])
    finally:
        os.close(reader)
        os.close(writer)
        if child:
            os.kill(child, signal.SIGKILL)
            exit_code(child)
