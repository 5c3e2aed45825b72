"""What is compared in the benchmark of signals computes the same."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn import functional as F

from armagnn.bench.mnist_signals import SIDE, OfPyG, compare_signals, compare_training, mnist_net
from armagnn.data.sets.mnist import grid_graph


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


@pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here"))],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")  # what is not recorded on a GPU is said by one
def test_a_training_is_timed_by_some_of_its_epochs(device: str) -> None:
    (row,) = compare_training(device, split=(51, 4, 4), batch=2, stacks=1, steps=1)
    assert (row.unit, row.limit, row.ratio) == ("s", 240.0, row.peer / row.ours)
    assert min(row.ours, row.peer) > 0
    assert "20 epochs of 51 signals, batches of 2" in row.work


def test_a_training_without_pyg_has_no_ratio() -> None:
    (row,) = compare_training("cpu", pyg=False, split=(51, 4, 4), batch=2, stacks=1, steps=1)
    assert math.isnan(row.ratio)
