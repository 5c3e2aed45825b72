"""What is compared in the benchmark of signals computes the same."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from armagnn.bench.signals import SIDE, OfPyG, compare_signals, mnist_net
from armagnn.data.mnist import grid_graph


def test_the_network_of_pygs_layers_is_ours_weight_for_weight() -> None:
    net = mnist_net(stacks=2, steps=2)
    levels = net.levels(grid_graph(SIDE), SIDE * SIDE)
    peer = OfPyG(net, 2)
    x, y = torch.rand(2, SIDE * SIDE, 1), torch.tensor([1, 7])
    torch.testing.assert_close(net(x, levels), peer(x, levels), rtol=1e-4, atol=1e-5)
    for model in (net, peer):
        F.cross_entropy(model(x, levels), y).backward()
    torch.testing.assert_close(net.head[0].weight.grad, peer.head[0].weight.grad, rtol=1e-4, atol=1e-6)
    assert sum(p.numel() for p in net.parameters()) == sum(p.numel() for p in peer.parameters())


def test_a_row_tells_the_ratio() -> None:
    (row,) = compare_signals(rounds=1, batch=2, stacks=1, steps=1)
    assert row.ratio == row.peer / row.ours
    assert row.required == 15.0
