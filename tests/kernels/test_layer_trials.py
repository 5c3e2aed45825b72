"""The layer of many trials as one operation, under vmap: against the recursion under vmap, and against one by one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.kernels import backend, cpu, layer_products, reference
from armagnn.kernels import layer as fused
from armagnn.kernels.cpu.stack_by_stack import ROWS
from armagnn.nn import ARMAConv
from armagnn.nn import arma_conv as module
from armagnn.randomness import source
from nn import trials_oracle
from nn.arma_oracle import random_graph
from nn.trials_oracle import FUSED, KINDS, NODES, TRIALS, Problem, calls, check, numbers, operator


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("init", ["linear", "zero", "tied"])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_every_option(kind: str, init: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = itertools.cycle(("none", "float", "tensor"))
    for shared, bias in itertools.product((True, False), (True, False)):
        options = {"num_stacks": 2, "num_layers": steps, "init": init, "shared_weights": shared, "bias": bias}
        for rate in (next(rates), next(rates)):
            check(Problem(kind, rate, act="tanh", **options), monkeypatch)


@pytest.mark.parametrize("kind", ["dense shared", "dense own"])
@pytest.mark.parametrize("rate", ["none", "float", "tensor"])
@pytest.mark.parametrize("bias", [True, False])
def test_few_features_are_propagated_first(kind: str, rate: str, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(kind, rate, fin=2, fout=5, num_stacks=2, num_layers=2, bias=bias)
    with torch.no_grad():
        assert problem.conv._propagates_first(numbers(NODES, 2))
    check(problem, monkeypatch)


@pytest.mark.parametrize("act", FUSED)
@pytest.mark.parametrize("kind", ["sparse own", "dense own"])
def test_every_activation(act: str | None, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for stacks in (1, 3):
        check(Problem(kind, "tensor", act=act, num_stacks=stacks, num_layers=2), monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_the_axis_of_the_trials_may_follow_that_of_the_features(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(Problem(kind, "tensor", axis="after the features", num_stacks=2), monkeypatch)


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the trials one by one wherever that can be done, also where it is slower."""
    from armagnn.kernels.cpu import members

    monkeypatch.setattr(members, "FEWEST", 1)
    monkeypatch.setattr(cpu, "NARROWEST", 1)


