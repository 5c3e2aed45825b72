"""Threads that fit a training; and freed memory that is kept, as the page faults of a process of its own show."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import processors
from armagnn.data import NodeDataset
from armagnn.processors import fitting_threads
from armagnn.tasks import NodeNet, NodeTask
from armagnn.training import Setting, Trials


@pytest.fixture(autouse=True)
def _two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in processors.COUNTING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(processors, "allowed", lambda: 2)
    monkeypatch.setattr(processors, "quota", lambda: math.inf)
    torch.set_num_threads(2)


def test_a_small_training_has_one_thread_and_gives_the_others_back() -> None:
    with fitting_threads(True):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(ValueError, match="stop"), fitting_threads(True):
        raise ValueError("stop")
    assert torch.get_num_threads() == 2


def test_a_large_training_has_them_all_and_a_quota_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with fitting_threads(False):
        assert torch.get_num_threads() == 2
    monkeypatch.setattr(processors, "quota", lambda: 0.7)
    with fitting_threads(False):
        assert torch.get_num_threads() == 1


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(3)
    with fitting_threads(True):
        assert torch.get_num_threads() == 3
    torch.set_num_threads(2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with fitting_threads(True):
        assert torch.get_num_threads() == 2


def test_of_two_trainings_the_larger_one_is_served() -> None:
    with fitting_threads(True):
        with fitting_threads(False):
            assert torch.get_num_threads() == 2
        with fitting_threads(True):
            assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 2


def rounds(threads: processors.Threads, count: int, seconds: dict[int, float]) -> list[int]:
    """The numbers of threads in some rounds, each of which takes what its number says."""
    found = []
    for _ in range(count):
        found.append(torch.get_num_threads())
        threads.round(seconds[found[-1]], 1.0)
    return found


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the system sets this process aside in a round."""
    per_round, total = [1000], [0]

    def counted() -> int:
        total[0] += per_round[0]
        return total[0]

    monkeypatch.setattr(processors, "_set_aside", counted)
    return per_round


def test_a_busy_machine_gives_a_training_the_number_that_is_faster_there(aside: list[int]) -> None:
    with fitting_threads(False) as threads:
        assert rounds(threads, 7, {1: 1.0, 2: 3.0}) == [2, 2, 1, 2, 1, 2, 1]  # the first may compile
        assert rounds(threads, threads.HOLD, {1: 1.0, 2: 3.0}) == [1] * threads.HOLD
        assert rounds(threads, 6, {1: 3.0, 2: 1.0}) == [2, 1, 2, 1, 2, 1]
        assert rounds(threads, threads.HOLD, {1: 3.0, 2: 1.0}) == [2] * threads.HOLD
        assert rounds(threads, 6, {1: 1.0, 2: 3.0}) == [2, 1, 2, 1, 2, 1]
        aside[0] = 0
        assert rounds(threads, threads.HOLD + 5, {1: 1.0, 2: 3.0}) == [1] * threads.HOLD + [2] * 5
    assert torch.get_num_threads() == 2


def test_a_quiet_machine_tries_nothing(aside: list[int]) -> None:
    aside[0] = 5
    with fitting_threads(False) as threads:
        assert set(rounds(threads, 200, {2: 1.0})) == {2}


def test_what_the_user_has_set_and_the_threads_of_two_trainings_stay(
    aside: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with fitting_threads(False) as threads, fitting_threads(False):
        assert set(rounds(threads, 9, {2: 1.0})) == {2}
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with fitting_threads(False) as threads:
        assert set(rounds(threads, 9, {2: 1.0})) == {2}


class Watched(NodeTask):
    """A task that remembers how many threads torch has in its steps."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.threads: set[int] = set()

    def loss(self, *args: Any) -> Tensor:
        self.threads.add(torch.get_num_threads())
        return super().loss(*args)


def ring(nodes: int) -> NodeDataset:
    count = torch.arange(nodes)
    edges = torch.stack([count, (count + 1) % nodes])
    return NodeDataset(
        "ring", torch.ones(nodes, 4), torch.cat([edges, edges.flip(0)], 1), count % 2, count[:10], count[10:20],
        count[20:], num_classes=2, sha256="ring",
    )  # fmt: skip


@pytest.mark.parametrize(("nodes", "trials", "threads"), [(40, 1, 1), (40, 2, 2), (50_000, 1, 2)])
def test_one_trial_on_a_small_graph_has_one_thread(nodes: int, trials: int, threads: int) -> None:
    data = ring(nodes)

    def build() -> NodeNet:
        return NodeNet("gcn", 4, 2)

    task = Watched(data, build())
    settings = [Setting(seed, lr=0.01, l2=0.0, rates=(0.0, 0.0, 0.0)) for seed in range(trials)]
    list(Trials(build, task, settings, epochs=1, patience=1, stop_on="loss").run())
    assert task.threads == {threads}
    assert torch.get_num_threads() == 2


FAULTS = """
import contextlib, ctypes, resource, sys
from pathlib import Path
from armagnn.processors import keep_freed_memory

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
    processors._glibc.cache_clear()
    with processors.keep_freed_memory() as kept:
        assert not kept
    processors._glibc.cache_clear()
