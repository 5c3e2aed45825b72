"""A backend may go back through a step in one pass: the layer's gradients are the same, whatever it has besides."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.kernels import cpu
from armagnn.nn import ARMAConv
from kernels.late import late_step


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
    monkeypatch.setattr(cpu, "SIGNALS", False)  # signals have a way of their own there
    for steps, act in itertools.product((1, 2, 4), ("relu", "tanh")):
        conv = ARMAConv(4, 6, 3, steps, shared_weights=shared, dropout=p, act=act, init=init).double()
        truth = gradients(conv, x, op)
        with monkeypatch.context() as patch:
            patch.setattr(cpu, "late_step", lambda *arguments: calls.append(1) or late_step(*arguments))
            for ours, theirs in zip(gradients(conv, x, op), truth, strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    assert len(calls) == 2 * (0 + 1 + 3)
