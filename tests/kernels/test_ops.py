"""Every registered operator supplies its dense truth in plain torch and inherits all checks of values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from armagnn.kernels import backends, ops, reference
from kernels.operator_cases import (
    COL,
    FIXED,
    ROWPTR,
    SPMM,
    TORCH_ACTIVATION,
    Case,
    Inputs,
    all_cases,
    few_cases,
)
from oracles import assert_near, numbers


def test_every_activation_has_a_truth() -> None:
    assert set(TORCH_ACTIVATION) == set(ops.ACTIVATIONS)


def gradients(function: Callable[..., Tensor], leaves: Inputs, weight: Tensor) -> Inputs:
    found = torch.autograd.grad((function(**leaves) * weight).sum(), list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


@all_cases
@pytest.mark.parametrize("way", ["eager", "registered"])
def test_value_and_gradient(case: Case, way: str) -> None:
    function = getattr(case, way)
    out, truth = function(**case.inputs), case.truth(case.inputs)
    assert out.is_contiguous()
    assert_near(out, truth)
    weight = numbers(*truth.shape, seed=9)
    ours, theirs = (gradients(f, case.leaves(), weight) for f in (function, lambda **i: case.truth(i)))
    for name in case.inputs:
        assert_near(ours[name], theirs[name])


@all_cases
def test_gradcheck(case: Case) -> None:
    leaves = case.leaves()
    function = lambda *tensors: case.eager(**dict(zip(leaves, tensors, strict=True)))  # noqa: E731
    assert gradcheck(function, tuple(leaves.values()))
    assert gradgradcheck(function, tuple(leaves.values()))


@few_cases
def test_gradcheck_of_the_registered_operator(case: Case) -> None:
    leaves = case.leaves()
    function = lambda *tensors: case.registered(**dict(zip(leaves, tensors, strict=True)))  # noqa: E731
    assert gradcheck(function, tuple(leaves.values()))
    assert gradgradcheck(function, tuple(leaves.values()))


@few_cases
def test_third_derivative(case: Case) -> None:
    """Every backward pass is made of the same operators, so there is no last one."""

    def third(function: Callable[..., Tensor]) -> list[Tensor]:
        leaves = case.leaves()
        total = function(**leaves).pow(4).sum()
        for _ in range(3):
            found = torch.autograd.grad(total, list(leaves.values()), create_graph=True)
            total = sum((g * numbers(*g.shape, seed=k)).pow(2).sum() for k, g in enumerate(found))
        return list(found)

    for ours, theirs in zip(third(case.eager), third(lambda **i: case.truth(i)), strict=True):
        assert_near(ours, theirs, 1e-9)


@all_cases
def test_only_what_is_asked_for(case: Case) -> None:
    """The gradient of one input alone is the one that it has among all: what is saved depends on what is needed."""
    weight = numbers(*case.truth(case.inputs).shape, seed=9)
    together = gradients(case.eager, case.leaves(), weight)
    for name, tensor in case.inputs.items():
        leaf = tensor.clone().requires_grad_()
        out = case.eager(**(case.inputs | {name: leaf}))
        assert torch.equal(torch.autograd.grad((out * weight).sum(), leaf)[0], together[name])
    assert not case.eager(**case.inputs).requires_grad


@few_cases
def test_a_strided_gradient(case: Case) -> None:
    """An expanded gradient, as a sum makes it, and a transposed one."""
    shape = case.truth(case.inputs).shape
    weight = numbers(*reversed(shape), seed=9).permute(*reversed(range(len(shape))))
    for g in (torch.ones((), dtype=torch.float64).expand(shape), weight):
        ours, theirs = (
            torch.autograd.grad(function(**leaves), list(leaves.values()), g)
            for function, leaves in ((case.eager, case.leaves()), (lambda **i: case.truth(i), case.leaves()))
        )
        for a, b in zip(ours, theirs, strict=True):
            assert_near(a, b)


@few_cases
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_in_other_types(case: Case, dtype: torch.dtype) -> None:
    if case is FIXED:
        pytest.skip("its values are float64")
    leaves = {name: tensor.to(dtype).requires_grad_() for name, tensor in case.inputs.items()}
    exact = {name: leaf.detach().double().requires_grad_() for name, leaf in leaves.items()}
    weight = torch.ones(case.truth(case.inputs).shape, dtype=torch.float64)
    ours = gradients(case.eager, leaves, weight.to(dtype))
    theirs = gradients(lambda **i: case.truth(i), exact, weight)
    for name in leaves:
        assert ours[name].dtype == dtype
        assert_near(ours[name], theirs[name], 0.05 if dtype == torch.bfloat16 else None)


@few_cases
def test_opcheck(case: Case) -> None:
    """torch's own checks of schema, autograd registration, fake tensors and tracing with dynamic shapes."""
    operator = getattr(torch.ops.armagnn, case.operator).default
    torch.library.opcheck(operator, case.arguments(case.leaves()))


def test_opcheck_of_patterns() -> None:
    row, col = torch.tensor([2, 0, 2, 1]), torch.tensor([1, 1, 0, 1])
    torch.library.opcheck(torch.ops.armagnn.sort_coo.default, (row, col, 3, 2))
    torch.library.opcheck(torch.ops.armagnn.transpose.default, (ROWPTR, COL, 4))


@few_cases
def test_compiled_is_eager(case: Case) -> None:
    torch._dynamo.reset()
    names = list(case.inputs)
    compiled = torch.compile(
        lambda *ts: case.eager(**dict(zip(names, ts, strict=True))), fullgraph=True, backend="aot_eager"
    )
    out = compiled(*case.inputs.values())
    assert torch.equal(out, case.eager(**case.inputs))
    weight = numbers(*out.shape, seed=9)
    ours = gradients(lambda **i: compiled(*i.values()), case.leaves(), weight)
    theirs = gradients(case.eager, case.leaves(), weight)
    for name in names:
        assert_near(ours[name], theirs[name])


def test_counters_see_the_operator() -> None:
    """Under a dispatch mode (a FLOP counter, fake tensors) the call goes through torch.library, in value the same."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Spy(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Spy():
        out = SPMM.eager(**SPMM.inputs)
    assert "armagnn.spmm.default" in seen
    assert torch.equal(out, SPMM.eager(**SPMM.inputs))


@few_cases
def test_without_numba_the_reference_serves(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_HAS_NUMBA", False)
    assert backends.backend("cpu") is reference
    weight = numbers(*case.truth(case.inputs).shape, seed=9)
    ours, theirs = (gradients(f, case.leaves(), weight) for f in (case.eager, lambda **i: case.truth(i)))
    for name in case.inputs:
        assert_near(ours[name], theirs[name])
