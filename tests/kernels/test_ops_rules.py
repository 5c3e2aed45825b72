"""The rules of the registered operators against the dense truth: derivatives forwards, of higher order and in batches;
and vmap, whose trials are columns, against a loop over them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.functional import jacobian
from torch.func import hessian, jacfwd, jacrev, jvp, vmap

from armagnn import GraphOperator, kernels
from armagnn.kernels import cpu, ops, reference
from armagnn.kernels.ops_rules import GRADIENTS, TANGENTS, VMAP
from kernels.operator_cases import (
    COL,
    PERM,
    ROWPTR,
    SEED,
    SPMM,
    STEP,
    T_COL,
    T_ROWPTR,
    VALUE,
    Case,
    Inputs,
    P,
    all_cases,
    dense,
    few_cases,
    learned,
)
from oracles import Graph, assert_near, numbers
from strategies import graphs


def test_every_operator_has_a_derivative_forwards() -> None:
    assert TANGENTS.keys() == GRADIENTS.keys() == VMAP.keys()


def tangents(case: Case) -> dict[str, Tensor]:
    return {name: numbers(*tensor.shape, seed=20 + k) for k, (name, tensor) in enumerate(case.inputs.items())}


def forwards(case: Case, function: Any, which: tuple[str, ...]) -> Tensor:
    """The derivative along the tangents of some of the inputs, by torch.func."""
    moving, still = ({n: t for n, t in case.inputs.items() if (n in which) is chosen} for chosen in (True, False))
    along = {name: tangents(case)[name] for name in moving}
    out: Tensor = jvp(lambda some: function(**some, **still), (moving,), (along,))[1]
    return out


@all_cases
def test_forwards_by_torch_func(case: Case) -> None:
    for which in (*((name,) for name in case.inputs), tuple(case.inputs)):
        assert_near(forwards(case, case.eager, which), forwards(case, lambda **i: case.truth(i), which))


@all_cases
def test_forwards_by_dual_numbers(case: Case) -> None:
    with forward_ad.dual_level():
        dual = {name: forward_ad.make_dual(tensor, tangents(case)[name]) for name, tensor in case.inputs.items()}
        found = forward_ad.unpack_dual(case.eager(**dual)).tangent
    assert_near(found, forwards(case, lambda **i: case.truth(i), tuple(case.inputs)))


@few_cases
@pytest.mark.parametrize(
    "second",
    [hessian, lambda f: jacfwd(jacfwd(f)), lambda f: jacrev(jacfwd(f)), lambda f: jacrev(jacrev(f))],
    ids=["forwards-of-backwards", "forwards-twice", "backwards-of-forwards", "backwards-twice"],
)
def test_second_derivatives(case: Case, second: Any) -> None:
    """torch switches forward mode off within a Function's jvp, which made those of forwards twice zero."""
    weight = numbers(*case.truth(case.inputs).shape, seed=9)
    found, expected = (
        second(lambda inputs, f=f: (f(**inputs).square() * weight).sum())(case.inputs)
        for f in (case.eager, lambda **i: case.truth(i))
    )
    for one in case.inputs:
        for two in case.inputs:
            assert_near(found[one][two], expected[one][two], 1e-9)


@all_cases
def test_batches_of_gradients_equal_the_loop(case: Case) -> None:
    for way in (case.eager, case.registered):
        leaves = case.leaves()
        out, inputs = way(**leaves), list(leaves.values())
        many = numbers(3, *out.shape, seed=30)
        loop = [torch.autograd.grad(out, inputs, one, retain_graph=True) for one in many]
        batch = torch.autograd.grad(out, inputs, many, is_grads_batched=True)
        for found, expected in zip(batch, zip(*loop, strict=True), strict=True):
            assert_near(found, torch.stack(expected))


@few_cases
def test_batches_of_gradients_have_gradients(case: Case) -> None:
    leaves = case.leaves()
    inputs = list(leaves.values())
    many = numbers(2, *case.truth(case.inputs).shape, seed=30).requires_grad_()

    def second(way: Any) -> tuple[Tensor, ...]:
        out = way(**leaves)
        first = torch.autograd.grad(out, inputs, many, is_grads_batched=True, create_graph=True)
        total = sum((g.square().sum() for g in first), torch.zeros(()))
        found: tuple[Tensor, ...] = torch.autograd.grad(total, [*inputs, many], allow_unused=True)
        return tuple(torch.zeros(()) if g is None else g for g in found)

    for found, expected in zip(second(case.eager), second(lambda **i: case.truth(i)), strict=True):
        assert_near(found, expected, 1e-9)


def test_nested_vmap_keeps_the_values_of_an_inner_trial_with_its_columns() -> None:
    values, xs = numbers(3, *SPMM.inputs["value"].shape, seed=1), numbers(2, *SPMM.inputs["x"].shape, seed=2)
    found = vmap(lambda x: vmap(lambda value: kernels.spmm(*learned(value), x))(values))(xs)
    expected = torch.stack([torch.stack([kernels.spmm(*learned(value), x) for value in values]) for x in xs])
    assert_near(found, expected)


