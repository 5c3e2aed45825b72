"""Freed memory is kept, which shows in the page faults of a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from armagnn.training import malloc as memory

FAULTS = """
import contextlib, ctypes, resource, sys
from pathlib import Path
from armagnn.training.malloc import keep_freed_memory

malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20

def turn(living):
    blocks = []  # larger than what glibc would ever leave to its threshold, 32 MiB
    for _ in range(4):
        blocks.append(malloc(40 << 20))
        living.append(malloc(1000))  # so the end of the heap is never free
    for block in blocks:
        ctypes.memset(block, 1, 40 << 20)
    for block in blocks:
        free(block)

start, living = resident(), []
with keep_freed_memory() if sys.argv[1] == "keep" else contextlib.nullcontext(False) as kept:
    with keep_freed_memory() if kept else contextlib.nullcontext():  # another training, which ends before
        turn(living)
    turn(living)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        turn([])
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(kept, faults, resident() - start)
"""


def faults(way: str, **variables: str) -> tuple[bool, int, int]:
    own = [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-c", FAULTS, way]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment | variables)
    kept, count, held = done.stdout.split()
    return kept == "True", int(count), int(held)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="not glibc")
def test_pages_are_taken_once_and_given_back_in_the_end() -> None:
    kept, few, held = faults("keep")
    _, many, _ = faults("leave")
    assert kept
    assert few < 1000 < many
    assert held < 40  # MiB, where 160 were taken
    assert not faults("keep", MALLOC_ARENA_MAX="2")[0]  # the user's own settings stay


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    for name in [name for name in os.environ if name.startswith("MALLOC_") or name == "GLIBC_TUNABLES"]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("ctypes.CDLL", missing)
    memory._glibc.cache_clear()
    with memory.keep_freed_memory() as kept:
        assert not kept
    memory._glibc.cache_clear()
