from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from armagnn import GraphOperator
from armagnn.errors import ConvergenceWarning, SymmetryError, UnsupportedError
from armagnn.solvers import fraction_sums as module
from armagnn.solvers.iteration import Statistics
from armagnn.solvers.partial_fractions import partial_fractions
from oracles import assert_near, numbers, random_graph

GRAPH = random_graph(9, 20, seed=3).both_ways()
POLES = (0.3 + 0.6j, -1.2, 1.5, 0.1 - 0.3j)


def operator() -> GraphOperator:
    return GraphOperator.from_edge_index(GRAPH.edge_index, 9, GRAPH.edge_weight())


def problem(columns: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    a = torch.tensor([[(1 / p).real, (1 / p).imag] for p in map(complex, POLES)], dtype=torch.float64)
    a = a.unsqueeze(2) * (1 - 0.1 * torch.rand(columns, generator=torch.Generator().manual_seed(0))).double()
    b = numbers(len(POLES), 2, columns, seed=2)
    return numbers(9, columns).requires_grad_(), a.requires_grad_(), b.requires_grad_()


def dense(m: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    eye, columns = torch.eye(len(m), dtype=torch.complex128), []
    for c in range(y.shape[1]):
        terms = [
            torch.complex(*own[:, c]) * torch.linalg.solve(eye - torch.complex(*f[:, c]) * m, y[:, c].to(eye.dtype))
            for f, own in zip(a, b, strict=True)
        ]
        columns.append(sum(term.real for term in terms))
    return torch.stack(columns, 1)  # type: ignore[arg-type]


def test_what_is_returned_holds_no_more_memory_than_it_shows() -> None:
    y, a, b = problem()
    out = partial_fractions(operator(), y, a, b)
    out.sum().backward()
    for each in (out, y.grad):
        assert each is not None
        assert each.untyped_storage().nbytes() == each.numel() * each.element_size()


def test_values_and_gradients_are_those_of_dense_inverses() -> None:
    op, inputs = operator(), problem()
    log: list[Statistics] = []
    ours, truth = partial_fractions(op, *inputs, statistics=log), dense(op.to_dense(), *inputs)
    assert_near(ours, truth)
    direction = numbers(*truth.shape, seed=9)
    for one, other in zip(
        torch.autograd.grad((ours * direction).sum(), inputs),
        torch.autograd.grad((truth * direction).sum(), inputs),
        strict=True,
    ):
        assert other.abs().max() > 0.1
        assert_near(one, other, 1e-9)
    assert log[0].converged == [True] * 4
    assert log[0].adjoint.converged == [True] * 4


def test_gradcheck() -> None:
    op = operator()
    assert gradcheck(lambda *inputs: partial_fractions(op, *inputs), problem(2))


def test_gradient_by_the_values_of_the_operator() -> None:
    op, (y, a, b) = operator(), problem()
    value = op.value.clone().requires_grad_()
    learned = GraphOperator(op.rowptr, op.col, value, op.shape, kind="arma", symmetric=True)
    matrix = torch.zeros(9, 9, dtype=torch.float64).index_put((op._rows(), op.col.long()), value)
    direction = numbers(9, 3, seed=9)
    ours, theirs = (
        torch.autograd.grad((out * direction).sum(), value)[0]
        for out in (partial_fractions(learned, y, a, b), dense(matrix, y, a, b))
    )
    assert theirs.abs().max() > 0.1
    assert_near(ours, theirs, 1e-9)


def test_the_answers_are_not_kept() -> None:
    op, (y, a, b) = operator(), problem()
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.dim()) or t, lambda t: t):
        out = partial_fractions(op, y, a, b)
    assert max(sizes) < 4  # not (P, 2, N, C)
    assert_near(torch.autograd.grad(out.sum(), y)[0], torch.autograd.grad(dense(op.to_dense(), y, a, b).sum(), y)[0])


@pytest.mark.parametrize("wrong", [4, 5])
def test_a_product_that_lies_once_is_found_and_mended(monkeypatch: pytest.MonkeyPatch, wrong: int) -> None:
    """The residual of the sum is larger than the recursion's own; each system is solved and refined then."""
    op, inputs = operator(), problem()
    truth = dense(op.to_dense(), *inputs)
    honest, calls = module.product_of, [0]

    def lying(matrix: tuple[Tensor, ...]) -> Callable[..., Tensor]:
        product = honest(matrix)

        def multiply(x: Tensor, out: Tensor | None = None) -> Tensor:
            calls[0] += 1
            return product(x, out) + (1e-3 * numbers(*x.shape) if calls[0] == wrong else 0.0)

        return multiply

    direction = numbers(*truth.shape, seed=9)
    expected = torch.autograd.grad((truth * direction).sum(), inputs)
    monkeypatch.setattr(module, "product_of", lying)
    log: list[Statistics] = []
    ours = partial_fractions(op, *inputs, statistics=log)
    assert_near(ours, truth, 1e-9)
    assert log[0].failed == []
    calls[0] = 0
    for one, other in zip(torch.autograd.grad((ours * direction).sum(), inputs), expected, strict=True):
        assert_near(one, other, 1e-8)


