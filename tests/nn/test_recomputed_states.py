"""`ARMAConv(checkpoint=True)`: the states are computed again on the way back, and nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.nn import ARMAConv
from oracles import assert_near, numbers, random_graph


def saved_bytes(conv: ARMAConv, x: Tensor, op: GraphOperator) -> tuple[Tensor, int]:
    """The output, and the bytes of what is kept for the way back, but for X, the operator and the weights."""
    given = {t.untyped_storage().data_ptr() for t in (x, op.value, op.col, op.rowptr, *conv.parameters())}
    kept = {}

    def pack(t: Tensor) -> Tensor:
        if t.untyped_storage().data_ptr() not in given:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = conv(x, op)
    return out, sum(kept.values())


@pytest.mark.parametrize("act", ["relu", "elu", "softplus", torch.nn.RReLU()])
@pytest.mark.parametrize("options", [{}, {"init": "zero"}, {"init": "tied"}, {"shared_weights": False}])
@pytest.mark.parametrize("learned", [False, True])
def test_a_checkpointed_layer_has_the_same_gradients_and_keeps_no_states(
    act: Any, options: dict[str, Any], learned: bool
) -> None:
    """Fused or step by step, with the masks (and random activations) of the first pass."""
    graph = random_graph(40, 90, seed=3)
    results = []
    for checkpoint in (False, True):
        torch.manual_seed(2)
        conv = ARMAConv(3, 5, 3, 4, act=act, dropout=0.4, checkpoint=checkpoint, **options).double()
        op = conv.operator(graph.edge_index, 40, graph.edge_weight())
        if learned:
            op = op.with_value(op.value.clone().requires_grad_())
        x = numbers(40, 3, seed=5).requires_grad_()
        torch.manual_seed(7)
        out, kept = saved_bytes(conv, x, op)
        torch.rand(3)  # what comes after has other numbers
        tensors = [x, *conv.parameters()] + [op.value] * learned
        first = torch.autograd.grad(out.square().sum(), tensors, create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), tensors, allow_unused=True)
        results.append((out, *first, *second, kept))
    (*plain, most), (*again, least) = results
    for a, b in zip(again, plain, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_near(a, b, 1e-12)
    states = 40 * 3 * 5 * 8
    assert most > 3 * states
    assert least < states


def test_checkpointed_trials_have_the_same_gradients() -> None:
    graph, found = random_graph(12, 30, seed=3), []
    x = numbers(12, 3, seed=5)
    for checkpoint in (False, True):
        torch.manual_seed(2)
        conv = ARMAConv(3, 5, 3, 4, dropout=0.4, checkpoint=checkpoint).double()
        op = conv.operator(graph.edge_index, 12, graph.edge_weight())
        params = {k: torch.stack([p, 2 * p, p.flip(-1)]).detach().requires_grad_() for k, p in conv.named_parameters()}
        torch.manual_seed(7)

        def single(p: dict[str, Tensor], conv: ARMAConv = conv, op: GraphOperator = op) -> Tensor:
            return torch.func.functional_call(conv, p, (x, op)).square().sum()

        losses = torch.func.vmap(single, randomness="different")(params)
        found.append(torch.autograd.grad(losses.sum(), list(params.values())))
    for a, b in zip(*found, strict=True):
        assert_near(a, b, 1e-12)


def test_signals_are_not_run_again_for_what_their_way_back_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    members = pytest.importorskip("armagnn.kernels.cpu.members", reason="needs numba")
    calls: list[bool] = []
    forward = members.forward
    monkeypatch.setattr(members, "forward", lambda t, keep: calls.append(keep) or forward(t, keep))
    op = random_graph(12, 30, seed=3)
    for checkpoint in (False, True):
        calls.clear()
        conv = ARMAConv(3, 5, 2, 3, checkpoint=checkpoint).double()
        conv(numbers(8, 12, 3, seed=5), conv.operator(op.edge_index, 12, op.edge_weight())).sum().backward()
        assert len(calls) == 1
