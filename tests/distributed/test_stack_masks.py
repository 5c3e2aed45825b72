"""Some columns of a mask, drawn alone, are those columns of the whole mask."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.distributed.stack_masks import CHUNK, _keep_columns, keep_columns
from armagnn.kernels.random import DROPOUT, bits, keep_mask, threshold


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
