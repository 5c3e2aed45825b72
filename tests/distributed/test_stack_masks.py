"""Some columns of a mask, drawn alone, are those columns of the whole mask."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.distributed import stack_masks
from armagnn.distributed.stack_masks import CHUNK, PIECE, _keep_columns, drop_run, keep_columns
from armagnn.kernels import reference
from armagnn.randomness import DROPOUT, bits, keep_mask, threshold


@given(
    st.integers(0, 2**62), st.integers(0, 9), st.integers(0, 20), st.integers(1, 30), st.integers(0, 29),
    st.integers(1, 30), st.sampled_from([0.0, 0.3, 0.9]),
)  # fmt: skip
def test_columns_of_a_mask(seed: int, step: int, rows: int, width: int, start: int, count: int, p: float) -> None:
    start = min(start, width - 1)
    columns = slice(start, min(width, start + count))
    key = torch.tensor([seed])
    whole = keep_mask(key, p, step, (rows, width))
    for function in (keep_columns, _keep_columns):  # compiled, and in plain torch
        assert torch.equal(function(key, p, step, (rows, width), columns), whole[:, columns])


def test_more_rows_than_are_drawn_at_a_time() -> None:
    key, shape = torch.tensor([11]), (CHUNK // 5 + 3, 10)
    found = _keep_columns(key, 0.25, 2, shape, slice(3, 8))
    assert torch.equal(found, keep_mask(key, 0.25, 2, shape)[:, 3:8])
    assert abs(found.double().mean() - 0.75) < 0.02


def test_numbers_beyond_the_first_two_to_the_thirty_fourth() -> None:
    """The counter has a high word, which an entry of a very large mask reaches."""
    key, width = torch.tensor([3]), 2**36 + 5
    index = torch.arange(2).unsqueeze(1) * width + width - 9 + torch.arange(6)
    expected = bits(key, DROPOUT, 1, index) >= threshold(0.5)
    for function in (keep_columns, _keep_columns):
        assert torch.equal(function(key, 0.5, 1, (2, width), slice(width - 9, width - 3)), expected)


def test_some_rows_of_some_columns() -> None:
    seed = torch.tensor([2**40 + 9])
    whole = keep_mask(seed, 0.4, 3, (9, 7))
    for first in (0, 4, 8):
        some = keep_columns(seed, 0.4, 3, (9 - first, 7), slice(2, 6), first)
        assert torch.equal(some, whole[first:, 2:6])
        plain = _keep_columns(seed, 0.4, 3, (9 - first, 7), slice(2 + first * 7, 6 + first * 7))
        assert torch.equal(plain, whole[first:, 2:6])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_run_of_entries_is_dropped_as_it_is_in_the_whole(
    compiled: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_masks, "HAS_NUMBA", compiled and stack_masks.HAS_NUMBA)
    seed = torch.tensor([2**35 + 1])
    x = torch.randn(PIECE + 90, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    whole = reference.dropout(x, seed, 0.4, 3)
    assert 0.3 < (whole == 0).double().mean() < 0.5
    for first, stop in ((0, PIECE + 90), (1, 40), (2, PIECE + 3), (3, 3), (50, 51)):
        run = x[first:stop].clone()
        for target in (None, run):  # the second writes over the first
            found = drop_run(run, seed, 0.4, 3, 5 * first, target)
            assert torch.allclose(found, whole[first:stop], rtol=0.01 if dtype == torch.bfloat16 else 1e-6)
            assert torch.equal(found == 0, whole[first:stop] == 0)
