"""The number of threads of torch during a training on a processor."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from armagnn import processors

_lock = threading.Lock()
_trainings = 0
_before = 1


@contextmanager
def fitting_threads(small: bool) -> Iterator[int]:
    """Give torch a number of threads that fits a training, until the last training ends; see `processors.threads_for`.

    Example:
        >>> with fitting_threads(True) as count:
        ...     count == torch.get_num_threads()
        True
    """
    global _trainings, _before
    with _lock:
        if not _trainings:
            _before = torch.get_num_threads()
        _trainings += 1
        # of several trainings at a time, whichever wants more threads gets them
        count = processors.threads_for(small, _before, os.environ, processors.allowed(), processors.quota())
        if _trainings == 1 or count > torch.get_num_threads():
            _set(count)
    try:
        yield torch.get_num_threads()
    finally:
        with _lock:
            _trainings -= 1
            if not _trainings:
                _set(_before)


def _set(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)
