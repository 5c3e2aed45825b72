"""A toy for the engine: jobs whose trials are a few sums, importable by worker processes, killable on request.

Also a script, ``python toy_trials.py STORE WORKERS``: what the tests kill.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from armagnn.errors import ParameterError
from armagnn.training.engine import execute
from armagnn.training.record import Record, trial_key
from armagnn.training.results_store import Store

TABLE = "node-classification"


@dataclass(frozen=True)
class ToyJob:
    """Trials of the seeds of one cell."""

    method: str
    seeds: tuple[int, ...]
    delay: float = 0.0
    die: str = ""  # path of a file that the first worker to find it removes, and is killed after a trial
    die_always: bool = False
    fail: bool = False
    log: str = ""  # path of a file that gets a line for each trial done

    @property
    def config(self) -> dict[str, object]:
        return {"method": self.method, "widths": [3, 4]}

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(trial_key(TABLE, self.config, seed, 0, "data") for seed in self.seeds)

    def only(self, keys: Collection[str]) -> Self:
        return replace(self, seeds=tuple(s for s, key in zip(self.seeds, self.keys, strict=True) if key in keys))


def record(job: ToyJob, seed: int) -> Record:
    value = int(hashlib.sha256(f"{job.method} {seed}".encode()).hexdigest()[:8], 16) / 2**32
    return Record(
        TABLE, "cora", job.method, "paper", run=seed, fold=0, seed=seed, config=job.config,
        metrics={"accuracy": 100 * value, "loss": value}, epochs=5, seconds=1.0, versions={"toy": "1"},
        data_sha256="data", device="toy",
    )  # fmt: skip


def work(job: ToyJob) -> Iterator[Record]:
    for seed in job.seeds:
        if job.fail:
            raise ParameterError("the toy diverged")
        time.sleep(job.delay)
        yield record(job, seed)
        if job.log:
            with open(job.log, "a") as file:
                file.write(f"{job.method} {seed}\n")
        if job.die_always or (job.die and remove(job.die)):
            time.sleep(0.1)  # Ray hands a record over from another thread
            os.kill(os.getpid(), signal.SIGKILL)


def remove(path: str) -> bool:
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    return True


def liar(job: ToyJob) -> Iterator[Record]:
    yield record(replace(job, method="other"), 0)


def lazy(job: ToyJob) -> Iterator[Record]:
    yield from work(replace(job, seeds=job.seeds[1:]))


def all_jobs(**options: object) -> list[ToyJob]:
    return [
        ToyJob(method, tuple(range(start, start + 4)), **options)  # type: ignore[arg-type]
        for method in ("arma", "gcn", "chebyshev")
        for start in (0, 4)
    ]


def fork(function: Callable[[], object]) -> int:
    """Run `function` in a copy of this process, and return its id: quicker than one that imports everything anew."""
    child = os.fork()
    if not child:
        try:
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return child


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    import toy_trials  # so that workers get its functions by that name, not by __main__'s

    with Store(sys.argv[1]) as main_store:
        jobs = toy_trials.all_jobs(delay=0.02, log=sys.argv[3] if len(sys.argv) > 3 else "")
        execute(jobs, toy_trials.work, main_store, workers=int(sys.argv[2]))
