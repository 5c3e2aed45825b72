r"""Label propagation: what the edges alone say of nodes whose label is unknown, without features and without learning.

.. math::
    F = (1 - \alpha) \sum_t \alpha^t S^t Y, \qquad S = D^{-1/2} A D^{-1/2}

(Zhou et al., 2004), the response of the ARMA_1 filter (1 - α) / (1 - α μ) to the known labels Y. A class is the largest
entry of a row of F; a number is F divided by the same sum of ones at the nodes that have one.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import ShapeError
from armagnn.operators import GraphOperator

ALPHAS: Final = (0.5, 0.9, 0.99)
"""The values of alpha that are tried; validation chooses."""

STEPS: Final = 60
"""Terms of the sum."""


@checked
def propagate(op: GraphOperator, known: Tensor, alpha: float, steps: int = STEPS) -> Tensor:
    """Return the sum of the formula for Y = `known`, (N, C), zero where nothing is known.

    Example:
        >>> op = GraphOperator.from_edge_index(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
        >>> propagate(op, torch.tensor([[1.0], [0.0], [0.0]]), 0.5).squeeze()
        tensor([0.5833, 0.2357, 0.0833])
    """
    checks.real("alpha", alpha, least=0, below=1)
    if known.dim() != 2 or len(known) != op.num_nodes:
        raise ShapeError(f"known must be ({op.num_nodes}, C), got {tuple(known.shape)}.")
    found = known
    for _ in range(steps):
        found = alpha * (op @ found) + known
    return (1 - alpha) * found


@checked
def spread_labels(op: GraphOperator, y: Tensor, train: Tensor, classes: int, alpha: float) -> Tensor:
    """Return scores (N, C) of classes or labels, or numbers (N, 1), from the targets `y` of the nodes `train` alone.

    A row of scores sums up to 1 for classes; labels have a share of their own each. A node that no training node
    reaches has what all training nodes have in the mean.
    """
    dtype = op.dtype
    known = torch.zeros(len(y), max(classes, 1), dtype=dtype)
    if y.dim() == 2:
        known[train] = y[train].to(dtype)
    elif classes:
        known[train, y[train]] = 1
    else:
        known[train, 0] = y[train].to(dtype)
    there = torch.zeros(len(y), 1, dtype=dtype)
    there[train] = 1
    prior = known[train].mean(0, keepdim=True)
    spread = propagate(op, torch.cat([known, there], dim=1), alpha)
    mass = spread[:, -1:]
    return torch.where(mass > torch.finfo(dtype).tiny, spread[:, :-1] / mass, prior)