# ------------------------------------------------------------------------------------------------------------ operators


@settings(max_examples=30, deadline=None)
@given(graphs(max_nodes=6, max_edges=10), st.sampled_from(["arma", "gcn", "laplacian", "adjacency"]), st.integers(1, 3))
def test_the_derivative_of_a_product_forwards_is_the_product_of_the_tangent(
    graph: Graph, kind: Any, width: int
) -> None:
    op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, graph.edge_weight(), kind)
    x, along = (numbers(graph.num_nodes, width, seed=seed) for seed in (1, 2))
    value, tangent = jvp(lambda x: op @ x, (x,), (along,))
    assert torch.equal(value, op @ x)
    assert torch.equal(tangent, op @ along)


@settings(max_examples=30, deadline=None)
@given(graphs(max_nodes=6, max_edges=10, weights=st.floats(0.1, 3.0)), st.sampled_from(["arma", "gcn", "laplacian"]))
def test_derivatives_by_edge_weights_agree_in_every_mode(graph: Graph, kind: Any) -> None:
    x = numbers(graph.num_nodes, 2, seed=1)

    def product(weight: Tensor) -> Tensor:
        op = GraphOperator.from_edge_index(graph.edge_index, graph.num_nodes, weight, kind)
        return op @ (op @ x)

    weight = graph.edge_weight()
    assume(weight.numel())
    expected = jacobian(product, weight)
    assert_near(jacfwd(product)(weight), expected, 1e-9)
    assert_near(jacobian(product, weight, vectorize=True), expected, 1e-9)
    assert_near(jacobian(product, weight, vectorize=True, strategy="forward-mode"), expected, 1e-9)


def test_a_symmetric_operator_with_a_tangent_that_is_not() -> None:
    """Its transpose then is another matrix, which the way back through the derivative meets."""
    pair = GraphOperator.from_edge_index(torch.tensor([[0, 1], [1, 0]]), dtype=torch.float64)
    x, along = numbers(2, 1, seed=1).requires_grad_(), torch.tensor([1.0, 3.0], dtype=torch.float64)
    with forward_ad.dual_level():
        op = GraphOperator(
            pair.rowptr, pair.col, forward_ad.make_dual(pair.value, along), pair.shape, kind="arma", symmetric=True
        )
        out = forward_ad.unpack_dual(op @ x).tangent
        (found,) = torch.autograd.grad(out.sum(), x)
    assert_near(found.flatten(), torch.tensor([3.0, 1.0], dtype=torch.float64))


# ----------------------------------------------------------------------------------------------------------------- vmap


def batches(case: Case) -> list[tuple[str, ...]]:
    """Every way to give some of the inputs a batch axis."""
    names = tuple(case.inputs)
    return [s for size in range(1, len(names) + 1) for s in itertools.combinations(names, size)]


def loop(function: Callable[..., Any], inputs: Inputs, batched: tuple[str, ...], axis: int, size: int) -> list[Any]:
    return [function(**{n: t.select(axis, k) if n in batched else t for n, t in inputs.items()}) for k in range(size)]


@few_cases
@pytest.mark.parametrize("axis", [0, -1])
def test_vmap_is_a_loop(case: Case, axis: int) -> None:
    size = 3
    for batched in batches(case):
        inputs = {
            name: torch.stack([t * (k + 1) for k in range(size)], dim=axis) if name in batched else t
            for name, t in case.inputs.items()
        }
        dims = ({name: axis if name in batched else None for name in inputs},)
        for function in (case.eager, case.registered):
            out = torch.func.vmap(lambda i, f=function: f(**i), dims)(inputs)
            assert_near(out, torch.stack(loop(function, inputs, batched, axis, size)))


@few_cases
def test_vmap_of_grad_is_a_loop(case: Case) -> None:
    size, names = 3, list(case.inputs)
    inputs = {name: torch.stack([t * (k + 1) for k in range(size)]) for name, t in case.inputs.items()}

    def loss(*tensors: Tensor) -> Tensor:
        return case.eager(**dict(zip(names, tensors, strict=True))).pow(2).sum()

    def truth(*tensors: Tensor) -> Tensor:
        return case.truth(dict(zip(names, tensors, strict=True))).pow(2).sum()

    which = tuple(range(len(names)))
    ours = torch.func.vmap(torch.func.grad(loss, which))(*inputs.values())
    for k in range(size):
        theirs = torch.func.grad(truth, which)(*(t[k] for t in inputs.values()))
        for a, b in zip(ours, theirs, strict=True):
            assert_near(a[k], b)


def test_vmap_of_vmap() -> None:
    function = lambda v: SPMM.eager(value=VALUE, x=v)  # noqa: E731
    x = numbers(2, 3, 4, 5)
    assert_near(torch.func.vmap(torch.func.vmap(function))(x), dense(VALUE) @ x)
    x = numbers(2, 4, 6, 3)
    assert_near(torch.func.vmap(torch.func.vmap(function, 1))(x), torch.einsum("ij,bjcf->bcif", dense(VALUE), x))


