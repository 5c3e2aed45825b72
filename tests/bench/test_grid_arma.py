from __future__ import annotations

import numpy as np
import torch

from armagnn import GraphOperator
from armagnn.bench.grid_arma import relu_stacks
from armagnn.nn import ARMAConv
from bench.test_grid_filters import small_grid

DATA = small_grid()


def test_stacks_are_those_of_the_layer() -> None:
    edges = torch.from_numpy(np.concatenate([DATA.edges, DATA.edges[:, ::-1]]).T.copy())
    op = GraphOperator.from_edge_index(edges, 144)
    w, v, out = (torch.rand(1, 3, generator=torch.Generator().manual_seed(k)) for k in range(3))
    x = torch.from_numpy(DATA.images.T[:1]).float()
    conv = ARMAConv(1, 1, num_stacks=3, num_layers=10, init="tied", bias=False)
    with torch.no_grad():
        conv.weight.copy_(w.view_as(conv.weight))
        conv.skip_weight.copy_(v.view_as(conv.skip_weight))
        stacks = conv.stacks(x.T, op)  # (K, N, 1)
    torch.testing.assert_close(relu_stacks(op, x, w, v, out)[0], (out.view(3, 1, 1) * stacks).sum(0).squeeze(1))
