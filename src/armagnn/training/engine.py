"""Many trials: those that are missing from the store are done, and kept one by one as they are finished.

This process alone writes to the store; workers (processes of this machine, or Ray's on a cluster) only compute. So
whatever dies, whenever, what was finished stays, and the same call again does the rest.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, Self

from armagnn.errors import ParameterError, RunError, UnknownNameError
from armagnn.training.pools import GLANCE, Lost, Pool, Processes, RayPool, ThisProcess, Work
from armagnn.training.record import Record
from armagnn.training.results_store import Store
from armagnn.training.trainer import Observer, keep, report_kept

ATTEMPTS = 3  # of a job whose workers die


class TrialJob(Protocol):
    """A batch of trials that are done together: a frozen dataclass that can be pickled.

    A job may also have ``gpus``, the number that it needs: 0 if it has none. One that needs any is done in this process
    (or by a worker of a Ray cluster that has them), and lets others take turns where it yields None.
    """

    @property
    def keys(self) -> Sequence[str]:
        """The keys of the records it gives, known beforehand (:func:`armagnn.training.record.trial_key`)."""

    def only(self, keys: Collection[str]) -> Self:
        """The same job with these trials only."""


def execute(
    jobs: Sequence[TrialJob],
    work: Work,
    store: Store,
    workers: int = 1,
    engine: str = "local",
    observer: Observer | None = None,
) -> int:
    """Do the trials of `jobs` that are not in `store`, keep each as soon as it is finished, return how many were new.

    `work` takes a job and yields its records (see `Work`). It must be a function of a module (other processes import
    it), and a script that asks for more than one worker needs ``if __name__ == "__main__":``. Jobs that are done are
    skipped, of jobs that are half done the rest is asked for (``job.only(...)``), and jobs that another process is at
    work on are waited for. A job whose worker process dies is given to another one, twice at most.

    Args:
        jobs: what there is to do.
        work: how it is done.
        store: where finished trials are kept.
        workers: jobs at a time, each in a separate process. One worker works in this process, and so do jobs on a
            GPU, which take turns. On a Ray cluster its size decides.
        engine: "local", or "ray" for the Ray cluster of this machine, or that of ``RAY_ADDRESS``.
        observer: sees what happens.

    Example:
        >>> execute(jobs, work, Store("runs/store.sqlite"), workers=4)  # doctest: +SKIP
    """
    if workers < 1:
        raise ParameterError(f"workers is {workers}; at least 1 must work.")
    double = [key for key, count in Counter(key for job in jobs for key in job.keys).items() if count > 1]
    if double:
        raise ParameterError(
            f"Two jobs, or one twice, have the same trial ({double[0]}): it would be one row, not two."
        )
    observer = observer or Observer()
    observer.start(sum(len(job.keys) for job in jobs))
    jobs = _keep_missing(jobs, store, observer)
    if not jobs:
        return 0
    pool = _make_pool(engine, min(workers, len(jobs)), work, gpus=any(getattr(job, "gpus", 0) for job in jobs))
    try:
        return _Execution(jobs, store, pool, observer).finish()
    finally:  # also after Ctrl-C
        pool.close()
        store.release(key for job in jobs for key in job.keys)


def _make_pool(engine: str, workers: int, work: Work, *, gpus: bool) -> Pool:
    if engine == "ray":
        return RayPool(work)
    if engine != "local":
        raise UnknownNameError("engine", engine, ("local", "ray"))
    return Processes(work, workers) if workers > 1 and not gpus else ThisProcess(work, workers)


def _keep_missing(jobs: Iterable[TrialJob], store: Store, observer: Observer) -> list[TrialJob]:
    """What is left to do of `jobs`; trials that the store has are reported."""
    left: list[TrialJob] = []
    for job in jobs:
        missing = report_kept(job.keys, store, observer)
        if missing:
            left.append(job if len(missing) == len(job.keys) else job.only(missing))
    return left


class _Execution:
    """One call of :func:`execute`: which jobs wait, which are at work, how often their workers died."""

    def __init__(self, jobs: Sequence[TrialJob], store: Store, pool: Pool, observer: Observer) -> None:
        self._store, self._pool, self._observer = store, pool, observer
        self._jobs = dict(enumerate(jobs))
        self._waiting = deque(self._jobs)
        self._working: set[int] = set()
        self._deaths: Counter[int] = Counter()
        self._new = 0

    def finish(self) -> int:
        while self._waiting or self._working:
            self._submit()
            if not self._working:  # others are at work on all that is left
                time.sleep(GLANCE)
                continue
            for number, what in self._pool.events():
                self._note(number, what)
        return self._new

    def _submit(self) -> None:
        """Give jobs to the pool, those that nobody else is at work on first."""
        for _ in range(len(self._waiting)):
            if not self._pool.has_room():
                return
            number = self._waiting.popleft()
            job = self._jobs[number]
            if not self._store.claim(job.keys):
                self._waiting.append(number)
                continue
            left = _keep_missing([job], self._store, self._observer)  # another process may have done it meanwhile
            if left:
                self._jobs[number] = left[0]
                self._working.add(number)
                self._pool.submit(number, left[0])

    def _note(self, number: int, what: Record | Lost | Exception | None) -> None:
        job = self._jobs[number]
        if isinstance(what, Record):
            if what.key not in job.keys:
                raise RunError(
                    f"A job gave a trial of {what.cell} (seed {what.seed}) that its keys do not announce: "
                    "table, config, seed, fold and data_sha256 must be those of its key."
                )
            self._new += keep(what, self._store, self._observer)
        elif isinstance(what, Exception):
            raise what
        elif isinstance(what, Lost):
            self._lost(number, what)
        else:
            missing = self._store.missing(job.keys)
            if missing:
                raise RunError(f"A job ended without {len(missing)} of its {len(job.keys)} trials ({missing[0]}).")
            self._store.release(job.keys)
            self._working.remove(number)
            self._observer.batch()

    def _lost(self, number: int, lost: Lost) -> None:
        self._deaths[number] += 1
        if self._deaths[number] == ATTEMPTS:
            raise RunError(
                f"A job was given up: its workers died {ATTEMPTS} times ({lost.reason}). Finished trials are kept: "
                "give the command again to continue, with fewer workers if memory ran out."
            )
        self._observer.lost(lost.reason)
        missing = self._store.missing(self._jobs[number].keys)
        self._working.remove(number)
        if missing:
            self._jobs[number] = self._jobs[number].only(missing)
            self._waiting.appendleft(number)  # still claimed by this process
