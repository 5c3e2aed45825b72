from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from armagnn.kernels import reference
from armagnn.kernels.cpu import ordering
from kernels.checks import entries
from oracles import sparse

Case = tuple[int, int, list[tuple[int, int]]]


def given_entries(case: Case, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, tuple[int, int]]:
    rows, cols, places = case
    row, col = torch.tensor(places, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return row, col, torch.arange(1.0, len(row) + 1, dtype=dtype), (rows, cols)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(entries(), st.sampled_from([None, 0.0, 2.0]))
def test_entries_are_put_into_rows(index: torch.dtype, dtype: torch.dtype, case: Case, loop: float | None) -> None:
    row, col, value, shape = given_entries(case, torch.float64)
    dense = np.zeros(shape)
    np.add.at(dense, (row.numpy(), col.numpy()), value.numpy())
    stored = np.zeros(shape, dtype=bool)
    stored[row.numpy(), col.numpy()] = True
    if loop is not None:
        loops = np.arange(min(shape))
        dense[loops, loops] += loop
        stored[loops, loops] = True
    rowptr, columns, found = ordering.in_rows(row.to(index), False, col.to(index), value, shape, dtype, loop)
    assert found.dtype == dtype
    assert rowptr.dtype == columns.dtype == torch.int32
    assert np.array_equal(np.diff(rowptr), stored.sum(1))
    assert np.array_equal(columns, np.nonzero(stored)[1])
    assert np.array_equal(found, dense[stored])


@given(st.integers(1, 7), st.integers(1, 7), st.floats(0, 1), st.integers(0, 99))
def test_rows_may_be_given_by_pointers(rows: int, cols: int, density: float, seed: int) -> None:
    a = sparse(rows, cols, density, seed, dtype=torch.float32)
    back = ordering.in_rows(a.rowptr, True, a.col, a.value, (rows, cols), torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(back, (a.rowptr, a.col, a.value), strict=True))


@given(entries(), st.floats(-2, 2))
def test_one_number_may_stand_for_all_values(case: Case, number: float) -> None:
    row, col, value, shape = given_entries(case, torch.float64)
    one, all_of_them = torch.tensor([number], dtype=torch.float64), torch.full_like(value, number)
    found, truth = (ordering.in_rows(row, False, col, each, shape, torch.float64) for each in (one, all_of_them))
    assert all(torch.equal(a, b) for a, b in zip(found, truth, strict=True))


def test_long_sums_keep_their_digits() -> None:
    count = 1_000_000
    zeros, value = torch.zeros(count, dtype=torch.int64), torch.full((count,), 0.1)
    _, _, total = ordering.in_rows(zeros, False, zeros, value, (1, 1), torch.float32)
    assert float(total) == pytest.approx(float(value.double().sum()), rel=1e-5)
    degree = ordering.degrees(torch.tensor([0, count]), value)
    assert float(degree) == pytest.approx(float(value.double().sum()), rel=1e-12)


@given(st.integers(1, 7), st.floats(0, 1), st.integers(0, 99), st.booleans(), st.booleans())
def test_a_mirrored_matrix_is_its_transpose(n: int, density: float, seed: int, mirror: bool, nudge: bool) -> None:
    dense = torch.from_numpy(sparse(n, n, density, seed).dense())
    dense = dense + dense.T if mirror else dense
    if nudge and bool(dense.any()):
        place = tuple(dense.nonzero()[seed % len(dense.nonzero())])
        dense[place] *= 1 + 2**-50
    row, col = dense.nonzero(as_tuple=True)
    matrix = ordering.in_rows(row, False, col, dense[row, col], (n, n), torch.float64)
    assert ordering.is_mirrored(*matrix) == torch.equal(dense, dense.T)


@given(st.integers(1, 7), st.integers(1, 7), st.floats(0, 1), st.integers(0, 99))
def test_transpose(rows: int, cols: int, density: float, seed: int) -> None:
    a = sparse(rows, cols, density, seed)
    ours, truth = (module.transpose(a.rowptr, a.col, cols) for module in (ordering, reference))
    assert all(torch.equal(one, other) for one, other in zip(ours, truth, strict=True))


@pytest.mark.parametrize("negative", [False, True])
def test_what_is_added_to_the_diagonal(negative: bool) -> None:
    dense = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    row, col = dense.nonzero(as_tuple=True)
    rowptr, col, value = ordering.in_rows(row, False, col, dense[row, col], (2, 2), torch.float64)
    ordering.add_to_diagonal(rowptr, col, value, 0.5, negative)
    truth = 0.5 * torch.eye(2, dtype=torch.float64) + (-dense if negative else dense)
    assert torch.equal(value, truth.flatten())


def test_values_are_scaled_from_both_sides() -> None:
    a = sparse(5, 5)
    value, scale = a.value.clone(), torch.rand(5, dtype=torch.float64)
    ordering.scale_in_place(a.rowptr, a.col, value, scale)
    row = torch.from_numpy(a.row)
    assert torch.equal(value, a.value * (scale[row] * scale[a.col.long()]))
