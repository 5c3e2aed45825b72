"""Jobs on a Ray cluster (the extra ``armagnn[ray]``)."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from armagnn.errors import ParameterError
from armagnn.training.record import Record

if TYPE_CHECKING:
    from armagnn.training.pools import Event, Work

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
        from armagnn.training.pools import GLANCE, Lost

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
