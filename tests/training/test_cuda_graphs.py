"""A recorder does every piece of work as often as it is asked; what it records on a GPU is tested with the tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from armagnn.training import cuda_graphs as module
from armagnn.training.cuda_graphs import EAGER, Recorder


def test_on_a_processor_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "capture", None)
    done: list[int] = []
    recorder = Recorder(torch.device("cpu"))
    work = lambda: done.append(1)  # noqa: E731
    for _ in range(EAGER + 3):
        recorder.do(work)
    assert len(done) == EAGER + 3


def test_on_a_gpu_work_is_recorded_after_a_few_times_and_sooner_for_other_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    pools: list[object] = []

    def capture(work: Callable[[], None], warmup: int, pool: object) -> Callable[[], None]:
        pools.append(pool)
        before = len(done)
        work()
        (name,) = done[before:]
        done[before:] = [f"record {name}"]
        return lambda: done.append(f"replay {name}")

    monkeypatch.setattr(module, "capture", capture)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    recorder = Recorder(torch.device("cuda"))

    def work(*sizes: int) -> None:
        done.append(str(sizes))

    for _ in range(EAGER + 2):
        recorder.do(work, 3)
    assert done == ["(3,)"] * EAGER + ["record (3,)", "replay (3,)", "replay (3,)"]
    for sizes in ((4,), (3,), (4,), (4,)):
        recorder.do(work, *sizes)
    assert done[EAGER + 3 :] == ["(4,)", "replay (3,)", "record (4,)", "replay (4,)", "replay (4,)"]
    assert pools[0] is pools[1]
    recorder.do(lambda: done.append("other"))  # which has not been recorded for any arguments
    assert done[-1] == "other"


def test_what_cannot_be_recorded_is_done_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[object] = []

    def refuse(work: Callable[[], None], warmup: int, pool: object) -> Callable[[], None]:
        pools.append(pool)
        raise RuntimeError("it waits\nfor the processor")

    monkeypatch.setattr(module, "capture", refuse)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", object)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    done: list[int] = []
    recorder = Recorder(torch.device("cuda"))
    work = lambda: done.append(1)  # noqa: E731
    for _ in range(EAGER):
        recorder.do(work)
    with pytest.warns(RuntimeWarning, match="not recorded, and slower, because it waits$"):
        recorder.do(work)
    recorder.do(work)  # and not tried again
    assert len(done) == EAGER + 2
    # what has failed may still hold its memory: the next recording has another pool
    monkeypatch.setattr(module, "capture", lambda work, warmup, pool: pools.append(pool) or work)
    other = lambda: None  # noqa: E731
    for _ in range(EAGER + 1):
        recorder.do(other)
    assert len(pools) == 2
    assert pools[0] is not pools[1]
