"""The trials of a configuration: determined by their seeds, restored by validation, the same in any batch; and when
each stops: as a plain loop over its curve would say."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.data import NodeDataset, load
from armagnn.errors import ParameterError, UnknownNameError
from armagnn.tasks import NodeTask
from armagnn.training import NodesConfig, Outcome
from armagnn.training.outcome import ALL_RULES, Keeper, batches
from armagnn_paper.tables import METHODS

RATES: dict[str, Any] = {"input_dropout": 0.5, "hidden_dropout": 0.5, "skip_dropout": 0.5}
QUICK = NodesConfig(hidden=4, epochs=12, **RATES)


@pytest.fixture(scope="module")
def cora() -> NodeDataset:
    return load("cora")


def train(config: NodesConfig, seeds: list[int], data: NodeDataset) -> list[Outcome]:
    trials = config.experiment(data).trials([config.setting(seed) for seed in seeds])
    return sorted((outcome.require_converged() for outcome in trials.run()), key=lambda trial: seeds.index(trial.seed))


@pytest.fixture(scope="module")
def trial(cora: NodeDataset) -> Outcome:
    return train(QUICK, [0], cora)[0]


def test_a_seed_determines_its_trial(cora: NodeDataset, trial: Outcome) -> None:
    torch.manual_seed(99)
    torch.rand(7)
    (again,) = train(QUICK, [0], cora)
    assert (again.history, again.val, again.test) == (trial.history, trial.val, trial.test)
    assert all(torch.equal(again.state[name], trial.state[name]) for name in trial.state)


def test_a_trial_is_the_same_in_a_batch_to_rounding(cora: NodeDataset, trial: Outcome) -> None:
    other, again = train(QUICK, [1, 0], cora)
    for name in trial.state:
        torch.testing.assert_close(again.state[name], trial.state[name], rtol=1e-3, atol=1e-4)
    assert again.history["val_loss"] == pytest.approx(trial.history["val_loss"], abs=1e-5)
    assert other.history["train_loss"] != again.history["train_loss"]


def test_the_callers_generator_is_left_alone(cora: NodeDataset) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(replace(QUICK, epochs=2), [0], cora)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("stop_on", ["loss", "accuracy"])
def test_the_best_state_on_validation_is_restored(stop_on: str, cora: NodeDataset) -> None:
    rates = dict.fromkeys(RATES, 0.0)
    config = NodesConfig(hidden=4, l2=0.0, lr=0.1, patience=6, stop_on=stop_on, **rates)
    (trial,) = train(config, [2], cora)
    losses, accuracies = trial.history["val_loss"], trial.history["val_accuracy"]
    assert len(losses) == trial.epochs == trial.best_epoch + 6  # it overfits, so there is something to restore
    if stop_on == "loss":
        assert trial.best_epoch == losses.index(min(losses)) + 1
    else:
        assert trial.val["accuracy"] == max(accuracies)
        tied = [loss for loss, value in zip(losses, accuracies, strict=True) if value == max(accuracies)]
        assert trial.val["loss"] == pytest.approx(min(tied), rel=1e-6)
    net = config.experiment(cora).network()
    net.load_state_dict(trial.state)
    task = NodeTask(cora, net)
    for split, found in (("val", trial.val), ("test", trial.test)):
        again = {name: value.item() for name, value in task.metrics(net.eval(), split).items()}
        assert again == pytest.approx(found, rel=1e-6)


def test_it_learns(cora: NodeDataset) -> None:
    config = NodesConfig(epochs=60, input_dropout=0.2, hidden_dropout=0.2, skip_dropout=0.2)
    (trial,) = train(config, [0], cora)
    assert trial.val["accuracy"] > 0.7
    assert trial.history["train_loss"][-1] < 0.5 * trial.history["train_loss"][0]


def test_labels_of_validation_and_test_do_not_reach_the_weights(cora: NodeDataset) -> None:
    # Stopping aside (here it cannot happen), other labels outside the training nodes must change no weight.
    config = replace(QUICK, epochs=4, l2=0.0, stop_on="accuracy", patience=10)
    hidden_labels = cora.y.clone()
    hidden_labels[torch.cat([cora.val_idx, cora.test_idx])] = 0
    (blind,), (seeing,) = (train(config, [0], data) for data in (replace(cora, y=hidden_labels), cora))
    assert blind.history["train_loss"] == seeing.history["train_loss"]


@pytest.mark.parametrize("stop_on", ["loss", "accuracy"])
def test_divergence_is_said(stop_on: str, cora: NodeDataset) -> None:
    config = replace(QUICK, epochs=3, stop_on=stop_on)
    trials = config.experiment(cora).trials([replace(config.setting(4), lr=1e30)])
    with pytest.raises(ParameterError, match=r"diverged \(seed 4\).*Lower lr \(now 1e\+30\)"):
        next(trials.run()).require_converged()


@pytest.mark.parametrize("conv", METHODS)
def test_every_method_is_built(conv: str, cora: NodeDataset) -> None:
    net = NodesConfig(conv=conv, stacks=3, layers=2, init="zero").experiment(cora).network()
    assert net.method == conv
    for place in (net.conv1, net.conv2):
        if conv == "arma":
            assert (place.num_stacks, place.num_layers, place.init) == (3, 2, "zero")
        elif conv in ("chebyshev", "cayley"):
            assert place.order == 3
        else:
            assert len(place) == 2


def test_the_second_convolution_may_have_other_stacks(cora: NodeDataset) -> None:
    net = NodesConfig(stacks=3, last_stacks=1).experiment(cora).network()
    assert (net.conv1.num_stacks, net.conv2.num_stacks) == (3, 1)
    net = NodesConfig(stacks=3).experiment(cora).network()
    assert (net.conv1.num_stacks, net.conv2.num_stacks) == (3, 3)


def test_all_seeds_are_one_batch_but_for_layers_of_pyg() -> None:
    assert batches(NodesConfig(seed=4, seeds=30)) == [range(4, 34)]
    assert batches(NodesConfig(conv="gin", seed=4, seeds=12)) == [range(4, 14), range(14, 16)]
    assert batches(NodesConfig(conv="gin", seed=4, seeds=1)) == [range(4, 5)]


# ------------------------------------------------------------------------------------------------------- early stopping

Curve = list[tuple[float, float]]
values = st.sampled_from([0.1, 0.2, 0.5, 0.9])
curves = st.lists(
    st.lists(st.tuples(st.one_of(values, st.just(math.nan)), values), min_size=8, max_size=8), min_size=1, max_size=4
)


def by_hand(rule: str, patience: int, curve: Curve) -> tuple[int, int]:
    """Return the best epoch and the epoch whose weights are kept, counted from 1 (0: none)."""
    best, where, kept = (-math.inf, -math.inf), 0, 0
    for epoch, (loss, accuracy) in enumerate(curve, start=1):
        score = {rule: (accuracy, -loss), "loss": (-loss, 0.0), "last": (-loss, 0.0), "first": (accuracy, 0.0)}[rule]
        if math.isfinite(loss):
            better = score > best
            if better:
                best, where = score, epoch
            if better or rule == "last":
                kept = epoch
        if epoch - where >= patience:
            break
    return where, kept


@pytest.mark.parametrize("rule", ALL_RULES)
@settings(deadline=None, max_examples=60)
@given(curves=curves, patience=st.integers(1, 9))
def test_each_trial_is_kept_as_if_alone(rule: str, curves: list[Curve], patience: int) -> None:
    trials = len(curves)
    params = {"first": torch.zeros(trials, 2), "second": torch.zeros(3, trials)}
    keeper = Keeper(rule, patience, params, {"first": 0, "second": 1}, trials)
    for epoch in range(8):
        for param in params.values():
            param += 1
        loss, accuracy = torch.tensor([curve[epoch] for curve in curves], dtype=torch.float64).unbind(1)
        keeper.judge(torch.tensor([epoch + 1]), loss, accuracy, params)
    for index, curve in enumerate(curves):
        where, kept = by_hand(rule, patience, curve)
        assert keeper.best_epoch[index] == where
        assert (keeper.kept["first"][index] == kept).all()
        assert (keeper.kept["second"][:, index] == kept).all()
        assert bool(keeper.active[index]) == (8 - where < patience)


def test_it_goes_on_from_its_state_with_some_of_the_trials() -> None:
    curve = torch.tensor([[3.0, 2.0, 1.0], [2.0, 9.0, 0.5]], dtype=torch.float64)
    axes, none = {"w": 0}, torch.zeros(3, dtype=torch.float64)
    whole = Keeper("loss", 5, {"w": torch.zeros(3, 1)}, axes, 3)
    whole.judge(torch.tensor([1]), curve[0], none, {"w": torch.ones(3, 1)})
    other = Keeper("loss", 5, {"w": torch.zeros(3, 1)}, axes, 3)
    other.restore(whole.state())
    chosen = torch.tensor([2, 0])
    for keeper in (whole, other):
        keeper.select(chosen)
        keeper.judge(torch.tensor([2]), curve[1, chosen], none[:2], {"w": torch.full((2, 1), 2.0)})
    assert torch.equal(whole.kept["w"], other.kept["w"])
    assert whole.best_epoch.tolist() == other.best_epoch.tolist() == [2, 2]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="first, last, leak, loss"):
        Keeper("los", 5, {"w": torch.zeros(1, 1)}, {"w": 0}, 1)
