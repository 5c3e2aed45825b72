"""Work that is done again and again on a GPU, recorded after a few times and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final

import torch

from armagnn.training.capture import capture

EAGER: Final = 3
"""Times that a piece of work is done, and compiles its kernels, before it is recorded; once where it has been for other
arguments."""


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
