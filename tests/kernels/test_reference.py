"""Plain torch against the dense truth; and long rows cut into segments that hold each of their nonzeros once."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from armagnn.kernels import reference
from armagnn.kernels.reference import LONG, cut_long_rows
from kernels.checks import KernelChecks
from oracles import ACTIVATION, assert_near, numbers, sparse


class TestReference(KernelChecks):
    kernels = reference


@pytest.mark.parametrize("act", ACTIVATION)
def test_activate(act: str) -> None:
    z = numbers(50)
    truth = ACTIVATION[act](z.numpy().copy(), 0.3)
    assert_near(reference.activate(z, act, 0.3), truth)


def test_sddmm_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut into slices that do not divide the nonzeros, the answer is the same to the last bit."""
    a, left, right = sparse(30, 20), numbers(30, 6, seed=1), numbers(20, 6, seed=2)
    whole = reference.sddmm(a.rowptr, a.col, left, right)
    monkeypatch.setattr(reference, "SLICE", 6 * 7)
    assert a.col.numel() % 7
    assert torch.equal(reference.sddmm(a.rowptr, a.col, left, right), whole)


# ------------------------------------------------------------------------------------------------------------ long rows


DEGREES = st.lists(st.one_of(st.integers(0, 3), st.integers(LONG - 1, 3 * LONG + 1)), max_size=12)


@given(DEGREES, st.sampled_from([torch.int32, torch.int64]))
def test_the_segments_of_a_row_are_the_row(degrees: list[int], dtype: torch.dtype) -> None:
    rowptr = torch.tensor([0, *degrees]).cumsum(0).to(dtype)
    nonzeros = int(rowptr[-1])
    exact, bounded = cut_long_rows(rowptr), cut_long_rows(rowptr, nonzeros)
    if max(degrees, default=0) <= LONG:
        assert exact is None
        assert bounded is None or torch.equal(bounded.starts, bounded.ends)
        return
    assert exact is not None
    assert bounded is not None
    count = len(exact.starts)
    assert torch.equal(exact.first, bounded.first)
    assert torch.equal(exact.starts, bounded.starts[:count])
    assert torch.equal(exact.ends, bounded.ends[:count])
    assert torch.equal(bounded.starts[count:], bounded.ends[count:])
    for row, degree in enumerate(degrees):
        if degree > LONG:
            first = int(exact.first[row])
            own = slice(first, first + -(-degree // LONG))
            covered = [j for start, end in zip(exact.starts[own], exact.ends[own], strict=True)
                       for j in range(int(start), int(end))]  # fmt: skip
            assert covered == list(range(int(rowptr[row]), int(rowptr[row + 1])))
            assert int((exact.ends[own] - exact.starts[own]).max()) == LONG


@pytest.mark.parametrize("degrees", [[], [0], [LONG]], ids=str)
def test_short_rows_are_not_cut(degrees: list[int]) -> None:
    assert cut_long_rows(torch.tensor([0, *degrees]).cumsum(0)) is None