def test_vmap_over_seeds() -> None:
    """Each element of the batch draws its own mask, the one that its seed gives alone."""
    seeds = torch.tensor([[1], [2], [3]])
    x = numbers(6, 50)
    out = torch.func.vmap(lambda s: kernels.dropout(x, s, P, STEP))(seeds)
    assert torch.equal(out, torch.stack([kernels.dropout(x, s, P, STEP) for s in seeds]))
    assert not torch.equal(out[0], out[1])
    skip = numbers(5, 2)
    step = lambda s: kernels.gcs(*learned(VALUE), numbers(4, 2), skip, None, s, P, STEP, "relu", 0.0)  # noqa: E731
    assert torch.equal(torch.func.vmap(step)(seeds), torch.stack([step(s) for s in seeds]))


@pytest.mark.parametrize("kernel", ["cpu", "reference"])
def test_vmap_over_values_of_a_fixed_matrix(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One product for all trials, not one for each; with the gradient of x, and a batch axis in any place."""
    chosen, size = cpu if kernel == "cpu" else reference, 3
    calls: list[tuple[int, ...]] = []
    real = chosen.gcs
    counted = lambda *args, **more: calls.append(args[2].shape) or real(*args, **more)  # noqa: E731
    monkeypatch.setattr(chosen, "gcs", counted)
    monkeypatch.setattr(ops, "backend", lambda _: chosen)
    values = numbers(size, VALUE.numel(), seed=8)
    shared, own = numbers(4, 2, seed=3).requires_grad_(), numbers(4, size, 2, seed=4).requires_grad_()
    skip, bias = numbers(size, 5, 2, seed=5).requires_grad_(), numbers(2, seed=6).requires_grad_()

    def fixed(value: Tensor) -> tuple[Any, ...]:
        return ROWPTR, COL, value, T_ROWPTR, T_COL, value.index_select(0, PERM), None, None

    def single(value: Tensor, x: Tensor, skip: Tensor) -> Tensor:
        product = kernels.spmm(*fixed(value), x)
        return product + kernels.gcs(*fixed(value), product.new_ones(4, 2), skip, bias, None, 0.0, 0, "tanh", 0.0)

    for x, dim in ((shared, None), (own, 1)):
        calls.clear()
        out = torch.func.vmap(single, (0, dim, 0))(values, x, skip)
        assert [shape for shape in calls if len(shape) == 2] == [values.shape] * 2
        assert kernel == "reference" or len(calls) == 2  # the reference calls itself for every trial
        truth = torch.stack([single(values[r], x if dim is None else x[:, r], skip[r]) for r in range(size)])
        assert_near(out, truth)
        weight = numbers(*out.shape, seed=9)
        pairs = zip(*(torch.autograd.grad((y * weight).sum(), [x, skip, bias]) for y in (out, truth)), strict=True)
        for ours, theirs in pairs:
            assert_near(ours, theirs)


@pytest.mark.parametrize("shape", [(6, 50), (7, 3), (33,)])
def test_vmap_over_rates_and_seeds(shape: tuple[int, ...]) -> None:
    """Each trial drops at its own rate by its own seed: the entries that it would drop alone, and so do gradients."""
    seeds, rates = torch.tensor([[1], [2], [3]]), torch.tensor([0.2, 0.0, 0.8], dtype=torch.float64)
    x, xs = numbers(*shape) + 3, numbers(*shape, 3) + 3

    def alone(x: Tensor, r: int) -> Tensor:
        return kernels.dropout(x, seeds[r], rates[r].item(), STEP)

    out = torch.func.vmap(lambda s, p: kernels.dropout(x, s, p, STEP))(seeds, rates)
    assert torch.equal(out, torch.stack([alone(x, r) for r in range(3)]))
    assert torch.equal(out[1], x)
    assert not torch.equal(out[0], x)
    xs.requires_grad_()
    out = torch.func.vmap(lambda x, s, p: kernels.dropout(x, s, p, STEP), (-1, 0, 0))(xs, seeds, rates)
    truth = torch.stack([alone(xs[..., r], r) for r in range(3)])
    assert torch.equal(out, truth)
    weight = numbers(*out.shape, seed=2)
    ours, theirs = (torch.autograd.grad((y * weight).sum(), xs)[0] for y in (out, truth))
    assert torch.equal(ours, theirs)
    assert (ours == 0).any()


def test_vmap_over_rates_with_one_seed() -> None:
    """With the same seed, a higher rate drops what a lower one drops, and more."""
    rates = torch.tensor([0.3, 0.6], dtype=torch.float64)
    low, high = torch.func.vmap(lambda p: kernels.dropout(numbers(9, 9) + 5, SEED, p, STEP))(rates)
    assert ((low != 0) >= (high != 0)).all()
    assert (low != 0).sum() > (high != 0).sum() > 0


def test_jacobian() -> None:
    """torch.func.jacrev runs the backward pass under vmap: the Jacobian of A x in x is A, one block a column."""
    jacobian = torch.func.jacrev(lambda x: SPMM.eager(value=VALUE, x=x))(numbers(4, 2))
    assert_near(jacobian, torch.einsum("ij,fg->ifjg", dense(VALUE), torch.eye(2, dtype=torch.float64)))
