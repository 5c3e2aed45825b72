from __future__ import annotations

import pytest
import torch

from armagnn.nn import BernsteinConv, GPRConv, JacobiConv
from armagnn.nn.polynomial_conv import OnePolynomialConv
from nn.polynomial_oracle import normalised
from oracles import assert_near, numbers, random_graph


@pytest.mark.parametrize("layer", [GPRConv, BernsteinConv, JacobiConv])
@pytest.mark.parametrize("order", [0, 1, 25])
def test_any_degree_is_what_the_response_says_in_the_frequencies(layer: type[OnePolynomialConv], order: int) -> None:
    conv = layer(4, 4, order=order, act=None, bias=False).double()
    with torch.no_grad():
        conv.theta.add_(0.1 * numbers(*conv.theta.shape).abs())
        conv.weight.copy_(torch.eye(4))
    graph = random_graph(12, 30, seed=2).both_ways()
    x, op = numbers(12, 4), conv.operator(graph.edge_index, 12, graph.edge_weight())
    mu, vectors = torch.linalg.eigh(normalised(torch.from_numpy(graph.dense())))
    response = conv.response(mu)
    assert isinstance(response, torch.Tensor)
    table = response.T if response.dim() == 2 else response.unsqueeze(1)
    assert_near(conv(x, op), vectors @ (table * (vectors.T @ x)), 1e-10)
