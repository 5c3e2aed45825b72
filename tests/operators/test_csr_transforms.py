"""Products under vmap, the compiler, export and autocast: every matrix of `subjects`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch._dynamo.testing
from torch import Tensor
from torch.utils import _pytree as pytree

from armagnn import CSR, GraphOperator
from operators.subjects import FEW, Subject
from oracles import TOLERANCE, assert_near, numbers

F64 = torch.float64


few_subjects = pytest.mark.parametrize("subject", FEW, ids=lambda s: s.name)


def truth_of(subject: Subject) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(subject.truth))


def operand(subject: Subject, *lead: int, width: int = 3, dtype: torch.dtype = F64) -> Tensor:
    return numbers(*lead, subject.truth.shape[1], width, seed=5, dtype=dtype)


def learned(subject: Subject) -> tuple[CSR, Tensor, Callable[[Tensor], Tensor]]:
    """The matrix, values to learn, and how they make a dense matrix."""
    op = subject.build(F64).detach()
    row = torch.from_numpy(np.repeat(np.arange(op.shape[0]), np.diff(op.rowptr.numpy())))
    place = (row, op.col.long())
    value = numbers(op.nnz, seed=8).requires_grad_()
    return op, value, lambda v: torch.zeros(op.shape, dtype=F64).index_put(place, v)


def tripled(leaf: Any) -> Any:
    return leaf * 3 if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


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
