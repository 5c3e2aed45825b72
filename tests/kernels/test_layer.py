"""A backend may go back through a step in one pass, and a large layer by a few stacks: the gradients are the same."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from armagnn import GraphOperator
from armagnn.kernels import cpu, layer_products, reference
from armagnn.nn import ARMAConv
from armagnn.randomness import source
from kernels.late import late_step


def count_memory(patch: pytest.MonkeyPatch) -> None:
    """Go through layers as if they were large: two of three stacks of six columns at a time."""
    patch.setattr(layer_products, "CHUNK", 5)
    patch.setattr(layer_products, "COLUMNS", 13)


def gradients(conv: ARMAConv, x: Tensor, op: GraphOperator) -> list[Tensor]:
    x = x.clone().requires_grad_()
    torch.manual_seed(5)  # of the dropout masks
    out = conv(x, op)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return list(torch.autograd.grad((out * weights).sum(), [x, *conv.parameters()]))


@pytest.mark.parametrize("init", ["zero", "linear", "tied"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("p", [0.0, 0.4])
@pytest.mark.parametrize("shape", [(30, 4), (3, 30, 4)])
def test_a_backward_step_in_one_pass(
    init: str, shared: bool, p: float, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    op = GraphOperator.from_edge_index(torch.randint(0, 30, (2, 90)), 30, dtype=torch.float64)
    x, calls = torch.randn(shape, dtype=torch.float64), []
    monkeypatch.setattr(cpu, "plan", reference.plan)  # signals and small graphs have ways of their own there
    for steps, act in itertools.product((1, 2, 4), ("relu", "tanh")):
        conv = ARMAConv(4, 6, 3, steps, shared_weights=shared, dropout=p, act=act, init=init).double()
        truth = gradients(conv, x, op)
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "late_step", lambda *arguments: calls.append(1) or late_step(*arguments))
            for ours, theirs in zip(gradients(conv, x, op), truth, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
        with monkeypatch.context() as patch:
            count_memory(patch)
            for ours, theirs in zip(gradients(conv, x, op), truth, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert len(calls) == 2 * (0 + 1 + 3)


@pytest.mark.parametrize("init", ["zero", "linear", "tied"])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rated", [True, False])
def test_and_of_trials_whose_graph_is_kept(
    init: str, shared: bool, rated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = GraphOperator.from_edge_index(torch.randint(0, 20, (2, 60)), 20, dtype=torch.float64)
    seeds, rates = torch.arange(3 * 64).view(3, 64), torch.tensor([0.1, 0.0, 0.6], dtype=torch.float64)
    for channels in (4, 40):  # narrower than the states, and propagated first; or wider
        conv = ARMAConv(channels, 6, 3, 3, shared_weights=shared, init=init).double()
        params = {
            name: (param.detach() + 0.1 * torch.randn(3, *param.shape)).requires_grad_()
            for name, param in conv.named_parameters()
        }
        x = torch.randn(3, 20, channels, dtype=torch.float64, requires_grad=True)

        def single(params: dict[str, Tensor], x: Tensor, seed: Tensor, rate: Tensor, conv: ARMAConv = conv) -> Tensor:
            conv.dropout = rate if rated else 0.0
            with source(seed):
                return functional_call(conv, params, (x, op))  # type: ignore[no-any-return]

        def gradients(single=single, params=params, x=x) -> list[Tensor]:  # type: ignore[no-untyped-def]
            out = vmap(single)(params, x, seeds, rates)
            loss = (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum()
            tensors = [x, *params.values()]
            return [*torch.autograd.grad(loss, tensors, retain_graph=True), *torch.autograd.grad(loss, tensors)]

        truth = gradients()
        for change in (lambda patch: patch.setattr(cpu, "late_step", late_step), count_memory):
            with monkeypatch.context() as patch:
                change(patch)
                found = gradients()
            for ours, theirs in zip(found, truth, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_large_layer_of_half_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    op = GraphOperator.from_edge_index(torch.randint(0, 30, (2, 90)), 30, dtype=torch.bfloat16)
    conv, x = ARMAConv(4, 6, 3, 3).bfloat16(), torch.randn(30, 4, dtype=torch.bfloat16)
    monkeypatch.setattr(cpu, "plan", reference.plan)
    truth = gradients(conv, x, op)
    count_memory(monkeypatch)
    for ours, theirs in zip(gradients(conv, x, op), truth, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0.02, atol=0.02)
