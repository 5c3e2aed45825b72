"""Matrices from and to other formats, scipy's, torch's and dense ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch
import torch._dynamo.testing
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from armagnn import CSR, GraphOperator
from operators.subjects import FEW, RECTANGLE, Subject
from oracles import assert_near, numbers

F64 = torch.float64


def operand(subject: Subject, *lead: int, width: int = 3, dtype: torch.dtype = F64) -> Tensor:
    return numbers(*lead, subject.truth.shape[1], width, seed=5, dtype=dtype)


@given(
    st.integers(0, 6), st.integers(0, 6), st.data(), st.sampled_from(["csr", "csc", "coo"]),
    st.sampled_from([scipy.sparse.coo_array, scipy.sparse.coo_matrix]),
)  # fmt: skip
def test_from_scipy_and_coo(rows: int, cols: int, data: st.DataObject, layout: str, coo: Any) -> None:
    """Any shape, unsorted, with duplicates; whole numbers, so that sums are exact."""
    size = data.draw(st.integers(0, 20)) if rows and cols else 0
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    row, col = rng.integers(0, max(rows, 1), size), rng.integers(0, max(cols, 1), size)
    value = rng.integers(-3, 4, size).astype(float)
    truth = np.zeros((rows, cols))
    np.add.at(truth, (row, col), value)
    matrix = coo((value, (row, col)), shape=(rows, cols)).asformat(layout)
    built = CSR.from_scipy(matrix)
    assert built.dtype == torch.get_default_dtype()
    assert np.array_equal(built.to_dense().numpy(), truth)
    assert np.array_equal(built.T.to_dense().numpy(), truth.T)
    entries = (torch.from_numpy(row), torch.from_numpy(col), torch.from_numpy(value))
    other = CSR.from_coo(*entries, (rows, cols))
    assert np.array_equal(other.to_dense().numpy(), truth)
    assert other.nnz == len(set(zip(row.tolist(), col.tolist(), strict=True)))  # entries at one place are added up
    starts = other.rowptr.tolist()
    assert all(np.all(np.diff(other.col[lo:hi].numpy()) > 0) for lo, hi in itertools.pairwise(starts))  # sorted


def test_from_coo_is_differentiable_through_duplicates() -> None:
    row, col = torch.tensor([2, 0, 2, 2, 0]), torch.tensor([1, 1, 1, 0, 1])
    value = numbers(5).requires_grad_()
    assert gradcheck(lambda v: CSR.from_coo(row, col, v, (3, 2)).to_dense(), (value,))
    assert gradgradcheck(lambda v: CSR.from_coo(row, col, v, (3, 2)).to_dense().tanh(), (value,))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_from_torch_sparse(layout: str, dtype: torch.dtype) -> None:
    dense = torch.from_numpy(np.rint(RECTANGLE * 2)).to(dtype)
    convert = getattr(dense, f"to_sparse_{layout}")
    built = CSR.from_torch_sparse(convert((2, 2)) if layout.startswith("bs") else convert())
    assert built.dtype == (dtype if dtype.is_floating_point else torch.get_default_dtype())
    assert torch.equal(built.to_dense().double(), dense.double())
    assert CSR.from_torch_sparse(dense.to_sparse(), torch.float64).dtype == torch.float64


def test_from_torch_sparse_that_is_not_coalesced() -> None:
    matrix = torch.sparse_coo_tensor(torch.tensor([[0, 0, 1], [1, 1, 0]]), torch.tensor([1.0, 2.0, 4.0]), (2, 2))
    assert not matrix.is_coalesced()
    assert torch.equal(CSR.from_torch_sparse(matrix).to_dense(), matrix.to_dense())


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_from_torch_sparse_is_differentiable(layout: str) -> None:
    def dense(value: Tensor) -> Tensor:
        if layout == "coo":  # with a duplicate
            matrix = torch.sparse_coo_tensor(torch.tensor([[2, 0, 0], [0, 1, 1]]), value, (3, 3))
        else:
            build = torch.sparse_csr_tensor if layout == "csr" else torch.sparse_csc_tensor
            matrix = build(torch.tensor([0, 2, 2, 3]), torch.tensor([0, 2, 1]), value, (3, 3))
        return CSR.from_torch_sparse(matrix).to_dense()

    assert gradcheck(dense, (numbers(3).requires_grad_(),))


def test_made_in_inference_mode_and_trained_later() -> None:
    """What is kept from the first product must serve the backward pass of the next."""
    for subject in FEW:
        if subject.name == "with_value":
            continue  # its values are the user's own, and made in inference mode they cannot be trained
        with torch.inference_mode():
            built = subject.build(F64)
            built @ operand(subject)
        plain = subject.build(F64)
        with torch.inference_mode():
            plain @ operand(subject)
        for op in (built, plain):
            x = operand(subject).requires_grad_()
            g = numbers(subject.truth.shape[0], 3, seed=7)
            assert_near(torch.autograd.grad(op @ x, x, g)[0], subject.truth.T @ g.numpy())


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float64, torch.bfloat16])
def test_from_dense(dtype: torch.dtype | None) -> None:
    for matrix in (RECTANGLE, RECTANGLE.astype(np.float32), torch.from_numpy(RECTANGLE), RECTANGLE.tolist()):
        built = CSR.from_dense(matrix, dtype)
        default = matrix.dtype if isinstance(matrix, Tensor) else torch.get_default_dtype()
        assert built.dtype == (dtype or default)
        assert_near(built.to_dense(), np.asarray(matrix))
        assert built.nnz == np.count_nonzero(RECTANGLE)
    assert torch.equal(CSR.from_dense(np.eye(3, dtype=bool), dtype).to_dense().double(), torch.eye(3, dtype=F64))


def test_from_dense_is_differentiable() -> None:
    dense = torch.from_numpy(RECTANGLE).requires_grad_()
    g = numbers(6, 4, seed=7)
    (gradient,) = torch.autograd.grad(CSR.from_dense(dense).to_dense(), dense, g)
    assert torch.equal(gradient, torch.where(dense == 0, 0.0, g))  # zeros are not stored


@given(
    rows=st.integers(0, 6),
    cols=st.integers(0, 6),
    data=st.data(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_to_scipy_and_back(rows: int, cols: int, data: st.DataObject, dtype: torch.dtype) -> None:
    number = st.floats(-(2.0**100), 2.0**100, width=32) if dtype == torch.float32 else st.floats(-1e300, 1e300)
    dense = np.array(data.draw(st.lists(number, min_size=rows * cols, max_size=rows * cols)), dtype=str(dtype)[6:])
    a = CSR.from_dense(torch.from_numpy(dense.reshape(rows, cols)))
    there = a.to_scipy()
    assert isinstance(there, scipy.sparse.csr_array)
    assert there.dtype == dense.dtype
    np.testing.assert_array_equal(there.toarray(), dense.reshape(rows, cols))
    back = CSR.from_scipy(there, dtype=dtype, allow_empty=True)
    assert back.dtype == dtype
    for one, other in ((back.rowptr, a.rowptr), (back.col, a.col), (back.value, a.value)):
        assert torch.equal(one, other)
    again = a.T.to_scipy()
    np.testing.assert_array_equal(again.toarray(), there.toarray().T)


def test_to_scipy_is_a_copy_without_gradient() -> None:
    value = torch.tensor([0.1, 0.2], dtype=torch.float64, requires_grad=True)
    op = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), 2, value, kind="adjacency")
    there = op.to_scipy()
    assert there.data.tolist() == [0.2, 0.1]  # every digit of float64
    there.data[:], there.indices[:], there.indptr[:] = 0.0, 0, 0
    assert op.to_dense().tolist() == [[0.0, 0.2], [0.1, 0.0]]
    again = GraphOperator.from_scipy(op.to_scipy(), kind="adjacency", dtype=torch.float64)
    assert torch.equal(again.to_dense(), op.to_dense())
    half = op.detach().to(torch.bfloat16)
    assert half.to_scipy().dtype == np.float32
    np.testing.assert_array_equal(half.to_scipy().toarray(), half.to_dense().float().numpy())
