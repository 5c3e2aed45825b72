"""When trials go one by one through a layer, and what must not go that way."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import CSR, GraphOperator
from armagnn.nn import ARMAConv
from nn.arma_oracle import random_graph

NODES = 9


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def operator() -> GraphOperator:
    return GraphOperator.from_edge_index(random_graph(NODES, 20, directed=True), NODES, dtype=torch.float64)


def of_weights(conv: ARMAConv, x: Any, op: GraphOperator, params: dict[str, Tensor]) -> Tensor:
    return torch.func.vmap(lambda p: torch.func.functional_call(conv, p, (x, op)))(params)


def many(conv: ARMAConv, trials: int = 5) -> dict[str, Tensor]:
    return {name: numbers(trials, *p.shape, seed=n) for n, (name, p) in enumerate(conv.named_parameters())}


def test_features_without_nonzeros() -> None:
    conv, op = ARMAConv(8, 16, 2).double(), operator()
    params = many(conv)
    found = of_weights(conv, CSR.from_dense(torch.zeros(NODES, 8, dtype=torch.float64)), op, params)
    bias = torch.relu(params["bias"].view(5, 1, 2, 16)).mean(2)
    torch.testing.assert_close(found, bias.expand(5, NODES, 16))


def test_weights_that_do_not_fit_are_refused() -> None:
    conv, op, x = ARMAConv(40, 4, 2).double(), operator(), numbers(5, NODES, 40)
    for name in ("initial_weight", "skip_weight"):
        params = many(conv)
        at = params[name].shape.index(40)
        params[name] = params[name].narrow(at, 0, 7)
        with pytest.raises(RuntimeError):
            torch.func.vmap(lambda p, x: torch.func.functional_call(conv, p, (x, op)))(params, x)


def test_a_bias_of_another_type_goes_the_other_way() -> None:
    conv, op = ARMAConv(8, 16, act=None), operator().to(torch.float32)
    params = {name: torch.zeros(4, *p.shape) for name, p in conv.named_parameters()}
    params["bias"] = torch.ones_like(params["bias"], dtype=torch.bfloat16)
    found = of_weights(conv, CSR.from_dense(torch.eye(NODES, 8)), op, params)
    assert torch.equal(found.float(), torch.ones(4, NODES, 16))


def test_an_infinite_feature_spoils_no_gradient_but_its_own() -> None:
    conv, op = ARMAConv(20, 3, 2, act=None).double(), operator()
    x = numbers(5, NODES, 20)
    x[0, 5, 7] = torch.inf
    x.requires_grad_()
    together = torch.autograd.grad(torch.func.vmap(lambda x: conv(x, op))(x).sum(), x)[0]
    alone = torch.autograd.grad(sum(conv(of_trial, op).sum() for of_trial in x), x)[0]
    torch.testing.assert_close(together, alone)
    assert torch.isfinite(together).all()


@pytest.mark.parametrize(
    ("sizes", "sparse", "expected"),
    [
        ((50, 16, 1), True, True), ((50, 15, 1), True, False), ((50, 8, 2), True, True), ((50, 7, 1), False, True),
        ((256, 64, 1), False, True), ((257, 64, 1), False, False),
    ],
)  # fmt: skip
def test_where_trials_one_by_one_would_be_slower(
    sizes: tuple[int, int, int], sparse: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from armagnn.kernels.cpu import one_step

    seen: list[int] = []
    real = one_step.forward
    monkeypatch.setattr(one_step, "forward", lambda t, keep: seen.append(t.trials) or real(t, keep))
    conv, op, fin = ARMAConv(*sizes).double(), operator(), sizes[0]
    for trials, called in ((4, expected), (3, False)):
        params, x = many(conv, trials), numbers(trials, NODES, fin)
        if sparse:
            of_weights(conv, CSR.from_dense(x[0]), op, params)
        else:
            torch.func.vmap(lambda p, x: torch.func.functional_call(conv, p, (x, op)))(params, x)
        assert seen == [trials] * called
        seen.clear()
    monkeypatch.setattr("armagnn.kernels.cpu.CACHED", 100)
    of_weights(conv, CSR.from_dense(numbers(NODES, fin)), op, many(conv))
    assert seen == []


@pytest.mark.parametrize(("trials", "stacks", "expected"), [(1, 3, False), (1, 4, True), (2, 1, True), (5, 1, True)])
def test_a_trial_alone_goes_stack_by_stack_if_it_has_stacks_to_share_out(
    trials: int, stacks: int, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    from armagnn.kernels.cpu import members

    seen: list[int] = []
    real = members.forward
    monkeypatch.setattr(members, "forward", lambda t, keep: seen.append(t.trials) or real(t, keep))
    conv, op = ARMAConv(4, 6, stacks, 2).double(), operator()
    of_weights(conv, numbers(NODES, 4), op, many(conv, trials))
    assert seen == [trials] * expected