@pytest.mark.parametrize("kind", ["sparse shared", "sparse own", "dense own"])
@pytest.mark.parametrize("rate", ["none", "float", "tensor"])
@pytest.mark.parametrize("axis", ["first", "after the features"])
def test_one_step_trial_by_trial(kind: str, rate: str, axis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    from armagnn.kernels.cpu import one_step

    always(monkeypatch)
    done: list[str] = []
    for name in ("forward", "backward"):
        real = getattr(one_step, name)
        spy = lambda *args, name=name, real=real: done.append(name) or real(*args)  # noqa: E731
        monkeypatch.setattr(one_step, name, spy)
    for (stacks, fout), act in itertools.product(((1, 2), (2, 7), (3, 16)), (None, "relu", "leaky_relu", "elu")):
        for bias in (True, False):
            check(Problem(kind, rate, fin=50, fout=fout, axis=axis, num_stacks=stacks, act=act, bias=bias), monkeypatch)
            assert done == ["forward", "backward", "forward"]
            done.clear()


def stack_by_stack(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that collects the passes that go stack by stack."""
    pytest.importorskip("numba")
    from armagnn.kernels.cpu import members

    done: list[str] = []
    for name in ("forward", "backward"):
        real = getattr(members, name)
        spy = lambda *args, name=name, real=real: done.append(name) or real(*args)  # noqa: E731
        monkeypatch.setattr(members, name, spy)
    return done


@pytest.mark.parametrize("kind", ["dense shared", "dense own"])
@pytest.mark.parametrize("rate", ["none", "float", "tensor"])
@pytest.mark.parametrize("shared", [True, False])
def test_several_steps_stack_by_stack(kind: str, rate: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    done = stack_by_stack(monkeypatch)
    sizes = ((2, 1, 7), (3, 2, 16), (2, 3, 6), (4, 2, 33))  # T, K, F_out: masks that begin inside of a block, and not
    for (steps, stacks, fout), act in itertools.product(sizes, (None, "relu", "leaky_relu", "elu")):
        for bias in (True, False):
            options = {"num_layers": steps, "num_stacks": stacks, "shared_weights": shared, "bias": bias, "act": act}
            check(Problem(kind, rate, fin=5, fout=fout, **options), monkeypatch)
            assert done == ["forward", "backward", "forward"]
            done.clear()


@pytest.mark.parametrize("trials", [1, 2, 4, 5])  # few, whose stacks are shared out, and enough that are not
@pytest.mark.parametrize("kind", ["dense shared", "dense own"])
@pytest.mark.parametrize("rate", ["none", "tensor"])
def test_one_trial_and_many_stack_by_stack(trials: int, kind: str, rate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_oracle, "TRIALS", trials)
    done = stack_by_stack(monkeypatch)
    for (steps, stacks, fout), act in itertools.product(((2, 4, 7), (3, 5, 16)), ("relu", "elu")):
        problem = Problem(kind, rate, fin=5, fout=fout, num_layers=steps, num_stacks=stacks, act=act)
        check(problem, monkeypatch)
        assert done == ["forward", "backward", "forward"]
        done.clear()


@pytest.mark.parametrize("trials", [1, 3, 5])
def test_no_bit_depends_on_the_threads(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials_oracle, "TRIALS", trials)
    done = stack_by_stack(monkeypatch)
    problem = Problem("dense shared", "tensor", fin=5, fout=16, num_layers=3, num_stacks=5)
    before, found = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            out = problem.mapped()
            found.append((out, *problem.gradients(out)))
    finally:
        torch.set_num_threads(before)
    assert len(done) == 6
    for first, second, third in zip(*found, strict=True):
        assert torch.equal(first, second)
        assert torch.equal(first, third)


@pytest.mark.parametrize("act", ["relu", "elu"])
def test_more_rows_than_a_block_stack_by_stack(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = 2 * ROWS + 60
    monkeypatch.setattr(trials_oracle, "NODES", nodes)
    options = {"num_layers": 3, "num_stacks": 2, "shared_weights": False, "act": act}
    problem = Problem("dense own", "tensor", fin=5, fout=6, **options)
    problem.op = GraphOperator.from_edge_index(
        random_graph(nodes, 3 * nodes, directed=True), nodes, dtype=torch.float64
    )
    check(problem, monkeypatch)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_state_that_is_nan_tells_its_gradient(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    fin = 50 if steps == 1 else 2  # of one step, only features that are not propagated first go trial by trial
    problem = Problem("dense own", "none", fin=fin, fout=6, num_layers=steps, num_stacks=2, act="elu")
    with torch.no_grad():
        problem.x[1, 0, 0] = torch.nan  # type: ignore[index]
    *_, x_grad = problem.gradients(problem.mapped())
    assert x_grad is not None
    assert x_grad.isnan().any((1, 2)).tolist() == [False, True, False]


def test_a_second_derivative_of_trials_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    problem = Problem("dense own", "tensor", num_stacks=2, act="relu")
    found = []
    for usable in (True, False):
        with monkeypatch.context() as patch:
            if not usable:
                patch.setattr(fused, "usable_by_trials", lambda *_: False)
            first = torch.autograd.grad(problem.mapped().square().sum(), problem.leaves, create_graph=True)
            found.append(torch.autograd.grad(sum(g.square().sum() for g in first), problem.leaves))
    for ours, truth in zip(*found, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)


def test_weights_that_lie_as_the_product_wants_them_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trials of the weights on X follow its features: what the kernel multiplies with is the parameter itself."""
    problem = Problem("sparse own", "tensor", axis="after the features", num_stacks=2)
    kernels, places = backend("cpu"), []
    real = kernels.gcs
    monkeypatch.setattr(kernels, "gcs", lambda *args, **more: places.append(args[3].data_ptr()) or real(*args, **more))
    problem.mapped()
    weights = (problem.params["initial_weight"], problem.params["skip_weight"])
    assert {weight.data_ptr() for weight in weights} < set(places)


def test_the_members_by_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_products, "backend", lambda _: reference)
    for kind in KINDS:
        check(Problem(kind, "tensor", num_stacks=2, num_layers=2), monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", ["none", "tensor"])
def test_second_derivatives(kind: str, rate: str) -> None:
    problem = Problem(kind, rate, act="tanh", num_stacks=2, num_layers=2)

    def second(out: Tensor) -> tuple[Tensor, ...]:
        first = torch.autograd.grad((out**2).sum(), problem.leaves, create_graph=True)
        return torch.autograd.grad(sum((g**2).sum() for g in first), problem.leaves)  # type: ignore[arg-type,return-value]

    for ours, truth in zip(second(problem.mapped()), second(problem.looped()), strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-9, atol=1e-9)


def test_a_graph_that_is_kept_gives_the_same_gradients_twice() -> None:
    """What the first backward pass may write over when it is the last, it must not when another follows."""
    problem = Problem("sparse own", "tensor", num_stacks=2, num_layers=3)
    loss = (problem.mapped() ** 2).sum()
    first = torch.autograd.grad(loss, problem.leaves, retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(loss, problem.leaves), strict=True):
        assert torch.equal(a, b)


def test_parameters_that_trials_share_get_the_sum_of_their_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    conv, op, x = ARMAConv(4, 2, 2, 2).double(), operator(), numbers(TRIALS, NODES, 4)
    with calls(monkeypatch) as seen:
        ours = torch.func.vmap(lambda x: conv(x, op))(x)
    assert seen == [TRIALS]
    truth = torch.stack([conv(one, op) for one in x])
    torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)
    gradients = (torch.autograd.grad((out**2).sum(), list(conv.parameters())) for out in (ours, truth))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_other_types(kind: str, dtype: torch.dtype) -> None:
    problem = Problem(kind, "tensor", num_stacks=2, num_layers=2)
    truth = problem.gradients(problem.mapped())
    problem.op, problem.pattern = problem.op.to(dtype), None if problem.pattern is None else problem.pattern.to(dtype)
    problem.params = {name: param.detach().to(dtype).requires_grad_() for name, param in problem.params.items()}
    problem.leaves = list(problem.params.values())
    problem.x = None if problem.x is None else problem.x.detach().to(dtype)
    out = problem.mapped()
    assert out.dtype == dtype
    bound = 1e-5 if dtype == torch.float32 else 5e-2
    weight = numbers(*out.shape, seed=77)
    ours = torch.autograd.grad((out * weight.to(dtype)).sum(), problem.leaves)
    for a, b in zip(ours, truth, strict=False):  # the last of the truth may be that of x
        assert a.dtype == dtype
        assert (a.double() - b).norm() <= bound * b.norm()


# -------------------------------------------------------------------------------------------- what takes the recursion


def mapped_and_alone(conv: ARMAConv, x: Tensor, op: GraphOperator) -> tuple[Tensor, Tensor]:
    return torch.func.vmap(lambda x: conv(x, op))(x), torch.stack([conv(one, op) for one in x])


def test_what_the_one_operation_cannot_do_takes_the_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    op, x = operator(), numbers(TRIALS, 2, NODES, 4)
    learned = op.with_value(op.value.clone().requires_grad_())
    conv, sine = ARMAConv(4, 2, 2, 2).double(), ARMAConv(4, 2, 2, 2, act=torch.sin).double()
    cases = {
        "a batch of signals": lambda: mapped_and_alone(conv, x, op),
        "an activation of one's own": lambda: mapped_and_alone(sine, x[:, 0], op),
        "a learned operator": lambda: mapped_and_alone(conv, x[:, 0], learned),
        "vmap of vmap": lambda: (torch.func.vmap(torch.func.vmap(lambda x: conv(x, op)))(x), conv(x, op)),
        "no trials": lambda: (torch.func.vmap(lambda _: conv(x[0], op))(x), conv(x[0], op).expand(TRIALS, -1, -1, -1)),
        "features of which a gradient is wanted": lambda: of_values(conv, op),
    }
    for name, case in cases.items():
        with calls(monkeypatch) as seen:
            ours, truth = case()
        assert TRIALS not in seen, name
        torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


def of_values(conv: ARMAConv, op: GraphOperator) -> tuple[Tensor, Tensor]:
    pattern = CSR.from_dense(numbers(NODES, 4))
    values = numbers(TRIALS, pattern.nnz, seed=3).requires_grad_()
    ours = torch.func.vmap(lambda value: conv(pattern.with_value(value), op))(values)
    return ours, torch.stack([conv(pattern.with_value(value), op) for value in values])


def test_gradients_inside_the_vmap() -> None:
    """A transform of the gradient, not of the layer alone: vmap(grad)."""
    conv, op, xs = ARMAConv(4, 2, 2, 2, act="tanh").double(), operator(), numbers(TRIALS, NODES, 4)
    parameters = {name: parameter.detach() for name, parameter in conv.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return (torch.func.functional_call(conv, parameters, (x, op)) ** 2).sum()

    ours = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, xs)
    for r, x in enumerate(xs):
        for name, truth in torch.func.grad(loss)(parameters, x).items():
            torch.testing.assert_close(ours[name][r], truth, rtol=1e-10, atol=1e-10)


def test_one_seed_for_all_trials_and_no_other() -> None:
    """With ``randomness="same"`` the trials share a mask; without it, drawing inside vmap is an error, as in torch."""
    conv, op = ARMAConv(4, 3, 2, dropout=0.5).double(), operator()
    x = numbers(NODES, 4).expand(TRIALS, NODES, 4)
    out = torch.func.vmap(lambda x: conv(x, op), randomness="same")(x)
    assert torch.equal(out, out[:1].expand_as(out))
    out = torch.func.vmap(lambda x: conv(x, op), randomness="different")(x)
    assert not torch.equal(out[0], out[1])
    with pytest.raises(RuntimeError, match="randomness"):
        torch.func.vmap(lambda x: conv(x, op))(x)


@pytest.mark.parametrize("kind", ["sparse", "dense"])
@pytest.mark.parametrize("steps", [1, 3])
def test_a_rate_on_the_device_is_that_of_a_trial_alone(kind: str, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vmap too the layer is one operation, and drops what the same rate as a number drops."""
    conv, op = ARMAConv(4, 3, 2, steps).double(), operator()
    x: Any = numbers(NODES, 4) if kind == "dense" else CSR.from_dense(numbers(NODES, 4))
    results, real = [], layer_products.LayerRun.forward
    for rate in (0.4, torch.tensor(0.4, dtype=torch.float64)):
        conv.dropout = rate
        seen: list[int] = []
        monkeypatch.setattr(
            layer_products.LayerRun,
            "forward",
            lambda run, *rest, seen=seen: seen.append(run.trials) or real(run, *rest),
        )
        with source(torch.tensor([3])):
            out = conv(x, op)
        monkeypatch.undo()
        assert seen == [0]
        results.append((out, *torch.autograd.grad((out**2).sum(), list(conv.parameters()))))
    for ours, truth in zip(*results, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(results[0][0], conv.eval()(x, op))


def test_a_rate_on_the_device_with_many_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """They too go through the layer as one operation."""
    monkeypatch.setattr(cpu, "plan", reference.plan)  # but not one by one
    monkeypatch.setattr(module.Recursion, "run", lambda *_: pytest.fail("step by step"))
    conv, op, x = ARMAConv(4, 3, 2, 2).double(), operator(), numbers(5, NODES, 4).requires_grad_()
    results = []
    for rate in (0.4, torch.tensor(0.4, dtype=torch.float64)):
        conv.dropout = rate
        with source(torch.tensor([3])):
            out = conv(x, op)
        results.append((out, *torch.autograd.grad((out**2).sum(), [x, *conv.parameters()])))
    for ours, truth in zip(*results, strict=True):
        torch.testing.assert_close(ours, truth, rtol=1e-12, atol=1e-12)
