from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import CSR, kernels
from armagnn.kernels.random import draw_seed, source
from armagnn.nn import ARMAConv
from armagnn.nn.feature_dropout import Zero, drop


@pytest.mark.parametrize("sparse", [True, False])
def test_entries_are_dropped_or_scaled(sparse: bool) -> None:
    x = torch.ones(200, 50)
    dropped: Any = drop(CSR.from_dense(x) if sparse else x, 0.3, True)
    values = dropped.value if sparse else dropped
    kept = values != 0
    torch.testing.assert_close(values[kept], torch.full_like(values[kept], 1 / 0.7))
    assert abs(kept.float().mean().item() - 0.7) < 0.02
    assert isinstance(dropped, CSR) == sparse


def test_nothing_happens_outside_training_or_at_zero() -> None:
    for x in (torch.ones(3, 2), CSR.from_dense(torch.ones(3, 2))):
        state = torch.get_rng_state()
        assert drop(x, 0.5, False) is x
        assert drop(x, 0.0, True) is x
        assert drop(x, torch.tensor(0.5), False) is x
        assert torch.equal(torch.get_rng_state(), state)  # and no randomness is used up


def test_a_probability_that_is_a_tensor_is_handed_on_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(kernels, "dropout", lambda x, seed, p, step: seen.append(p) or x)
    p = torch.empty((), device="meta")  # has no value to read
    x: Tensor = torch.ones(3, 2)
    drop(x, p, True)
    drop(CSR.from_dense(x), p, True)
    assert [one is p for one in seen] == [True, True]


def test_a_zero_takes_its_seed_and_drops_nothing() -> None:
    x, seeds = torch.ones(3, 2), torch.tensor([7, 8, 9])
    conv = ARMAConv(2, 2, dropout=0.5)
    edges = torch.tensor([[0, 1], [1, 0]])
    for p, left in ((Zero(), 9), (0.0, 7), (torch.tensor(0.0), 9)):
        conv.dropout = p
        with source(seeds):
            drop(x, p, True)
            conv(x, edges)
            assert draw_seed(x.device).item() == left
        with source(seeds):
            drop(x, p, False)
            conv.eval()(x, edges)
            conv.train()
            assert draw_seed(x.device).item() == 7
    assert drop(x, Zero(), True) is x
    state = torch.get_rng_state()
    drop(x, Zero(), True)  # where seeds come from torch's generator, none is drawn
    assert torch.equal(torch.get_rng_state(), state)
