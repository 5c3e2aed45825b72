"""Work that is done again and again on a GPU, recorded after a few times and replayed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final

import torch

from armagnn.training.capture import capture

EAGER: Final = 3
"""Times that a piece of work is done, and compiles its kernels, before it is recorded."""


class Recorder:
    """Does a piece of work; on a GPU, after a few times, as one launch of what was recorded of it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._done: dict[Callable[[], None], int] = {}
        self._replays: dict[Callable[[], None], Callable[[], None] | None] = {}

    def do(self, work: Callable[[], None]) -> None:
        """Do it."""
        count = self._done[work] = self._done.get(work, 0) + 1
        if self.device.type == "cuda" and count == EAGER + 1:
            self._replays[work] = self._recorded(work)
        (self._replays.get(work) or work)()

    def forget(self) -> None:
        """Record anew what is done next."""
        self._done.clear()
        self._replays.clear()

    def _recorded(self, work: Callable[[], None]) -> Callable[[], None] | None:
        """Return the work as one launch, or None if it waits for the processor in between."""
        try:
            return capture(work, warmup=0)
        except RuntimeError as error:
            torch.cuda.synchronize(self.device)
            reason = str(error).partition("\n")[0]
            warnings.warn(f"training is not recorded, and slower, because {reason}", RuntimeWarning, stacklevel=2)
            return None
