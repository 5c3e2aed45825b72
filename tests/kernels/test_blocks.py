"""Products with dense blocks along a diagonal."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import DenseBlocks, block_product
from oracles import TOLERANCE, assert_near, numbers

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
def test_values_and_gradients(
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


def test_second_derivatives_and_transforms() -> None:
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
def test_on_a_gpu(sizes: list[int], picks: list[int], padding: int, transposed: bool, dtype: torch.dtype) -> None:
    blocks, whole = make(sizes, picks, padding, dtype, "cuda")
    whole = (whole.t() if transposed else whole).double()
    for columns in (1, 20, 320):
        x = numbers(len(whole), columns, seed=1).to(dtype)
        found = block_product(blocks, x.cuda(), transposed=transposed)
        assert found.dtype == dtype
        assert_near(found.cpu(), whole @ x.double(), TOLERANCE[dtype] * max(sizes) ** 0.5)
