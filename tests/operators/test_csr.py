"""What every matrix can do: each subject of `operators.subjects` inherits all of it."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from collections.abc import Callable
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
from torch.utils import _pytree as pytree

from armagnn import CSR, GraphOperator
from armagnn.operators.csr import fold, unfold
from operators.subjects import FEW, RECTANGLE, SUBJECTS, Subject
from oracles import TOLERANCE, assert_near, numbers

F64 = torch.float64
DTYPES = (torch.float32, torch.float64, torch.bfloat16)

subjects = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: s.name)
few_subjects = pytest.mark.parametrize("subject", FEW, ids=lambda s: s.name)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: str(d).removeprefix("torch."))


def truth_of(subject: Subject) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(subject.truth))


def operand(subject: Subject, *lead: int, width: int = 3, dtype: torch.dtype = F64) -> Tensor:
    return numbers(*lead, subject.truth.shape[1], width, seed=5, dtype=dtype)


# --------------------------------------------------------------------------------------------------------------- values


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


# ------------------------------------------------------------------------------------------------------------ gradients


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


# ------------------------------------------------------------------------------------------------- types, copies, trees


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


# ----------------------------------------------------------------------------------------------------------- transforms


@few_subjects
def test_vmap_is_a_loop(subject: Subject) -> None:
    op, value, _ = learned(subject)
    x = operand(subject, 4)
    assert torch.equal(torch.func.vmap(lambda v: op @ v)(x), torch.stack([op @ v for v in x]))
    assert torch.equal(torch.func.vmap(lambda v: op @ v, 2, 2)(x.permute(1, 2, 0)), (op @ x).permute(1, 2, 0))
    assert torch.equal(torch.func.vmap(torch.func.vmap(lambda v: op @ v))(x[None]), (op @ x)[None])
    values = torch.stack([value.detach() * k for k in range(4)])
    out = torch.func.vmap(lambda v, x: op.with_value(v) @ x)(values, x)
    assert_near(out, torch.stack([op.with_value(v) @ u for v, u in zip(values, x, strict=True)]))


@few_subjects
def test_vmap_of_grad_is_a_loop(subject: Subject) -> None:
    op, value, dense = learned(subject)
    x = operand(subject, 4)
    values = torch.stack([value.detach() * (k + 1) for k in range(4)])
    ours = torch.func.vmap(torch.func.grad(lambda v, x: (op.with_value(v) @ x).pow(2).sum(), (0, 1)))(values, x)
    for k in range(4):
        theirs = torch.func.grad(lambda v, x: (dense(v) @ x).pow(2).sum(), (0, 1))(values[k], x[k])
        assert_near(ours[0][k], theirs[0])
        assert_near(ours[1][k], theirs[1])
    fixed = torch.func.vmap(torch.func.grad(lambda x: (op @ x).pow(2).sum()))(x)
    assert_near(fixed, 2 * torch.einsum("ji,jk,bkf->bif", *(truth_of(subject),) * 2, x))


def test_vmap_folds_into_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    from armagnn.kernels import cpu

    widths: list[int] = []
    gcs = cpu.gcs
    monkeypatch.setattr(cpu, "gcs", lambda *args: (widths.append(args[3].shape[1]), gcs(*args))[1])
    op = FEW[0].build(F64)
    x = operand(FEW[0], 5)
    widths.clear()
    torch.func.vmap(lambda v: op @ v)(x)
    op @ x
    assert widths == [15, 15]


def test_hessian() -> None:
    """d²/dx² of ½|A x|² is AᵀA: forward over reverse is not offered, reverse over reverse is."""
    subject = FEW[1]
    op, x = subject.build(F64), operand(subject, width=1)
    hessian = torch.func.jacrev(torch.func.grad(lambda x: (op @ x).pow(2).sum() / 2))(x)
    assert_near(hessian.squeeze(), subject.truth.T @ subject.truth)


# ------------------------------------------------------------------------------------------------------------ compilers


def step(op: CSR, x: Tensor) -> Tensor:
    return torch.tanh(op @ x) * 2


@few_subjects
def test_compiled_is_eager(subject: Subject) -> None:
    torch._dynamo.reset()
    op = subject.build(F64)
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    x = operand(subject, 2).requires_grad_()
    out, expected = compiled(op, x), step(op, x)
    assert torch.equal(out, expected)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (out, expected)))


@pytest.mark.parametrize("subject", FEW[:2], ids=lambda s: s.name)
def test_compiled_with_the_operator_as_a_constant(subject: Subject) -> None:
    torch._dynamo.reset()
    op, x = subject.build(F64), operand(subject, 2).requires_grad_()
    out, expected = torch.compile(lambda x: step(op, x), fullgraph=True, backend="aot_eager")(x), step(op, x)
    assert torch.equal(out, expected)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (out, expected)))


@few_subjects
def test_compiled_with_learned_values(subject: Subject) -> None:
    torch._dynamo.reset()
    op, value, dense = learned(subject)
    x = operand(subject).requires_grad_()
    compiled = torch.compile(lambda v, x: step(op.with_value(v), x), fullgraph=True, backend="aot_eager")
    out, truth = compiled(value, x), torch.tanh(dense(value) @ x) * 2
    assert_near(out, truth)
    for a, b in zip(*(torch.autograd.grad(y.sum(), (value, x)) for y in (out, truth)), strict=True):
        assert_near(a, b)


def test_compiled_by_inductor() -> None:
    torch._dynamo.reset()
    subject = FEW[1]
    op, x = subject.build(F64), operand(subject).requires_grad_()
    compiled = torch.compile(step, fullgraph=True)
    out, truth = compiled(op, x), torch.tanh(truth_of(subject) @ x) * 2
    assert_near(out, truth)
    assert_near(torch.autograd.grad(out.sum(), x)[0], torch.autograd.grad(truth.sum(), x)[0])


def test_compiled_once_for_graphs_of_any_size() -> None:
    torch._dynamo.reset()
    frames = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(step, fullgraph=True, backend=frames, dynamic=True)
    for nodes in (5, 8, 13):
        ring = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
        op = GraphOperator.from_edge_index(ring, nodes, kind="gcn")
        x = torch.randn(nodes, 3)
        assert torch.equal(compiled(op, x), step(op, x))
    assert frames.frame_count <= 2


class Model(torch.nn.Module):
    def forward(self, op: CSR, x: Tensor) -> Tensor:
        return step(op, x)


class Holder(torch.nn.Module):
    def __init__(self, op: CSR) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: Tensor) -> Tensor:
        return step(self.op, x)


def reloaded(program: Any) -> Any:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)


@few_subjects
def test_exported_saved_and_loaded(subject: Subject) -> None:
    op, x = subject.build(F64), operand(subject)
    program = torch.export.export(Model(), (op, x))
    assert "armagnn.spmm" in str(program.graph)
    again = reloaded(program).module()
    assert torch.equal(again(op, 2 * x), step(op, 2 * x))
    other = pytree.tree_map(tripled, op)
    assert torch.equal(again(other, x), step(other, x))  # the operator is an input, not a constant


def test_exported_with_the_operator_inside() -> None:
    subject = FEW[0]
    op, x = subject.build(F64), operand(subject)
    batch = torch.export.Dim("batch")
    program = torch.export.export(Holder(op), (operand(subject, 4),), dynamic_shapes=({0: batch},))
    again = reloaded(program).module()
    for size in (2, 7):
        many = x * torch.arange(1.0, size + 1, dtype=F64).view(-1, 1, 1)
        assert torch.equal(again(many), step(op, many))


def test_exported_under_vmap() -> None:
    """The exported graph holds the registered operator itself, whose own vmap rule then serves."""
    subject = FEW[1]
    op, x = subject.build(F64), operand(subject, 4)
    again = torch.export.export(Model(), (op, x[0])).module()
    assert torch.equal(torch.func.vmap(lambda v: again(op, v))(x), step(op, x))


# ------------------------------------------------------------------------------------------------------------- autocast


@few_subjects
def test_autocast(subject: Subject) -> None:
    op = subject.build(torch.float32)
    x = operand(subject, dtype=torch.float32).requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        out = op @ x
        again = op @ x.detach().bfloat16()  # what another layer under autocast hands on
    assert out.dtype == again.dtype == torch.bfloat16
    assert torch.equal(out, again)
    assert_near(out, subject.truth @ x.detach().double().numpy())
    g = torch.ones_like(out)
    (gradient,) = torch.autograd.grad(out, x, g)
    assert gradient.dtype == torch.float32
    assert_near(gradient, subject.truth.T @ g.double().numpy(), TOLERANCE[torch.bfloat16])


@few_subjects
def test_autocast_of_learned_values(subject: Subject) -> None:
    op, value, dense = learned(subject)
    single = value.detach().float().requires_grad_()
    x = operand(subject, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        out = op.with_value(single) @ x
    (ours,) = torch.autograd.grad(out.float().sum(), single)
    (theirs,) = torch.autograd.grad((dense(value) @ x.double()).sum(), value)
    assert ours.dtype == torch.float32
    assert_near(ours, theirs, TOLERANCE[torch.bfloat16])


def test_autocast_to_half_precision() -> None:
    op, x = FEW[0].build(torch.float32), operand(FEW[0], dtype=torch.float32)
    with torch.autocast("cpu", torch.float16):
        out = op @ x
    assert out.dtype == torch.float16
    assert_near(out.float(), FEW[0].truth @ x.double().numpy(), 2e-3)


def test_autocast_leaves_double_precision_alone() -> None:
    """As torch's own products do."""
    op, x = FEW[0].build(F64), operand(FEW[0])
    with torch.autocast("cpu", torch.bfloat16):
        assert (op.to_dense() @ x).dtype == F64
        assert torch.equal(op @ x, op @ x)
        assert (op @ x).dtype == F64


# ------------------------------------------------------------------------------------------------------------- builders


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
