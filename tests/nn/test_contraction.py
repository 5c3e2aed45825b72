"""A convergent layer in bfloat16: iterated in float32, given out in bfloat16."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import ParameterError
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint
from oracles import numbers, random_graph


@pytest.mark.parametrize("solver", ["picard", "anderson"])
def test_a_layer_in_bfloat16_finds_the_fixed_point_of_its_weights(solver: Any) -> None:
    ring = torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    op = GraphOperator.from_edge_index(torch.cat([ring, ring.flip(0)], 1), 6)  # rows of 0.5 and 0.5
    conv = ARMAConv(1, 1, act=None, bias=False, fixed_point=FixedPoint(tol=1e-6, contraction=0.99, solver=solver))
    with torch.no_grad():
        conv.weight.fill_(1.0)
        conv.skip_weight.fill_(1.0)
    conv, x = conv.bfloat16(), torch.ones(6, 1, dtype=torch.bfloat16, requires_grad=True)
    w = conv.bounded_weight.double().item()
    conv.fixed_point = FixedPoint(tol=1e-6, contraction=0.99, solver=solver, max_iter=5000)
    y = conv(x, op.to(torch.bfloat16))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), torch.full((6, 1), 1 / (1 - w)).double(), rtol=2**-8, atol=0)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient.double(), y.double().detach(), rtol=2**-7, atol=0)
    assert conv.statistics is not None
    assert conv.statistics.tolerances[0] < 1e-4


def test_a_random_layer_in_bfloat16_is_the_one_in_float32_with_its_weights() -> None:
    graph = random_graph(9, 14, seed=3).both_ways()
    op, x = GraphOperator.from_edge_index(graph.edge_index, 9, graph.edge_weight()), numbers(9, 3)
    conv = ARMAConv(3, 4, num_stacks=2, fixed_point=FixedPoint(contraction=0.9)).bfloat16()
    narrow, initial = op.to(torch.bfloat16), torch.zeros(2, x.shape[0], 4, dtype=torch.bfloat16)
    ours = conv.stacks(x.bfloat16(), narrow, initial=initial)
    twin = copy.deepcopy(conv).float()
    twin.fixed_point = FixedPoint(contraction=0.999)  # which bounds nothing more
    with torch.no_grad():
        twin.weight.copy_(conv.bounded_weight.unsqueeze(0) / 0.999)
    theirs = twin.stacks(x.bfloat16().float(), narrow.to(torch.float32))
    torch.testing.assert_close(ours.float(), theirs, rtol=2**-7, atol=1e-4)
    with pytest.raises(ParameterError, match=r"initial is torch.float32"):
        conv.stacks(x.bfloat16(), narrow, initial=initial.float())
