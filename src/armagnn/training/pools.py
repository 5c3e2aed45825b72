"""What does jobs: this process (by turns, where they are on a GPU), processes of this machine, or a Ray cluster."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, Protocol

from armagnn.errors import ParameterError, RunError
from armagnn.training.record import Record

GLANCE = 0.2  # seconds between two looks at what other processes have finished

Work = Callable[[Any], Iterable[Record | None]]
"""Takes a job and yields its records; None between them is a good moment for another job of this process."""


@dataclass(frozen=True)
class Lost:
    """The worker of a job died."""

    reason: str


Event = tuple[int, Record | Lost | Exception | None]  # of the job with that number; None: it is done


class Pool(Protocol):
    """What does jobs."""

    def has_room(self) -> bool:
        """Can another job be given now?"""

    def submit(self, number: int, job: Any) -> None:
        """Begin a job."""

    def events(self) -> Iterator[Event]:
        """What has happened; waits for it, but not much longer than GLANCE."""

    def close(self) -> None:
        """End all that is at work."""


class ThisProcess:
    """Jobs here: one after the other or, if it may be more than one at a time, by turns.

    Turns are for a GPU. A job there queues work and lets go (``None``) before it is done, and what several jobs have
    queued, the GPU does side by side. Processes that share a GPU would have it one after the other.
    """

    def __init__(self, work: Work, most: int = 1) -> None:
        self._work, self._most = work, most
        self._jobs: dict[int, Iterator[Record | None]] = {}

    def has_room(self) -> bool:
        """May one more job be at work?"""
        return len(self._jobs) < self._most

    def submit(self, number: int, job: Any) -> None:
        """Begin the job at its first turn."""
        self._jobs[number] = iter(self._work(job))

    def events(self) -> Iterator[Event]:
        """Give every job one turn."""
        for number, records in list(self._jobs.items()):
            try:
                record = next(records)
            except StopIteration:
                del self._jobs[number]
                yield number, None
            else:
                if record is not None:
                    yield number, record

    def close(self) -> None:
        """Let go of all that is at work."""
        self._jobs.clear()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that start inside ignore Ctrl-C from birth: it reaches all of them, and the parent decides."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may, or is interrupted
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Any
    number: int | None = None  # of the job it is at work on


class Processes:
    """Jobs in processes of this machine.

    Each worker has a separate pipe: with a queue for all, one that is killed while it writes would leave the
    queue's lock taken for ever. A pipe also tells by itself when the other end is gone.
    """

    def __init__(self, work: Work, workers: int) -> None:
        self._work, self._most = work, workers
        self._workers: list[_Worker] = []

    def has_room(self) -> bool:
        """Is a worker idle, or may one more start?"""
        return len(self._workers) < self._most or any(worker.number is None for worker in self._workers)

    def submit(self, number: int, job: Any) -> None:
        """Give a job to an idle worker, or to a new one."""
        worker = next((worker for worker in self._workers if worker.number is None), None) or self._start()
        worker.number = number
        with suppress(OSError):  # it died while idle: events() finds out
            worker.pipe.send(job)

    def events(self) -> Iterator[Event]:
        """What the workers have sent, and whose pipe has ended."""
        for pipe in connection.wait([worker.pipe for worker in self._workers], GLANCE):
            worker = next(worker for worker in self._workers if worker.pipe is pipe)
            try:
                what = worker.pipe.recv()
            except (EOFError, OSError):  # also in the middle of a message
                self._workers.remove(worker)
                _end(worker)
                if worker.number is not None:
                    yield worker.number, Lost(f"exit code {worker.process.exitcode}")
                continue
            number = worker.number
            if number is None:
                continue
            if what is None:
                worker.number = None
            yield number, what

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            _end(worker)
        self._workers.clear()

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")  # forking a process that has threads (torch's, rich's) can hang
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(self._work, there), daemon=True)
        with _deaf_to_interrupts():
            process.start()
            self._workers.append(worker := _Worker(process, here))
        there.close()  # the worker has its own copy: when that is gone, the pipe has ended
        return worker


def _end(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.join(5)
    if worker.process.exitcode is None:
        worker.process.kill()
        worker.process.join(
            5
        )  # one that waits for a broken device cannot be ended; the error must be reported all the same


def _serve(work: Work, pipe: Any) -> None:
    """The life of a worker: jobs come through the pipe, records go back, None after the last of a job."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        while True:
            job = pipe.recv()
            try:
                for record in work(job):
                    if record is not None:
                        pipe.send(record)
            except Exception as error:
                pipe.send(_portable(error))
                return
            pipe.send(None)
    except (EOFError, OSError):  # the parent has closed the pipe, or is gone
        return


