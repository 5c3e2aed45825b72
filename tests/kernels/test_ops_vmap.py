"""The rules of the registered operators for vmap: trials are columns, and a loop over them is the truth."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import kernels
from armagnn.kernels import cpu, ops, reference
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
    dense,
    few_cases,
    learned,
)
from oracles import assert_near, numbers


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
