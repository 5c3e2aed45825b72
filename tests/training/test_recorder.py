"""A recorder does every piece of work as often as it is asked; what it records on a GPU is tested with the tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from armagnn.training import recorder as module
from armagnn.training.recorder import EAGER, Recorder


def test_on_a_processor_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "capture", None)
    done: list[int] = []
    recorder = Recorder(torch.device("cpu"))
    work = lambda: done.append(1)  # noqa: E731
    for _ in range(EAGER + 3):
        recorder.do(work)
    assert len(done) == EAGER + 3


def test_on_a_gpu_work_is_recorded_once_after_a_few_times_and_anew_when_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    def capture(work: Callable[[], None], warmup: int) -> Callable[[], None]:
        done.append("record")
        return lambda: done.append("replay")

    monkeypatch.setattr(module, "capture", capture)
    recorder = Recorder(torch.device("cuda"))
    work = lambda: done.append("eager")  # noqa: E731
    for _ in range(EAGER + 2):
        recorder.do(work)
    assert done == ["eager"] * EAGER + ["record", "replay", "replay"]
    recorder.forget()
    recorder.do(work)
    assert done[-1] == "eager"


def test_what_cannot_be_recorded_is_done_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(work: Callable[[], None], warmup: int) -> Callable[[], None]:
        raise RuntimeError("it waits\nfor the processor")

    monkeypatch.setattr(module, "capture", refuse)
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
