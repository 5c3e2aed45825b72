from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from armagnn.kernels import product, products
from armagnn.kernels.products import SHORTEST
from oracles import assert_near, numbers


@settings(max_examples=60)
@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(0, 23), st.integers(1, 4)),
    trials=st.sampled_from([None, 1, 3]),
    shared=st.sampled_from(["none", "first", "second"]),
    shortest=st.sampled_from([1, 5, 512]),
)
def test_values_and_gradients(sizes: tuple[int, int, int], trials: int | None, shared: str, shortest: int) -> None:
    i, m, j = sizes
    batches = [() if trials is None or shared == name else (trials,) for name in ("first", "second")]
    a, b = (
        numbers(*batch, *shape, seed=len(batch) + k).requires_grad_()
        for k, (batch, shape) in enumerate(zip(batches, ((i, m), (m, j)), strict=True))
    )
    dims = tuple(0 if batch else None for batch in batches)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SHORTEST, "cpu", shortest)
        patch.setattr(products, "PER_TRIAL", 1)
        found = product(a, b) if trials is None else torch.vmap(product, in_dims=dims)(a, b)
        truth = a @ b
        assert_near(found, truth)
        direction = numbers(*truth.shape, seed=3)
        ours, theirs = (
            torch.autograd.grad((out * direction).sum(), [a, b], create_graph=True) for out in (found, truth)
        )
        for one, two in zip(ours, theirs, strict=True):
            assert_near(one, two)


def test_long_sums_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setitem(SHORTEST, "cpu", 10)
    monkeypatch.setattr(products, "PER_TRIAL", 20)
    real = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b: seen.append(tuple(a.shape)) or real(a, b))
    a, b = numbers(2, 3, 47), numbers(2, 47, 5, seed=1)
    assert_near(product(a, b), a @ b)
    assert seen == [(4, 3, 11)] * 2  # and the rest, 3 long, is added
    product(numbers(3, 3, 47), numbers(3, 47, 5))
    assert seen[2:] == [(3, 3, 47)]  # for so many trials, it is not long enough


def test_second_derivatives_and_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHORTEST, "cpu", 3)
    monkeypatch.setattr(products, "PER_TRIAL", 1)
    a, b = numbers(2, 7).requires_grad_(), numbers(7, 3).requires_grad_()
    assert torch.autograd.gradcheck(product, (a, b))
    assert torch.autograd.gradgradcheck(product, (a, b))
    many = numbers(4, 2, 7, seed=5)
    found = torch.vmap(torch.func.grad(lambda t: product(t, b.detach()).square().sum()))(many)
    assert_near(found, 2 * (many @ b) @ b.t())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("sizes", [(1, 64, 45000, 121), (3, 32, 3584, 512), (4, 500, 1030, 7)])
def test_on_a_gpu(sizes: tuple[int, int, int, int]) -> None:
    r, i, m, j = sizes
    a, b = numbers(r, i, m).float(), numbers(r, m, j, seed=1).float()
    truth = a.double() @ b.double()
    torch.testing.assert_close(product(a.cuda(), b.cuda()).cpu().double(), truth, rtol=1e-5, atol=1e-3)


def test_forward_mode() -> None:
    a, b = numbers(2, 7), numbers(7, 3, seed=1)
    tangents = numbers(2, 7, seed=2), numbers(7, 3, seed=3)
    _, found = torch.func.jvp(product, (a, b), tangents)
    assert_near(found, tangents[0] @ b + a @ tangents[1])
    assert_near(torch.func.jvp(lambda a: product(a, b), (a,), tangents[:1])[1], tangents[0] @ b)
    assert_near(torch.func.jvp(lambda b: product(a, b), (b,), tangents[1:])[1], a @ tangents[1])


def test_what_no_gradient_needs_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SHORTEST, "cpu", 512)
    kept: list[tuple[int, ...]] = []
    a, b = numbers(2, 7), numbers(7, 3, seed=1).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
        product(a, b)
        assert kept == [(1, 2, 7)]
        product(a.requires_grad_(), b.detach())
    assert kept == [(1, 2, 7), (1, 7, 3)]
