"""Every registered operator supplies its dense truth in plain torch and inherits all checks of values and gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from armagnn import kernels
from armagnn.kernels import backends, cpu, ops, reference
from armagnn.kernels.random import keep_mask
from oracles import assert_near, numbers, sparse

Inputs = dict[str, Tensor]

A = sparse(5, 4, density=0.6, seed=1)
ROWPTR, COL, VALUE, T_ROWPTR, T_COL, _, PERM, INVERSE = A.arguments()
assert not torch.equal(PERM, INVERSE)  # a permutation that is its own inverse would hide mistakes
ROW = torch.from_numpy(A.row)
SYMMETRIC = torch.tensor([[0.0, 0.5, 0.0], [0.5, 0.0, -1.5], [0.0, -1.5, 2.0]], dtype=torch.float64)
ITSELF = (torch.tensor([0, 1, 3, 5]), torch.tensor([1, 0, 2, 1, 2]), SYMMETRIC[SYMMETRIC != 0])
SEED, P, STEP, SLOPE = torch.tensor([17]), 0.4, 3, 0.3
TORCH_ACTIVATION: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda z: z,
    "relu": torch.relu,
    "leaky_relu": lambda z: torch.nn.functional.leaky_relu(z, SLOPE),
    "elu": lambda z: torch.nn.functional.elu(z, SLOPE),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


def learned(value: Tensor) -> tuple[Tensor, ...]:
    return ROWPTR, COL, value, T_ROWPTR, T_COL, value.index_select(0, PERM), PERM, INVERSE


def dense(value: Tensor) -> Tensor:
    return torch.zeros(A.shape, dtype=value.dtype).index_put((ROW, COL.long()), value)


def dropped(x: Tensor) -> Tensor:
    return x * keep_mask(SEED, P, STEP, x.shape) / (1 - P)


@dataclass(frozen=True)
class Case:
    """One operator: its differentiable inputs, how it is called with them, and the dense truth."""

    name: str
    inputs: Inputs
    arguments: Callable[[Inputs], tuple[Any, ...]]
    truth: Callable[[Inputs], Tensor]

    @property
    def operator(self) -> str:
        return self.name.split()[0]

    def eager(self, **inputs: Tensor) -> Tensor:
        """As the package calls it: an autograd function."""
        out: Tensor = getattr(kernels, self.operator)(*self.arguments(inputs))
        return out

    def registered(self, **inputs: Tensor) -> Tensor:
        """As the compiler calls it: an operator of torch.library."""
        out: Tensor = getattr(torch.ops.armagnn, self.operator)(*self.arguments(inputs))
        return out

    def leaves(self) -> Inputs:
        return {name: tensor.clone().requires_grad_() for name, tensor in self.inputs.items()}


def step_case(act: str, variant: str) -> Case:
    inputs = {"value": VALUE, "x": numbers(4, 2, seed=1)}
    inputs |= {"skip": numbers(5, 2, seed=2)} if "skip" in variant else {}
    inputs |= {"bias": numbers(2, seed=3)} if "bias" in variant else {}
    seed = SEED if "dropout" in variant else None

    def arguments(i: Inputs) -> tuple[Any, ...]:
        return *learned(i["value"]), i["x"], i.get("skip"), i.get("bias"), seed, P, STEP, act, SLOPE

    def truth(i: Inputs) -> Tensor:
        z = dense(i["value"]) @ i["x"]
        if "skip" in i:
            z = z + (i["skip"] if seed is None else dropped(i["skip"]))
        return TORCH_ACTIVATION[act](z + i["bias"] if "bias" in i else z)

    return Case(f"gcs {act} {variant}", inputs, arguments, truth)


SPMM = Case(
    "spmm",
    {"value": VALUE, "x": numbers(4, 3, seed=1)},
    lambda i: (*learned(i["value"]), i["x"]),
    lambda i: dense(i["value"]) @ i["x"],
)
FIXED = Case(  # fixed symmetric values: the matrix is its own transpose and there is no permutation
    "spmm symmetric",
    {"x": numbers(3, 4, seed=1)},
    lambda i: (*ITSELF, *ITSELF, None, None, i["x"]),
    lambda i: SYMMETRIC @ i["x"],
)
SDDMM = Case(
    "sddmm",
    {"a": numbers(5, 3, seed=1), "b": numbers(4, 3, seed=2)},
    lambda i: (ROWPTR, COL, T_ROWPTR, T_COL, PERM, INVERSE, i["a"], i["b"]),
    lambda i: (i["a"] @ i["b"].T)[ROW, COL.long()],
)
DROPOUT = Case("dropout", {"x": numbers(3, 5, seed=1)}, lambda i: (i["x"], SEED, P, STEP), lambda i: dropped(i["x"]))
STACKS = Case(
    "stack_matmul",
    {"h": numbers(4, 3, 2, seed=1), "w": numbers(3, 2, 5, seed=2)},
    lambda i: (i["h"], i["w"]),
    lambda i: torch.einsum("mkf,kfg->mkg", i["h"], i["w"]),
)
VARIANTS = ("plain", "skip", "bias", "skip+bias", "skip+bias+dropout")
STEPS = [step_case(act, variant) for act in ops.ACTIVATIONS for variant in VARIANTS]
FEW = [SPMM, FIXED, SDDMM, DROPOUT, STACKS, step_case("relu", "skip+bias"), step_case("tanh", "skip+bias+dropout")]
ALL = [*FEW[:5], *STEPS]

all_cases = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name.replace(" ", "-"))
few_cases = pytest.mark.parametrize("case", FEW, ids=lambda case: case.name.replace(" ", "-"))


def test_every_activation_has_a_truth() -> None:
    assert set(TORCH_ACTIVATION) == set(ops.ACTIVATIONS)


# ------------------------------------------------------------------------------------------------- values and gradients


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


# ------------------------------------------------------------------------------------------------------------ compilers


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


# -------------------------------------------------------------------------------------------------------------- backend


@few_cases
def test_without_numba_the_reference_serves(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "_HAS_NUMBA", False)
    assert backends.backend("cpu") is reference
    weight = numbers(*case.truth(case.inputs).shape, seed=9)
    ours, theirs = (gradients(f, case.leaves(), weight) for f in (case.eager, lambda **i: case.truth(i)))
    for name in case.inputs:
        assert_near(ours[name], theirs[name])
