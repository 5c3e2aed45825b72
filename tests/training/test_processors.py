from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import processors
from armagnn.data import NodeDataset
from armagnn.tasks import NodeNet, NodeTask
from armagnn.training import Setting, Trials
from armagnn.training.processors import fitting_threads


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
