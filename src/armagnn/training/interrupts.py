"""Ctrl-C, put off until it does no harm."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts(told: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Put Ctrl-C off inside: the yielded function says whether it came. A second one comes through at once.

    Within an epoch half of the weights may have made their step, and such a state is no good to go on from.
    """
    came = False

    def remember(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True
        told()

    # Elsewhere than in the main thread there are no signals; and who has a handler of his own keeps it.
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: came
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
