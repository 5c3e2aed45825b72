"""Many trials: real kills, shared stores, dead workers; the table is always the same."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toy_trials
from armagnn.errors import ParameterError, RunError, UnknownNameError
from armagnn.training.engine import Observer, execute
from armagnn.training.pools import _serve
from armagnn.training.record import Record, to_csv
from armagnn.training.results_store import Store
from toy_trials import ToyJob, all_jobs, exit_code, fork, lazy, liar, work

SCRIPT = toy_trials.__file__
TOTAL = 24
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks of POSIX")


class Told(Observer):
    def __init__(self) -> None:
        self.total = 0
        self.trials: list[tuple[str, int, bool]] = []
        self.deaths: list[str] = []
        self.batches: list[int] = []

    def start(self, total: int) -> None:
        self.total = total

    def trial(self, record: Record, *, new: bool) -> None:
        self.trials.append((record.method, record.seed, new))

    def batch(self) -> None:
        self.batches.append(len(self.trials))

    def lost(self, reason: str) -> None:
        self.deaths.append(reason)


def table(store: Path) -> bytes:
    path = store.with_suffix(".csv")
    with Store(store, must_exist=True) as opened:
        path.write_bytes(to_csv(opened.select()))
    return path.read_bytes()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "store.sqlite"
    with Store(path) as store:
        assert execute(all_jobs(), work, store) == TOTAL
    return table(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


def kept(path: Path) -> int:
    if not path.exists():
        return 0
    with Store(path) as store:
        return len(store)


def test_a_second_call_does_nothing(path: Path) -> None:
    def never(job: Any) -> Any:
        pytest.fail("a trial was begun")

    told = Told()
    with Store(path) as store:
        execute(all_jobs(), work, store)
        assert execute(all_jobs(), never, store, observer=told) == 0
        assert execute([], never, store) == 0
    assert told.total == len(told.trials) == TOTAL
    assert not any(new for _, _, new in told.trials)


def test_only_the_missing_trials_are_asked_for(path: Path, tmp_path: Path, whole: bytes) -> None:
    log, told = tmp_path / "log", Told()
    with Store(path) as store:
        store.add([toy_trials.record(all_jobs()[0], seed) for seed in (1, 2)])
        assert execute(all_jobs(log=str(log)), work, store, observer=told) == TOTAL - 2
    done = log.read_text().splitlines()
    assert len(done) == TOTAL - 2
    assert not {"arma 1", "arma 2"} & set(done)
    assert Counter(new for _, _, new in told.trials) == {True: TOTAL - 2, False: 2}
    assert len(told.batches) == len(all_jobs())
    assert told.batches[-1] == TOTAL
    assert table(path) == whole


def test_trials_of_a_job_that_fails_later_are_kept(path: Path) -> None:
    with Store(path) as store:
        with pytest.raises(ParameterError, match="diverged"):
            execute([ToyJob("arma", (0, 1)), ToyJob("gcn", (0,), fail=True)], work, store)
        assert len(store) == 2


class OnGPU(ToyJob):
    gpus = 1


def test_jobs_on_a_gpu_take_turns_in_this_process(path: Path, whole: bytes) -> None:
    turns: list[str] = []

    def in_turns(job: ToyJob) -> Iterator[Record | None]:  # no function of a module: another process could not have it
        for record in work(job):
            turns.append(job.method)
            yield None
            yield record

    jobs = [OnGPU(**vars(job)) for job in all_jobs()]
    with Store(path) as store:
        assert execute(jobs, in_turns, store, workers=2) == TOTAL
    assert table(path) == whole
    first = [turns.index(job.method) for job in jobs[:3]]
    last = [len(turns) - 1 - turns[::-1].index(job.method) for job in jobs[:3]]
    assert first[1] < last[0] < first[2]  # two at a time, and not three


def test_a_job_that_fails_at_its_turn_is_told_and_the_others_let_go(path: Path) -> None:
    let_go = []

    def in_turns(job: ToyJob) -> Iterator[Record | None]:
        try:
            while job.method == "arma":
                yield None
            raise ParameterError("diverged")
        finally:
            let_go.append(job.method)

    with Store(path) as store, pytest.raises(ParameterError, match="diverged"):
        execute([OnGPU("arma", (0,)), OnGPU("gcn", (0,))], in_turns, store, workers=2)
    assert let_go == ["gcn", "arma"]


@pytest.mark.parametrize(("function", "said"), [(liar, "do not announce"), (lazy, "without 1 of its 2")])
def test_jobs_that_do_not_keep_their_word(path: Path, function: Any, said: str) -> None:
    with Store(path) as store, pytest.raises(RunError, match=said):
        execute([ToyJob("arma", (0, 1))], function, store)


def test_bad_options(path: Path) -> None:
    with Store(path) as store:
        with pytest.raises(ParameterError, match="workers"):
            execute(all_jobs(), work, store, workers=0)
        with pytest.raises(UnknownNameError, match="local"):
            execute(all_jobs(), work, store, engine="locl")
        with pytest.raises(ParameterError, match="same trial"):
            execute([ToyJob("arma", (0, 1)), ToyJob("arma", (1, 2))], work, store)
        assert len(store) == 0


# --------------------------------------------------------------------------------------------------------- processes


@posix
def test_workers_that_die_lose_nothing(path: Path, tmp_path: Path, whole: bytes) -> None:
    told, trap, log = Told(), tmp_path / "trap", tmp_path / "log"
    trap.touch()
    with Store(path) as store:
        assert execute(all_jobs(die=str(trap), log=str(log)), work, store, workers=2, observer=told) == TOTAL
    assert told.deaths == ["exit code -9"]
    assert len(log.read_text().splitlines()) == TOTAL  # the trials that the dead worker had finished are not done again
    assert table(path) == whole


@posix
def test_a_job_that_kills_its_workers_is_given_up(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("armagnn.training.engine.ATTEMPTS", 2)  # each one costs the start of a process
    told = Told()
    with Store(path) as store:
        jobs = [ToyJob("arma", tuple(range(9)), die_always=True), ToyJob("gcn", (0,), delay=100)]
        with pytest.raises(RunError, match=r"died 2 times \(exit code -9\)"):
            execute(jobs, work, store, workers=2, observer=told)
        assert told.deaths == ["exit code -9"]
        assert len(store) == 2  # even so, each of them kept a trial


class Unportable(Exception):
    def __init__(self, one: int, two: int) -> None:  # cannot be made again from its text
        super().__init__("odd")


def odd(job: ToyJob) -> Any:
    raise Unportable(1, 2)


@pytest.mark.parametrize(("function", "kind"), [(work, ParameterError), (odd, RunError)])
def test_errors_travel_to_the_parent(function: Any, kind: type[Exception]) -> None:
    here, there = multiprocessing.Pipe()
    here.send(ToyJob("arma", (0,)))
    here.send(ToyJob("arma", (1,), fail=True))
    _serve(function, there)
    while (what := here.recv()) is None or isinstance(what, Record):
        pass
    assert type(what) is kind
    assert "_trials.py" in str(what) + "".join(getattr(what, "__notes__", [])) or "odd" in str(what)


@posix
def test_killed_again_and_again_the_table_is_the_same(path: Path, tmp_path: Path, whole: bytes) -> None:
    log = tmp_path / "log"

    def run() -> None:
        with Store(path) as store:
            execute(all_jobs(delay=0.02, log=str(log)), work, store)

    codes: list[int] = []
    while 0 not in codes:
        child, before = fork(run), kept(path)
        time.sleep(random.uniform(0.0, 0.25))
        os.kill(child, signal.SIGKILL)
        codes.append(exit_code(child))
        assert kept(path) >= before
    assert codes.count(-9) > 1
    assert table(path) == whole
    # The log is written after the trial is kept: a line means that it was, and then it is never done again.
    assert max(Counter(log.read_text().splitlines()).values()) == 1


@posix
def test_two_processes_share_the_work(path: Path, tmp_path: Path, whole: bytes) -> None:
    log = tmp_path / "log"

    def run() -> None:
        with Store(path) as store:
            execute(all_jobs(delay=0.02, log=str(log)), work, store)

    both = [fork(run), fork(run)]
    assert [exit_code(child) for child in both] == [0, 0]
    assert table(path) == whole
    assert max(Counter(log.read_text().splitlines()).values()) == 1  # nothing is done twice


def start(path: Path, workers: int, log: Path) -> subprocess.Popen[str]:
    command = [sys.executable, SCRIPT, str(path), str(workers), str(log)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


@posix
def test_a_killed_parent_takes_its_workers_along(path: Path, tmp_path: Path, whole: bytes) -> None:
    log = tmp_path / "log"
    process = start(path, 2, log)
    try:
        deadline = time.monotonic() + 100
        while not log.exists() or len(log.read_text().splitlines()) < 5:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)  # it alone: its workers must find out
        assert process.wait(10) == -9
        lines, still = log.read_text(), 0
        while still < 20:  # on a busy machine a worker may be late, but not for ever: it would do all that is left
            time.sleep(0.05)
            lines, before = log.read_text(), lines
            still = still + 1 if lines == before else 0
    finally:
        process.kill()
        process.communicate()
    kept_trials = kept(path)
    assert 3 <= kept_trials < TOTAL
    with Store(path) as store:
        assert execute(all_jobs(), work, store) == TOTAL - kept_trials
    assert table(path) == whole


def test_workers_that_cannot_be_ended_do_not_keep_the_rest_waiting() -> None:
    from armagnn.training.pools import _end, _Worker

    asked: list[Any] = []

    class Stuck:
        exitcode = None

        def join(self, timeout: float | None = None) -> None:
            assert timeout is not None, "waits for ever"
            asked.append(timeout)

        def kill(self) -> None:
            asked.append("killed")

    _end(_Worker(Stuck(), multiprocessing.Pipe()[0]))
    assert asked[1] == "killed"
    assert len(asked) == 3


@posix
def test_what_is_kept_when_ctrl_c_comes_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add, told = Store.add, Told()

    def interrupted(self: Store, records: Any) -> int:
        found = add(self, records)
        os.kill(os.getpid(), signal.SIGINT)  # kept, and not yet told
        return found

    monkeypatch.setattr(Store, "add", interrupted)
    with Store(path) as store, pytest.raises(KeyboardInterrupt):
        execute(all_jobs(), work, store, observer=told)
    assert kept(path) == len(told.trials) == 1
