"""Some columns of a mask, drawn alone, are those columns of the whole mask."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.distributed import masks
from armagnn.distributed.masks import keep_columns
from armagnn.kernels.random import keep_mask


@given(
    st.integers(0, 2**62), st.integers(0, 9), st.integers(0, 20), st.integers(1, 30), st.integers(0, 29),
    st.integers(1, 30), st.sampled_from([0.0, 0.3, 0.9]),
)  # fmt: skip
def test_columns_of_a_mask(seed: int, step: int, rows: int, width: int, start: int, count: int, p: float) -> None:
    start = min(start, width - 1)
    columns = slice(start, min(width, start + count))
    key = torch.tensor([seed])
    assert torch.equal(
        keep_columns(key, p, step, (rows, width), columns), keep_mask(key, p, step, (rows, width))[:, columns]
    )


def test_more_rows_than_are_drawn_at_a_time() -> None:
    key, shape = torch.tensor([11]), (masks.CHUNK // 5 + 3, 10)
    found = keep_columns(key, 0.25, 2, shape, slice(3, 8))
    assert torch.equal(found, keep_mask(key, 0.25, 2, shape)[:, 3:8])
    assert abs(found.double().mean() - 0.75) < 0.02
