"""One trial: determined by its seed, stopped and restored by validation, regularised as in Keras."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from armagnn import GraphOperator
from armagnn.data import NodeDataset, load
from armagnn.errors import ParameterError
from armagnn.tasks import accuracy, cross_entropy
from armagnn.training import TrainConfig, Trial, build_model, train_trial
from armagnn.training.trial import eval_logits, make_optimizer

QUICK = TrainConfig(hidden=4, epochs=12, dropout=0.5, skip_dropout=0.5)


@pytest.fixture(scope="module")
def cora() -> NodeDataset:
    return load("cora")


@pytest.fixture(scope="module")
def op(cora: NodeDataset) -> GraphOperator:
    return cora.operator()


@pytest.fixture(scope="module")
def trial(cora: NodeDataset, op: GraphOperator) -> Trial:
    return train_trial(QUICK, 0, cora, op)


def same(a: Trial, b: Trial) -> bool:
    return (
        a.history == b.history
        and a.test_accuracy == b.test_accuracy
        and a.state.keys() == b.state.keys()
        and all(torch.equal(a.state[name], b.state[name]) for name in a.state)
    )


def test_a_seed_determines_its_trial(cora: NodeDataset, op: GraphOperator, trial: Trial) -> None:
    torch.manual_seed(99)
    torch.rand(7)
    train_trial(QUICK, 3, cora, op)  # another trial before it
    assert same(train_trial(QUICK, 0, cora, op), trial)


def test_another_seed_is_another_trial(cora: NodeDataset, op: GraphOperator, trial: Trial) -> None:
    other = train_trial(QUICK, 1, cora, op)
    assert other.history["train_loss"] != trial.history["train_loss"]
    assert not torch.equal(other.state["conv1.skip_weight"], trial.state["conv1.skip_weight"])


def test_the_callers_generator_and_threads_are_left_alone(cora: NodeDataset, op: GraphOperator) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    train_trial(replace(QUICK, epochs=2), 0, cora, op)
    assert torch.equal(torch.rand(3), expected)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("stop_on", ["loss", "accuracy"])
def test_the_best_state_on_validation_is_restored(stop_on: str, cora: NodeDataset, op: GraphOperator) -> None:
    config = TrainConfig(hidden=4, dropout=0.0, skip_dropout=0.0, l2=0.0, lr=0.1, patience=6, stop_on=stop_on)
    trial = train_trial(config, 2, cora, op)
    losses, accuracies = trial.history["val_loss"], trial.history["val_accuracy"]
    assert len(losses) == trial.best_epoch + 6  # it overfits, so there is something to restore
    if stop_on == "loss":
        assert trial.val_loss == min(losses)
        assert trial.best_epoch == losses.index(min(losses)) + 1
    else:
        assert trial.val_accuracy == max(accuracies)
        assert trial.val_loss == min(
            loss for loss, value in zip(losses, accuracies, strict=True) if value == max(accuracies)
        )
    model = build_model(config, cora)
    model.load_state_dict(trial.state)
    logits = eval_logits(model, cora, op)
    assert cross_entropy(logits, cora.y, cora.val_idx).item() == pytest.approx(trial.val_loss, rel=1e-6)
    assert accuracy(logits, cora.y, cora.val_idx) == trial.val_accuracy
    assert accuracy(logits, cora.y, cora.test_idx) == trial.test_accuracy


def test_it_learns(cora: NodeDataset, op: GraphOperator) -> None:
    config = TrainConfig(epochs=60, dropout=0.2, skip_dropout=0.2)
    trial = train_trial(config, 0, cora, op)
    assert trial.val_accuracy > 0.7
    assert trial.history["train_loss"][-1] < 0.5 * trial.history["train_loss"][0]


def test_labels_of_validation_and_test_do_not_reach_the_weights(cora: NodeDataset, op: GraphOperator) -> None:
    # Stopping aside (here it cannot happen), other labels outside the training nodes must change no weight.
    config = replace(QUICK, epochs=4, l2=0.0, stop_on="accuracy", patience=10)
    hidden_labels = cora.y.clone()
    hidden_labels[torch.cat([cora.val_idx, cora.test_idx])] = 0
    blind = train_trial(config, 0, replace(cora, y=hidden_labels), op)
    assert blind.history["train_loss"] == train_trial(config, 0, cora, op).history["train_loss"]


def test_l2_is_the_penalty_of_keras(cora: NodeDataset) -> None:
    # Adam on loss + c ||W||^2 by autograd, and our optimiser on the loss alone, must walk the same path.
    c = 0.05
    torch.manual_seed(0)
    ours, plain = build_model(QUICK, cora).double(), build_model(QUICK, cora).double()
    plain.load_state_dict(ours.state_dict())
    optimizers = (make_optimizer(ours, 0.01, c), torch.optim.Adam(plain.parameters(), lr=0.01))
    targets = {name: torch.randn_like(p) for name, p in ours.named_parameters()}
    for _ in range(5):
        for model, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.zero_grad()
            loss = sum((targets[name] * p).sum() for name, p in model.named_parameters())
            if model is plain:
                loss = loss + c * sum((p**2).sum() for name, p in model.named_parameters() if "weight" in name)
            loss.backward()
            optimizer.step()
    for (name, p), q in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-8, msg=name)


def test_biases_are_not_decayed(cora: NodeDataset) -> None:
    model = build_model(QUICK, cora)
    kernels, biases = make_optimizer(model, 0.01, 5e-4).param_groups
    assert kernels["weight_decay"] == 1e-3
    assert biases["weight_decay"] == 0.0
    assert {id(p) for p in biases["params"]} == {id(model.conv1.bias), id(model.conv2.bias)}
    assert len(kernels["params"]) + len(biases["params"]) == len(list(model.parameters()))


def test_divergence_is_said(cora: NodeDataset, op: GraphOperator) -> None:
    with pytest.raises(ParameterError, match=r"diverged at epoch \d+ \(seed 4\): lower lr"):
        train_trial(replace(QUICK, lr=1e30), 4, cora, op)


def test_every_epoch_is_told(cora: NodeDataset, op: GraphOperator) -> None:
    told: list[tuple[int, float, float]] = []
    trial = train_trial(replace(QUICK, epochs=3), 0, cora, op, lambda *result: told.append(result))
    assert [epoch for epoch, _, _ in told] == [1, 2, 3]
    assert [loss for _, loss, _ in told] == trial.history["val_loss"]
    assert [value for _, _, value in told] == trial.history["val_accuracy"]
