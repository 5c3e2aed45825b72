"""Batches of graphs on a GPU: a recorded training there is the training here."""

from __future__ import annotations

import pytest
import torch

from armagnn.data import folds, load_graphs
from armagnn.tasks import GraphNet, GraphTask
from armagnn.training import Setting, Trials

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
SETTINGS = [Setting(seed, lr=1e-3, l2=1e-4, rates=(0.2, 0.3)) for seed in range(3)]
OPTIONS = {"arma": {"num_stacks": 2, "num_layers": 2}, "gcn": {"num_layers": 2}, "chebyshev": {"order": 3},
           "cayley": {"order": 1, "jacobi": 3}, "mlp": {}}  # fmt: skip


def run(method: str, device: str) -> list[float]:
    mutag = load_graphs("mutag")

    def build() -> GraphNet:
        return GraphNet(method, 9, 2, hidden=8, options=OPTIONS[method])  # type: ignore[arg-type]

    task = GraphTask(mutag, build(), folds(mutag)[0], batch_size=32, device=device, dtype=torch.float64)
    trials = Trials(
        build, task, SETTINGS, epochs=12, patience=99, stop_on="loss", beside=("last",), device=device,
        dtype=torch.float64,
    )  # fmt: skip
    outcomes = sorted(trials.run(), key=lambda outcome: outcome.setting.seed)
    return [value for outcome in outcomes for value in outcome.history["train_loss"] + outcome.history["val_loss"]]


@pytest.mark.parametrize("method", OPTIONS)
def test_a_recorded_training_is_the_one_on_the_processor(method: str) -> None:
    assert run(method, "cuda") == pytest.approx(run(method, "cpu"), abs=1e-8)


def test_a_step_is_recorded_and_batches_are_built_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from armagnn.training import trials as module

    recorded = []
    original = module.capture
    monkeypatch.setattr(module, "capture", lambda work, warmup: recorded.append(work) or original(work, warmup=warmup))
    run("arma", "cuda")
    assert len(recorded) >= 2  # the step, and the validation
