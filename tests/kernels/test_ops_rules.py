"""Derivatives of the registered operators forwards, of higher order, and in batches, against the dense truth."""

from __future__ import annotations

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
from armagnn.kernels.ops_rules import GRADIENTS, TANGENTS, VMAP
from kernels.operator_cases import SPMM, Case, all_cases, few_cases, learned
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
