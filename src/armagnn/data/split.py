"""Random splits of the nodes: so many of each class to learn from, so many to choose on and to report on."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from armagnn.checks import integer, tensor
from armagnn.errors import ParameterError
from armagnn.kernels.random import bits

SPLIT: Final = 100
"""Purpose of the draws here; see :mod:`armagnn.kernels.random`."""


def shuffled(seed: int, purpose: int, count: int, *, step: int = 0) -> Tensor:
    """Return 0 .. count-1 in an order that depends on (seed, purpose, step) only, int64.

    Number i is given the word ``bits(seed, purpose, step, i)``; numbers are sorted by their words, equal words by i.

    Example:
        >>> shuffled(3, SPLIT, 5).tolist()
        [1, 0, 4, 2, 3]
    """
    seed = check_seed(seed)
    return bits(torch.tensor([seed]), purpose, step, torch.arange(count)).argsort(stable=True)


def check_seed(seed: int) -> int:
    """Refuse what the generator cannot take as a seed."""
    return integer("seed", seed, 0, 2**63 - 1)


def random_split(
    y: Tensor, seed: int, *, per_class: int = 20, val: int = 500, test: int = 1000
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw (train_idx, val_idx, test_idx) from the nodes that have a label (y >= 0); each ascending.

    All nodes are shuffled. The first `per_class` of each class are for training; of the other labelled ones the
    first `val` are for validation and the next `test` for the test.

    Example:
        >>> y = torch.tensor([0, 1, 0, 1, 0, 1, -1])
        >>> [ids.tolist() for ids in random_split(y, 0, per_class=1, val=1, test=2)]
        [[4, 5], [1], [2, 3]]
    """
    tensor("y", y, 1)
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or not y.numel():
        raise ParameterError(f"y must be labels, one integer for each node, got {y.dtype} of shape {tuple(y.shape)}.")
    per_class, val, test = (integer(*each, 1) for each in (("per_class", per_class), ("val", val), ("test", test)))
    device, y = y.device, y.long().cpu()
    if int(y.max()) >= len(y):
        raise ParameterError(f"y holds {int(y.max())}; labels of {len(y)} nodes are 0 .. C-1, or -1 for none.")
    order = shuffled(seed, SPLIT, len(y))
    order = order[y[order] >= 0]
    label = y[order]
    taken = torch.zeros(len(order), dtype=torch.bool)
    for c in range(int(y.max()) + 1):
        members = (label == c).nonzero().squeeze(1)
        if len(members) < per_class:
            raise ParameterError(f"per_class is {per_class}, but class {c} has {len(members)} nodes.")
        taken[members[:per_class]] = True
    rest = order[~taken]
    if len(rest) < val + test:
        raise ParameterError(f"val + test is {val + test}, but {len(rest)} labelled nodes remain after training's.")
    parts = order[taken], rest[:val], rest[val : val + test]
    train_idx, val_idx, test_idx = (part.sort().values.to(device) for part in parts)
    return train_idx, val_idx, test_idx
