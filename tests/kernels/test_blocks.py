"""Products of many trials, and with dense blocks along a diagonal; `tests/operators/test_batches.py` cuts matrices."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import DenseBlocks, block_product, product
from armagnn.kernels.blocks import _apply
from oracles import TOLERANCE, assert_near, numbers


def apply(a: Tensor, b: Tensor) -> Tensor:
    """The operation by itself, which `product` leaves to torch where it would gain nothing."""
    return _apply(a.unsqueeze(0), b.unsqueeze(0)).squeeze(0)


@settings(max_examples=60)
@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(0, 23), st.integers(1, 4)),
    trials=st.sampled_from([None, 1, 3]),
    shared=st.sampled_from(["none", "first", "second"]),
)
def test_values_and_gradients(sizes: tuple[int, int, int], trials: int | None, shared: str) -> None:
    i, m, j = sizes
    batches = [() if trials is None or shared == name else (trials,) for name in ("first", "second")]
    a, b = (
        numbers(*batch, *shape, seed=len(batch) + k).requires_grad_()
        for k, (batch, shape) in enumerate(zip(batches, ((i, m), (m, j)), strict=True))
    )
    dims = tuple(0 if batch else None for batch in batches)
    # as it stands, and with the rule for trials where there is one only
    found = apply(a, b) if trials is None else torch.vmap(product, in_dims=dims)(a, b)
    truth = a @ b
    assert_near(found, truth)
    direction = numbers(*truth.shape, seed=3)
    ours, theirs = (torch.autograd.grad((out * direction).sum(), [a, b], create_graph=True) for out in (found, truth))
    for one, two in zip(ours, theirs, strict=True):
        assert_near(one, two)


def test_second_derivatives_and_transforms() -> None:
    a, b = numbers(2, 7).requires_grad_(), numbers(7, 3).requires_grad_()
    assert torch.autograd.gradcheck(apply, (a, b))
    assert torch.autograd.gradgradcheck(apply, (a, b))
    many = numbers(4, 2, 7, seed=5)
    found = torch.vmap(torch.func.grad(lambda t: product(t, b.detach()).square().sum()))(many)
    assert_near(found, 2 * (many @ b) @ b.t())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize(
    "sizes",
    [(1, 64, 45000, 121), (3, 32, 3584, 512), (4, 500, 1030, 7), (10, 288, 16900, 32), (27, 64, 632, 64),
     (2, 17, 257, 65), (3, 4000, 32, 32), (2, 3, 5, 4), (2, 0, 4000, 3), (2, 3, 0, 4)],
)  # fmt: skip
def test_products_on_a_gpu(sizes: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    r, i, m, j = sizes
    tolerance = {torch.float32: 2e-6, torch.bfloat16: 1e-2, torch.float64: 1e-14}[dtype] * max(1, m) ** 0.5
    plain = torch.randn(r, i, m).to("cuda", dtype), torch.randn(r, m, j).to("cuda", dtype)
    by_node = plain[0].permute(1, 0, 2).contiguous().transpose(0, 1), plain[1]
    columns = (
        plain[0].transpose(1, 2).contiguous().transpose(1, 2),
        plain[1].transpose(0, 1).contiguous().transpose(0, 1),
    )
    for a, b in (plain, by_node, columns):
        found = product(a, b)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), a.double() @ b.double(), rtol=tolerance, atol=tolerance)
        assert torch.equal(found, product(a, b))  # the same bits


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_features_of_a_node_stay_side_by_side() -> None:
    x, w = torch.randn(500, 4, 8, device="cuda").transpose(0, 1), torch.randn(4, 8, 6, device="cuda")
    found = product(x, w.requires_grad_())
    assert found.transpose(0, 1).is_contiguous()
    assert torch.relu_(found).requires_grad  # it is no view


def test_forward_mode() -> None:
    a, b = numbers(2, 7), numbers(7, 3, seed=1)
    tangents = numbers(2, 7, seed=2), numbers(7, 3, seed=3)
    _, found = torch.func.jvp(product, (a, b), tangents)
    assert_near(found, tangents[0] @ b + a @ tangents[1])
    assert_near(torch.func.jvp(lambda a: product(a, b), (a,), tangents[:1])[1], tangents[0] @ b)
    assert_near(torch.func.jvp(lambda b: product(a, b), (b,), tangents[1:])[1], a @ tangents[1])


def test_what_no_gradient_needs_is_not_kept() -> None:
    kept: list[tuple[int, ...]] = []
    a, b = numbers(2, 7), numbers(7, 3, seed=1).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
        apply(a, b)
        assert kept == [(1, 2, 7)]
        apply(a.requires_grad_(), b.detach())
    assert kept == [(1, 2, 7), (1, 7, 3)]


# ---------------------------------------------------------------------------------------------- blocks along a diagonal

SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=5)


def make(
    sizes: list[int], picks: list[int], padding: int = 0, dtype: torch.dtype = torch.float64, device: str = "cpu"
) -> tuple[DenseBlocks, Tensor]:
    """Some of the blocks of these sizes, and the whole matrix."""
    starts = torch.tensor([0, *(size**2 for size in sizes)]).cumsum(0)
    store = numbers(int(starts[-1])).to(dtype)
    chosen = [store[starts[p] : starts[p + 1]].view(sizes[p], sizes[p]) for p in picks]
    first = torch.tensor([*(int(starts[p]) for p in picks), *([-1] if padding else [])])
    rows = torch.tensor([0, *(sizes[p] for p in picks), *([padding] if padding else [])])
    blocks = DenseBlocks(store.to(device), first.to(device), rows.cumsum(0).to(device), max(sizes))
    return blocks, torch.block_diag(*chosen, torch.zeros(padding, padding, dtype=dtype))


@settings(max_examples=60)
@given(
    sizes=SIZES, data=st.data(), padding=st.sampled_from([0, 3]), columns=st.integers(0, 4), transposed=st.booleans()
)
def test_values_and_gradients_with_blocks(
    sizes: list[int], data: st.DataObject, padding: int, columns: int, transposed: bool
) -> None:
    picks = data.draw(st.lists(st.integers(0, len(sizes) - 1), min_size=1, max_size=6))
    blocks, whole = make(sizes, picks, padding)
    whole = whole.t() if transposed else whole
    x = numbers(len(whole), columns, seed=1).requires_grad_()
    found = block_product(blocks, x, transposed=transposed)
    assert_near(found, whole @ x)
    direction = numbers(*found.shape, seed=2)
    assert_near(torch.autograd.grad((found * direction).sum(), x)[0], whole.t() @ direction)
    many = numbers(3, len(whole), columns, seed=4)
    trials = torch.vmap(lambda x: block_product(blocks, x, transposed=transposed))(many)
    assert_near(trials, torch.einsum("ij,rjf->rif", whole, many))
    last = torch.vmap(lambda x: block_product(blocks, x, transposed=transposed), in_dims=2)(many.movedim(0, 2))
    assert_near(last, trials)


def test_second_derivatives_and_transforms_with_blocks() -> None:
    blocks, whole = make([2, 3, 1], [1, 0, 2, 1], padding=2)
    x = numbers(len(whole), 2, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: block_product(blocks, x), x)
    assert torch.autograd.gradgradcheck(lambda x: block_product(blocks, x, transposed=True), x)
    _, tangent = torch.func.jvp(lambda x: block_product(blocks, x), (x,), (torch.ones_like(x),))
    assert_near(tangent, whole @ torch.ones_like(x))
    many = numbers(4, *x.shape, seed=5)
    found = torch.vmap(torch.func.grad(lambda t: block_product(blocks, t).square().sum()))(many)
    assert_near(found, 2 * whole.t() @ (whole @ many))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(
    ("sizes", "picks", "padding"),
    [([3], [0], 0), ([70, 1, 0, 130, 5], [4, 3, 2, 1, 0, 3], 7), ([9] * 64, list(range(64)), 30), ([600], [0, 0], 1),
     ([16, 17, 33, 64, 65], [0, 1, 2, 3, 4] * 8, 0)],
    ids=str,
)  # fmt: skip
def test_with_a_gpu(sizes: list[int], picks: list[int], padding: int, transposed: bool, dtype: torch.dtype) -> None:
    blocks, whole = make(sizes, picks, padding, dtype, "cuda")
    whole = (whole.t() if transposed else whole).double()
    for columns in (1, 20, 320):
        x = numbers(len(whole), columns, seed=1).to(dtype)
        found = block_product(blocks, x.cuda(), transposed=transposed)
        assert found.dtype == dtype
        assert_near(found.cpu(), whole @ x.double(), TOLERANCE[dtype] * max(sizes) ** 0.5)
