from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.nn import mix as module
from armagnn.nn.mix import mix
from oracles import assert_near, numbers


@settings(max_examples=30)
@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(0, 23)),
    trials=st.sampled_from([None, 1, 3]),
    shared=st.booleans(),
    piece=st.sampled_from([1, 5, 4096]),
)
def test_values_and_gradients(sizes: tuple[int, int, int], trials: int | None, shared: bool, piece: int) -> None:
    i, j, m = sizes
    batch = () if trials is None else (trials,)
    table = numbers(*batch, i, j, seed=1).requires_grad_()
    vectors = numbers(*(() if shared else batch), j, m, seed=2).requires_grad_()
    direction = numbers(*batch, i, m, seed=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(module.PIECES, "cpu", piece)
        dims = (0, None if shared else 0)
        found = mix(table, vectors) if trials is None else torch.vmap(mix, in_dims=dims)(table, vectors)
        truth = table @ vectors
        assert_near(found, truth)
        ours, theirs = (
            torch.autograd.grad((out * direction).sum(), [table, vectors], create_graph=True) for out in (found, truth)
        )
        for one, two in zip(ours, theirs, strict=True):
            assert_near(one, two)


def test_second_derivatives_and_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(module.PIECES, "cpu", 3)
    table, vectors = numbers(2, 3).requires_grad_(), numbers(3, 7).requires_grad_()
    assert torch.autograd.gradcheck(mix, (table, vectors))
    assert torch.autograd.gradgradcheck(mix, (table, vectors))
    many = numbers(4, 2, 3, seed=5)
    found = torch.vmap(torch.func.grad(lambda t: mix(t, vectors.detach()).square().sum()))(many)
    assert_near(found, 2 * (many @ vectors) @ vectors.t())
