"""Stopping rules of many trials: each is what a plain loop over one trial's curve would say."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.errors import UnknownNameError
from armagnn.training.stopping import ALL_RULES, Keeper

Curve = list[tuple[float, float]]
values = st.sampled_from([0.1, 0.2, 0.5, 0.9])
curves = st.lists(
    st.lists(st.tuples(st.one_of(values, st.just(math.nan)), values), min_size=8, max_size=8), min_size=1, max_size=4
)


def by_hand(rule: str, patience: int, curve: Curve) -> tuple[int, int]:
    """Return the best epoch and the epoch whose weights are kept, counted from 1 (0: none)."""
    best, where, kept = (-math.inf, -math.inf), 0, 0
    for epoch, (loss, accuracy) in enumerate(curve, start=1):
        score = {"accuracy": (accuracy, -loss), "first": (accuracy, 0.0)}.get(rule, (-loss, 0.0))
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
    with pytest.raises(UnknownNameError, match="first, last, loss"):
        Keeper("los", 5, {"w": torch.zeros(1, 1)}, {"w": 0}, 1)
