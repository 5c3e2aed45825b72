"""A write that is cut off: `os.replace`, with which every file is put in place, stops the program at a chosen call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def broken_write(write: int, after: bool) -> Iterator[pytest.MonkeyPatch]:
    """Raise KeyboardInterrupt at call `write` (from 0) of `os.replace`: before the file is moved, or after it."""
    count, real = 0, os.replace

    def replace_or_die(source: Any, target: Any) -> None:
        nonlocal count
        count += 1
        if count == write + 1:
            if after:
                real(source, target)
            raise KeyboardInterrupt
        real(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", replace_or_die)
        yield patch
