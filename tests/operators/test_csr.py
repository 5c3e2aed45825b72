"""What every matrix can do: each subject of `operators.subjects` inherits all of it."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils import _pytree as pytree

from armagnn import CSR, GraphOperator
from armagnn.errors import ArmagnnError, DeviceError
from armagnn.operators import coarsen
from armagnn.operators.csr import fold, unfold
from operators.subjects import FEW, RECTANGLE, SUBJECTS, Subject
from oracles import TOLERANCE, assert_near, numbers

F64 = torch.float64


DTYPES = (torch.float32, torch.float64, torch.bfloat16)


subjects = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)


few_subjects = pytest.mark.parametrize("subject", FEW, ids=lambda s: s.name)


dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d).removeprefix("torch."))


def operand(subject: Subject, *lead: int, width: int = 3, dtype: torch.dtype = F64) -> Tensor:
    return numbers(*lead, subject.truth.shape[1], width, seed=5, dtype=dtype)


@subjects
@dtypes
def test_dense_and_product(subject: Subject, dtype: torch.dtype) -> None:
    op = subject.build(dtype)
    assert op.dtype == dtype
    assert op.shape == subject.truth.shape
    assert op.device == torch.device("cpu")
    assert op.nnz == op.col.numel() == op.value.numel() >= np.count_nonzero(subject.truth)
    assert op.symmetric == subject.symmetric
    assert_near(op.to_dense(), subject.truth)
    x = operand(subject, dtype=dtype)
    out = op @ x
    assert out.dtype == dtype
    assert_near(out, subject.truth @ x.double().numpy())


@subjects
def test_transpose(subject: Subject) -> None:
    op = subject.build(F64)
    x = numbers(subject.truth.shape[0], 3, seed=6)
    assert_near(op.T.to_dense(), subject.truth.T)
    assert_near(op.T @ x, subject.truth.T @ x.numpy())
    assert torch.equal(op.T.T.to_dense(), op.to_dense())
    assert type(op.T) is type(op)
    if subject.symmetric:
        assert op.T is op  # it costs nothing


@subjects
def test_leading_axes_are_a_loop(subject: Subject) -> None:
    """To the last bit: the order in which a number is summed does not depend on what stands beside it."""
    op = subject.build(F64)
    for lead, width in itertools.product([(1,), (2,), (2, 3), (2, 1, 3), (0,), (2, 0)], [1, 4, 0]):
        x = operand(subject, *lead, width=width)
        out = op @ x
        assert out.shape == (*lead, subject.truth.shape[0], width)
        for index in np.ndindex(*lead):
            assert torch.equal(out[index], op @ x[index])


@few_subjects
def test_strided_operands(subject: Subject) -> None:
    op, n = subject.build(F64), subject.truth.shape[1]
    operands = {
        "transposed": numbers(4, n).T,
        "every other column": numbers(n, 8)[:, ::2],
        "expanded": numbers(1, n, 3).expand(5, n, 3),
        "permuted": numbers(n, 3, 5).permute(2, 0, 1),
        "a slice": numbers(n + 2, 3)[1:-1],
    }
    for name, x in operands.items():
        assert torch.equal(op @ x, op @ x.clone(memory_format=torch.contiguous_format)), name


@few_subjects
def test_the_names_of_torch(subject: Subject) -> None:
    op, x = subject.build(F64), operand(subject)
    expected = op @ x
    for function in (torch.matmul, torch.mm, torch.sparse.mm):
        assert torch.equal(function(op, x), expected)
    with pytest.raises(TypeError):
        x.T @ op  # only op @ x is defined


@given(st.lists(st.integers(0, 3), max_size=3), st.integers(0, 4), st.integers(0, 4))
def test_fold_and_unfold(lead: list[int], nodes: int, width: int) -> None:
    x = numbers(*lead, nodes, width)
    flat = fold(x)
    assert flat.is_contiguous()
    assert flat.shape == (nodes, width * int(np.prod(lead)))
    assert torch.equal(unfold(flat, x.shape), x)


def test_the_class_says_what_it_is() -> None:
    rectangle = CSR.from_dense(RECTANGLE)
    assert repr(rectangle) == f"CSR(6 × 4, nnz={np.count_nonzero(RECTANGLE)}, float32)"
    op = GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 3, kind="gcn", dtype=torch.bfloat16)
    assert repr(op) == "GraphOperator('gcn', 3 nodes, nnz=4, bfloat16, directed)"


def learned(subject: Subject) -> tuple[CSR, Tensor, Callable[[Tensor], Tensor]]:
    """The matrix, values to learn, and how they make a dense matrix."""
    op = subject.build(F64).detach()
    row = torch.from_numpy(np.repeat(np.arange(op.shape[0]), np.diff(op.rowptr.numpy())))
    place = (row, op.col.long())
    value = numbers(op.nnz, seed=8).requires_grad_()
    return op, value, lambda v: torch.zeros(op.shape, dtype=F64).index_put(place, v)


@subjects
def test_gradient(subject: Subject) -> None:
    op, value, dense = learned(subject)
    x, g = operand(subject, 2).requires_grad_(), numbers(2, subject.truth.shape[0], 3, seed=7)
    ours = torch.autograd.grad(op.with_value(value) @ x, (value, x), g)
    theirs = torch.autograd.grad(dense(value) @ x, (value, x), g)
    assert_near(ours[0], theirs[0])
    assert_near(ours[1], theirs[1])
    assert_near(torch.autograd.grad(op @ x, x, g)[0], subject.truth.T @ g.numpy())  # fixed values


@few_subjects
def test_gradcheck(subject: Subject) -> None:
    op, value, _ = learned(subject)
    x = operand(subject, width=2).requires_grad_()
    assert gradcheck(lambda x: op @ x, (x,))
    assert gradcheck(lambda v, x: op.with_value(v) @ x, (value, x))
    assert gradcheck(lambda v: op.with_value(v).to_dense(), (value,))


@pytest.mark.parametrize("subject", [s for s in FEW if s.truth.shape[0] < 10], ids=lambda s: s.name)
def test_double_backward(subject: Subject) -> None:
    op, value, _ = learned(subject)
    x = operand(subject, width=1).requires_grad_()
    assert gradgradcheck(lambda x: (op @ x).tanh(), (x,))
    assert gradgradcheck(lambda v, x: (op.with_value(v) @ x).tanh(), (value, x))


@few_subjects
def test_transpose_of_learned_values(subject: Subject) -> None:
    op, value, dense = learned(subject)
    x = numbers(subject.truth.shape[0], 3, seed=6).requires_grad_()
    ours, theirs = op.with_value(value).T @ x, dense(value).T @ x
    assert_near(ours, theirs)
    g = numbers(*ours.shape, seed=7)
    for a, b in zip(torch.autograd.grad(ours, (value, x), g), torch.autograd.grad(theirs, (value, x), g), strict=True):
        assert_near(a, b)


@few_subjects
def test_detach(subject: Subject) -> None:
    op, value, dense = learned(subject)
    trained = op.with_value(value)
    assert not trained.detach().value.requires_grad
    assert_near(trained.detach().to_dense(), dense(value).detach())
    assert_near(trained.detach().T.to_dense(), dense(value).detach().T)
    assert op.detach() is op


@few_subjects
def test_to_another_type(subject: Subject) -> None:
    op = subject.build(F64)
    op @ operand(subject)  # whatever it keeps from a product must be converted too
    for dtype in DTYPES:
        moved = op.to(dtype)
        assert moved.dtype == dtype
        assert moved.symmetric == op.symmetric
        assert type(moved) is type(op)
        assert getattr(moved, "kind", None) == getattr(op, "kind", None)
        assert_near(moved.to_dense(), subject.truth)
        x = operand(subject, dtype=dtype).requires_grad_()
        out = moved @ x
        assert_near(out, subject.truth @ x.detach().double().numpy())
        g = torch.ones_like(out)
        assert_near(torch.autograd.grad(out, x, g)[0], subject.truth.T @ g.double().numpy())
    assert op.to(F64) is op
    assert op.to("cpu") is op
    assert op.to(device="cpu", dtype=torch.float32).dtype == torch.float32


def test_to_keeps_the_gradient() -> None:
    op, value, _ = learned(FEW[1])
    x = operand(FEW[1], dtype=torch.float32)
    single = (op.with_value(value).to(torch.float32) @ x).sum()
    double = (op.with_value(value) @ x.double()).sum()
    assert_near(
        torch.autograd.grad(single, value)[0], torch.autograd.grad(double, value)[0], TOLERANCE[torch.float32]
    )  # fmt: skip


@few_subjects
@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        lambda op: pickle.loads(pickle.dumps(op)),
        lambda op: pytree.tree_unflatten(*pytree.tree_flatten(op)),
        lambda op: pytree.tree_map(lambda leaf: leaf, op),
    ],
    ids=["copy", "deepcopy", "pickle", "pytree", "tree_map"],
)
def test_copies(subject: Subject, copied: Callable[[CSR], CSR]) -> None:
    for used in (False, True):
        op = subject.build(F64)
        if used:
            op @ operand(subject)
            assert op.T.shape == op.shape[::-1]
        other = copied(op)
        assert type(other) is type(op)
        assert (other.shape, other.symmetric, repr(other)) == (op.shape, op.symmetric, repr(op))
        assert torch.equal(other.to_dense(), op.to_dense())
        assert torch.equal(other.T.to_dense(), op.T.to_dense())
        x = operand(subject).requires_grad_()
        g = numbers(subject.truth.shape[0], 3, seed=7)
        assert torch.equal(torch.autograd.grad(other @ x, x, g)[0], torch.autograd.grad(op @ x, x, g)[0])


def test_deepcopy_of_a_module_that_holds_one() -> None:
    """Also while the values are being learned and are no leaf, which a plain deep copy of tensors refuses."""
    op, value, dense = learned(FEW[0])
    module = torch.nn.Linear(2, 2)
    module.op = op.with_value(value * 2)
    assert torch.equal(copy.deepcopy(module).op.to_dense(), 2 * dense(value))


def tripled(leaf: Any) -> Any:
    return leaf * 3 if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


@few_subjects
def test_leaves_are_the_tensors(subject: Subject) -> None:
    op = subject.build(F64)
    leaves, structure = pytree.tree_flatten(op)
    assert all(leaf is None or isinstance(leaf, Tensor) for leaf in leaves)
    assert any(leaf is op.value for leaf in leaves)
    x = operand(subject).requires_grad_()
    (op @ x).sum().backward()
    assert op.T.nnz == op.with_value(op.value).T.nnz == op.nnz
    assert pytree.tree_structure(op) == structure  # use does not change what a compiled or exported program was given
    many = pytree.tree_map(tripled, op)
    assert torch.equal(many.to_dense(), 3 * op.to_dense())
    assert torch.equal(many.T.to_dense(), 3 * op.T.to_dense())


EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


OP = GraphOperator.from_edge_index(EDGES)


@pytest.mark.parametrize("target", [(), "nowhere", "cuda:99", object(), [1], 2**70])
def test_a_device_that_is_not_here_is_refused(target: Any) -> None:
    with pytest.raises(DeviceError, match="device"):
        OP.to(target)
    with pytest.raises(ArmagnnError, match="device"):
        coarsen(EDGES, 1).to(target)
