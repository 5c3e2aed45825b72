"""The processes of a run: what they tell, and what happens when one fails."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch

from armagnn.data import load
from armagnn.errors import RunError
from armagnn.training import TrainConfig, train_trial
from armagnn.training import pool as pool_module

CONFIG = TrainConfig(hidden=1, stacks=1, epochs=3, dropout=0.0, skip_dropout=0.0)


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(pool_module, "TELL_EVERY", -1.0)

    def work(config: TrainConfig, seeds: list[int]) -> list[Any]:
        tasks: queue.Queue[int | None] = queue.Queue()
        for seed in [*seeds, None]:
            tasks.put(seed)
        answers: queue.Queue[Any] = queue.Queue()
        pool_module._worker(config, tasks, answers)
        return list(answers.queue)

    return work


def test_a_worker_tells_epochs_and_trials(messages: Any) -> None:
    told = messages(CONFIG, [4, 6])
    assert [(kind, rest[0], rest[1]) for kind, *rest in told if kind == "epoch"] == [
        ("epoch", seed, epoch) for seed in (4, 6) for epoch in (1, 2, 3)
    ]
    trials = [rest for kind, *rest in told if kind == "trial"]
    assert [trial.seed for trial, _ in trials] == [4, 6]
    cora = load("cora")
    expected = train_trial(CONFIG, 6, cora, cora.operator())
    weights = safetensors.torch.load(trials[1][1])
    assert all(torch.equal(weights[name], value) for name, value in expected.state.items())


def test_a_worker_tells_divergence(messages: Any) -> None:
    told = messages(TrainConfig(epochs=3, lr=1e30), [0])
    kind, text = told[-1]
    assert kind == "refused"
    assert "diverged" in text


@pytest.mark.parametrize("code", [1, -9])
def test_a_dead_worker_is_noticed(code: int) -> None:
    workers = [SimpleNamespace(exitcode=None), SimpleNamespace(exitcode=0), SimpleNamespace(exitcode=code)]
    with pytest.raises(RunError, match=f"exit code {code}"):
        pool_module._check_alive(workers)


def test_what_starts_inside_ignores_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pool_module._deaf_to_interrupts():
        code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
        born_inside = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert born_inside.stdout.strip() == "True"
    assert signal.getsignal(signal.SIGINT) is before


def test_workers_that_live_or_are_done_are_fine() -> None:
    pool_module._check_alive([SimpleNamespace(exitcode=None), SimpleNamespace(exitcode=0)])
