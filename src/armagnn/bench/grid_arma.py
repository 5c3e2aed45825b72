"""Training the ARMA layer of Eq. 14 on the masked pixels of images, all images and filters together."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor

from armagnn.bench.grid_filters import Array, GridData
from armagnn.bench.grid_rational import RATES
from armagnn.operators import GraphOperator

ARMA_STEPS: Final = 500
"""Steps of Adam: a quarter of those of the other methods, whose training is faster."""

ARMA_LAYERS: Final = 10
"""T."""


def train_arma(data: GridData, count: int) -> Array:
    """Return the squared errors (5, B) that Adam reaches; every image and filter has weights of its own.

    The weights count that had the lowest loss on the way.
    """
    images = data.images.shape[1]
    edges = torch.from_numpy(np.concatenate([data.edges, data.edges[:, ::-1]]).T.astype(np.int64))
    op = GraphOperator.from_edge_index(edges, len(data.images), dtype=torch.float32)
    stacks, trials = count // 3, images * len(data.targets)
    x = torch.from_numpy(data.images.T).float().repeat(len(data.targets), 1)  # a trial is a filter, then an image
    y = torch.from_numpy(np.concatenate([target.T for target in data.targets.values()])).float()
    inside = torch.from_numpy(data.mask)
    lowest = torch.full((trials,), torch.inf)
    for rate in RATES:
        generator = torch.Generator().manual_seed(0)
        w, v, out = (torch.rand(trials, stacks, generator=generator) for _ in range(3))
        w, v, out = leaves = [t.requires_grad_() for t in (0.9 * (2 * w - 1), v, 2 * out - 1)]
        optimizer = torch.optim.Adam(leaves, lr=rate)
        for _ in range(ARMA_STEPS):
            optimizer.zero_grad()
            left = (relu_stacks(op, x, w, v, out) - y)[:, inside].square().sum(1)
            lowest = torch.minimum(lowest, left.detach())
            left.sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    found: Array = lowest.view(len(data.targets), images).double().numpy()
    return found


def relu_stacks(op: GraphOperator, x: Tensor, w: Tensor, v: Tensor, out: Tensor, steps: int = ARMA_LAYERS) -> Tensor:
    r"""Return :math:`\sum_k o_k \bar X_k^{(T)}` of Eq. 14 with one feature, shape (R, N), for weights (R, K).

    It is `ARMAConv` with ``init="tied"``, but for the weights o in the place of the mean of the stacks.
    """
    skip = x.T.unsqueeze(2) * v  # (N, R, K)
    state = skip
    for _ in range(steps):
        state = torch.relu((op @ (state * w if state is not skip else state).flatten(1)).view_as(skip) + skip)
    return (state * out).sum(2).T
