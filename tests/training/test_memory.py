"""Freed memory is kept, which shows in the page faults of a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from armagnn.training.memory import keep_freed_memory

FAULTS = """
import ctypes, resource, sys
from armagnn.training.memory import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else False
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
before = 0  # the blocks are larger than what glibc would ever leave to its threshold, 32 MiB
for turn in range(12):
    if turn == 2:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [malloc(40 << 20) for _ in range(4)]
    for block in blocks:
        ctypes.memset(block, 1, 40 << 20)
    for block in blocks:
        free(block)
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(way: str, **variables: str) -> tuple[bool, int]:
    own = [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-c", FAULTS, way]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | variables)
    kept, count = done.stdout.split()
    return kept == "True", int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_pages_are_taken_once() -> None:
    kept, few = faults("keep")
    _, many = faults("leave")
    assert kept
    assert few < 1000 < many
    assert not faults("keep", MALLOC_ARENA_MAX="2")[0]  # the user's own settings stay


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    for name in [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("ctypes.CDLL", missing)
    keep_freed_memory.cache_clear()
    assert keep_freed_memory() is False
    keep_freed_memory.cache_clear()
