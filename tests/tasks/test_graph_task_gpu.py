"""Batches of graphs on a GPU: a recorded training there is the training here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise, zip_longest
from typing import Any

import pytest
import torch

from armagnn.data import Fold, GraphsDataset, folds, load_graphs
from armagnn.tasks import GraphNet, GraphTask
from armagnn.training import Outcome, Setting, Trials
from armagnn.training.cuda_graphs import on_own_stream

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
SETTINGS = [Setting(seed, lr=lr, l2=1e-4, rates=(0.2, 0.3)) for seed, lr in enumerate((1e-3, 3e-2, 1e-2))]
OPTIONS: dict[str, dict[str, Any]] = {
    "arma": {"num_stacks": 2, "num_layers": 2}, "gcn": {"num_layers": 2}, "chebyshev": {"order": 3},
    "cayley": {"order": 1, "jacobi": 3}, "mlp": {}, "gat": {}, "sage": {}, "gin": {},
}  # fmt: skip


def make(method: str, device: str, **changes: Any) -> Trials:
    mutag = load_graphs("mutag")

    def build() -> GraphNet:
        return GraphNet(method, 9, 2, hidden=8, options=OPTIONS[method])

    task = GraphTask(mutag, build(), folds(mutag)[0], batch_size=32, device=device, dtype=torch.float64)
    options: dict[str, Any] = {
        "epochs": 30,
        "patience": 6,
        "stop_on": "loss",
        "other_rules": ("accuracy", "last", "first"),
    }
    return Trials(
        build, task, SETTINGS, **options | changes, device=device, dtype=torch.float64,
    )  # fmt: skip


def run(method: str, device: str) -> list[Outcome]:
    return sorted(make(method, device).run(), key=lambda outcome: outcome.setting.seed)


@pytest.mark.parametrize("method", OPTIONS)
def test_a_recorded_training_is_the_one_on_the_processor(method: str) -> None:
    for there, here in zip(run(method, "cuda"), run(method, "cpu"), strict=True):
        assert (there.setting, there.best_epoch, there.epochs) == (here.setting, here.best_epoch, here.epochs)
        for name in ("train_loss", "val_loss"):
            assert there.history[name] == pytest.approx(here.history[name], abs=1e-7)
        assert there.test == pytest.approx(here.test, abs=1e-7)
        assert there.other_rules["last"] == pytest.approx(here.other_rules["last"], abs=1e-7)
        assert there.other_rules.keys() == here.other_rules.keys()
        for name, value in there.state.items():
            torch.testing.assert_close(value, here.state[name], rtol=1e-6, atol=1e-6)


def test_a_resumed_run_ends_with_the_same_bits() -> None:
    states: list[dict[str, Any]] = []

    def look(trials: Trials) -> None:
        if len(states) < 2:
            states.append(deepcopy(trials.state()))

    whole = {outcome.setting: outcome for outcome in make("arma", "cuda", patience=30).run(look)}
    again = make("arma", "cuda", patience=30)
    assert again.restore(states[1], SETTINGS)
    assert again.done > 0
    for outcome in again.run():
        before = whole[outcome.setting]
        assert (outcome.best_epoch, outcome.history, outcome.test) == (before.best_epoch, before.history, before.test)
        assert all(torch.equal(value, before.state[name]) for name, value in outcome.state.items())


@pytest.mark.parametrize("method", ["arma", "cayley", "sage"])
def test_trainings_that_take_turns_are_those_alone(method: str) -> None:
    alone = run(method, "cuda")
    streams = [on_own_stream(make(method, "cuda").in_turns(), torch.device("cuda")) for _ in range(5)]
    found: list[list[Outcome]] = [[] for _ in streams]
    for turn in zip_longest(*streams):
        for outcomes, outcome in zip(found, turn, strict=True):
            outcomes += [] if outcome is None else [outcome]
    for outcomes in found:
        for there, here in zip(sorted(outcomes, key=lambda outcome: outcome.setting.seed), alone, strict=True):
            assert (there.setting, there.history, there.test) == (here.setting, here.history, here.test)
            assert all(torch.equal(value, here.state[name]) for name, value in there.state.items())


@pytest.mark.parametrize("method", ["arma", "chebyshev"])
def test_hubs_and_large_graphs_are_recorded(method: str) -> None:
    stars = torch.arange(24) % 3 * 600 + 280  # leaves: more than a row or a sum has that is not cut
    ptr = torch.nn.functional.pad((stars + 1).cumsum(0), (1, 0))
    hub = torch.repeat_interleave(ptr[:-1], stars)
    leaf = torch.cat([torch.arange(first + 1, last) for first, last in pairwise(ptr.tolist())])
    edges = torch.stack([torch.cat([hub, leaf]), torch.cat([leaf, hub])])
    data = GraphsDataset("stars", edges, ptr, torch.arange(24) % 2, 2, "0" * 64)
    fold = Fold(torch.arange(16), torch.arange(16, 20), torch.arange(20, 24))

    def outcomes(device: str) -> list[Outcome]:
        def build() -> GraphNet:
            return GraphNet(method, 2, 2, hidden=8, options=OPTIONS[method])

        task = GraphTask(data, build(), fold, batch_size=4, device=device, dtype=torch.float64)
        options: dict[str, Any] = {"epochs": 4, "patience": 4, "stop_on": "loss"}
        trials = Trials(build, task, SETTINGS, **options, device=device, dtype=torch.float64)
        return sorted(trials.run(), key=lambda outcome: outcome.setting.seed)

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # that training is not recorded
        found = outcomes("cuda")
    for there, here in zip(found, outcomes("cpu"), strict=True):
        assert there.history["train_loss"] == pytest.approx(here.history["train_loss"], abs=1e-7)


def test_step_and_validation_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    from armagnn.training import cuda_graphs as module

    recorded, original = [], module.capture

    def watched(work: Any, warmup: int, pool: object) -> Callable[[], None]:
        replay = original(work, warmup=warmup, pool=pool)
        recorded.append(work.func.__name__)  # only if it went well
        return replay

    monkeypatch.setattr(module, "capture", watched)
    run("arma", "cuda")
    assert {"_one_step", "_judge"} <= set(recorded)