@pytest.mark.parametrize("which", [(0, None, None), (None, 1, None), (1, 0, 2), (None, None, 0)])
def test_trials_of_a_vmap(which: tuple[int | None, ...]) -> None:
    op, inputs = operator(), [t.detach() for t in problem()]
    given = [
        t if dim is None else torch.stack([t, 0.9 * t], dim) for t, dim in zip(inputs, which, strict=True)
    ]  # fmt: skip
    leaves = [t.requires_grad_() for t in given]
    out = torch.vmap(lambda *each: partial_fractions(op, *each), in_dims=which)(*leaves)
    single = [[t if d is None else t.select(d, k) for t, d in zip(leaves, which, strict=True)] for k in range(2)]
    looped = torch.stack([partial_fractions(op, *each) for each in single])
    assert_near(out, looped)
    for one, other in zip(
        torch.autograd.grad(out.square().sum(), leaves),
        torch.autograd.grad(looped.square().sum(), leaves),
        strict=True,
    ):
        assert_near(one, other, 1e-9)


def test_gradients_of_each_trial_and_jacobians() -> None:
    op, (y, a, b) = operator(), (t.detach() for t in problem())
    a2 = torch.stack([a, 0.9 * a])

    def loss(y: Tensor, a: Tensor) -> Tensor:
        return partial_fractions(op, y, a, b).square().sum()

    found = torch.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(y, a2)
    for k in range(2):
        own = [t.clone().requires_grad_() for t in (y, a2[k])]
        for one, other in zip(found, torch.autograd.grad(loss(*own), own), strict=True):
            assert_near(one[k], other, 1e-9)
    jacobian = torch.func.jacrev(lambda y: partial_fractions(op, y, a, b))(y)
    leaf = y.clone().requires_grad_()
    out = partial_fractions(op, leaf, a, b)
    assert_near(jacobian[2, 1], torch.autograd.grad(out[2, 1], leaf)[0], 1e-9)
    out = partial_fractions(op, leaf, a, b)
    batch = numbers(3, *out.shape)
    (many,) = torch.autograd.grad(out, leaf, batch, is_grads_batched=True, retain_graph=True)
    assert_near(many[1], torch.autograd.grad(out, leaf, batch[1])[0], 1e-9)


def test_the_compiler_sees_one_node() -> None:
    op, inputs = operator(), problem()
    torch._dynamo.reset()
    compiled = torch.compile(lambda *t: partial_fractions(op, *t), fullgraph=True, backend="aot_eager")
    ours, eager = compiled(*inputs), partial_fractions(op, *inputs)
    assert_near(ours, eager)
    for one, other in zip(
        torch.autograd.grad(ours.sum(), inputs), torch.autograd.grad(eager.sum(), inputs), strict=True
    ):
        assert_near(one, other)


def test_second_derivatives_and_forward_ones_are_refused() -> None:
    op, (y, a, b) = operator(), problem()
    (gradient,) = torch.autograd.grad(partial_fractions(op, y, a, b).square().sum(), y, create_graph=True)
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(gradient.sum(), a)
    with pytest.raises(UnsupportedError, match="forwards"):
        torch.func.jvp(lambda y: partial_fractions(op, y, a.detach(), b.detach()), (y.detach(),), (y.detach(),))


def test_a_directed_graph_and_too_few_steps() -> None:
    y, a, b = problem()
    with pytest.raises(SymmetryError, match="symmetrize"):
        partial_fractions(GraphOperator.from_edge_index(torch.tensor([[0], [1]]), 9, dtype=y.dtype), y, a, b)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        partial_fractions(operator(), y, a, b, max_iter=1)
    op = operator()

    def of(value: Tensor) -> Tensor:
        made = GraphOperator(op.rowptr, op.col, value, op.shape, kind="arma", symmetric=True, check_invariants=False)
        return partial_fractions(made, y, a, b)

    with pytest.raises(UnsupportedError, match="one operator"):
        torch.vmap(of)(torch.stack([op.value, op.value]))
