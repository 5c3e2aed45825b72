"""A training step as one CUDA graph, which makes steps on small graphs cheap on a GPU.

`capture` records a function once; `Recorder` records the pieces of work that a training repeats.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator
from functools import cache, partial
from typing import Any, Final, TypeVar

import torch

Item = TypeVar("Item")

EAGER: Final = 3
"""Times that a piece of work is done, and compiles its kernels, before it is recorded; once where it has been for other
arguments."""


@cache
def _stream_beside(device: int) -> torch.cuda.Stream:
    # one for all: cuBLAS keeps a workspace of 32 MiB for every stream it has seen
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _side_stream() -> torch.cuda.Stream:
    """Return the stream to record on: the current one, unless it is the default one, which cannot be recorded.

    What is recorded uses the workspace that cuBLAS keeps for the stream it was recorded on, so work that is replayed at
    the same time must have been recorded on different streams.
    """
    current = torch.cuda.current_stream()
    return current if current != torch.cuda.default_stream() else _stream_beside(torch.cuda.current_device())


def capture(step: Callable[[], object], warmup: int = 3, pool: Any = None) -> Callable[[], None]:
    """Record ``step`` and return a function that runs it again in one launch.

    A step on a small graph is a hundred launches of a few microseconds each, and the processor that sends them is the
    slower side. Recorded, they are one. The step must do the same work on the same tensors every time: zero gradients
    in place (``zero_grad(set_to_none=False)``), no ``.item()``, an optimiser made with ``capturable=True``. Dropout
    masks are drawn anew at every run: their seed comes from torch's generator, which a graph advances. Recordings that
    never run at the same time, and keep nothing for one another, may share the memory of one ``pool``
    (``torch.cuda.graph_pool_handle()``).

    Example:
        >>> replay = capture(lambda: train_one_epoch())  # doctest: +SKIP
        >>> replay()  # doctest: +SKIP
    """
    side = _side_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # compiles kernels and fills the allocator's pool, which recording cannot
        for _ in range(warmup):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        with torch.cuda.graph(graph, pool=pool, stream=side):
            step()
    finally:  # torch stays on the side stream if recording fails
        torch.cuda.set_stream(before)
    return graph.replay


def on_own_stream(items: Iterator[Item], device: torch.device) -> Iterator[Item]:
    """Yield the items; the GPU work that makes them goes to a separate stream.

    The GPU does the work of iterators that take turns at the same time.

    Example:
        >>> list(on_own_stream(records, torch.device("cuda")))  # doctest: +SKIP
    """
    stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    torch.cuda.synchronize(device)  # what others have made for these items is there
    while True:
        with torch.cuda.stream(stream):  # whoever has the items has his own stream again
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


def make_current(device: torch.device) -> None:
    """Launch, and record, kernels on this device from now on; "cuda" without a number is the current one already."""
    if device.type == "cuda" and device.index is not None:  # torch refuses one without a number
        torch.cuda.set_device(device)


class Recorder:
    """Does a piece of work; on a GPU, after a few times, as one launch of what was recorded of it.

    A recording serves the arguments that it was made with: the sizes of what is worked on, as a rule.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._left: dict[tuple[Hashable, ...], int] = {}  # times to be done before it is recorded
        self._replays: dict[tuple[Hashable, ...], Callable[[], None] | None] = {}
        self._pool: Any = None  # one for all recordings, none of which is at work while another is

    def do(self, work: Callable[..., None], *given: Hashable) -> None:
        """Do it."""
        key = (work, *given)
        if key not in self._replays and self.device.type == "cuda":
            left = self._left.get(key)
            if left is None:
                left = 1 if any(other[0] == work for other in self._replays) else EAGER
            self._left[key] = left - 1
            if left == 0:
                self._replays[key] = self._recorded(partial(work, *given))
        replay = self._replays.get(key)
        if replay is not None:
            replay()
        else:
            work(*given)

    def _recorded(self, work: Callable[[], None]) -> Callable[[], None] | None:
        """Return the work as one launch, or None if it waits for the processor in between."""
        try:
            if self._pool is None:
                self._pool = torch.cuda.graph_pool_handle()
            return capture(work, warmup=0, pool=self._pool)
        except RuntimeError as error:
            torch.cuda.synchronize(self.device)
            self._pool = None  # a recording that has failed still holds it
            reason = str(error).partition("\n")[0]
            warnings.warn(f"training is not recorded, and slower, because {reason}", RuntimeWarning, stacklevel=2)
            return None