def _die_with_parent() -> None:
    # A parent that was killed cannot say so. What its workers find then nobody keeps, and they would be in the way
    # of those of the command given again.
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _portable(error: Exception) -> Exception:
    """The error itself if it can travel between processes, else its text."""
    try:
        pickle.loads(pickle.dumps(error))  # as the pipe will do it; nothing of this comes from a file
        error.add_note("".join(traceback.format_exception(error)))  # where in the worker it was raised
        return error
    except Exception:
        return RunError(f"A job failed: {''.join(traceback.format_exception(error))}")


# ------------------------------------------------------------------------------------- Ray (the extra ``armagnn[ray]``)

AHEAD = 2  # jobs in flight per core: some always wait, so that no core does and an autoscaling cluster grows


class RayPool:
    """Each job is a Ray task that streams its records back as they are finished.

    A cluster that is connected already is used and left as it is. Else ``ray.init()`` finds one (``RAY_ADDRESS``, or
    the one of this machine) or starts one for the time of the call. Ray's own retries are off: they would begin a
    job anew, while :func:`armagnn.training.engine.execute` gives the missing trials only.

    Example:
        >>> execute(jobs, work, store, engine="ray")  # doctest: +SKIP
    """

    def __init__(self, work: Work) -> None:
        try:
            self._ray = importlib.import_module("ray")
        except ImportError as error:
            raise ParameterError(
                "engine is 'ray', but Ray is not installed. Install it with: pip install 'armagnn[ray]'"
            ) from error
        self._own = not self._ray.is_initialized()
        if self._own:
            self._ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        self._work = work
        self._task = self._ray.remote(max_retries=0, num_returns="streaming")(_perform)
        self._streams: dict[Any, int] = {}  # of the jobs in flight, with their numbers

    def has_room(self) -> bool:
        """Are fewer jobs in flight than the cluster has use for?"""
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return len(self._streams) < AHEAD * max(cores, 1)

    def submit(self, number: int, job: Any) -> None:
        """Send the job to the cluster."""
        stream = self._task.options(num_gpus=getattr(job, "gpus", 0)).remote(self._work, job)
        self._streams[stream] = number

    def events(self) -> Iterator[Event]:
        """What has come from the cluster."""
        exceptions = self._ray.exceptions
        ready, _ = self._ray.wait(list(self._streams), timeout=GLANCE)
        for stream in ready:
            number = self._streams[stream]
            what: Record | Lost | Exception | None
            try:
                what = self._ray.get(next(stream))
            except StopIteration:
                what = None
            except exceptions.RayTaskError as error:  # the job itself failed
                what = error.cause if isinstance(error.cause, Exception) else error
            except exceptions.RayError as error:  # its worker or node did
                what = Lost(f"{type(error).__name__}")
            if not isinstance(what, Record):
                del self._streams[stream]
            yield number, what

    def close(self) -> None:
        """Cancel what is in flight, and stop Ray if it was started here."""
        for stream in self._streams:
            self._ray.cancel(stream, force=True)
        self._streams.clear()
        if self._own:
            self._ray.shutdown()


def _perform(work: Work, job: Any) -> Iterator[Record]:
    yield from (record for record in work(job) if record is not None)
