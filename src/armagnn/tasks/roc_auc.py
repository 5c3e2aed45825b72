"""ROC-AUC as tensor work: of many trials at once, and between the steps of a training on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def roc_auc(logits: Tensor, y: Tensor, counts: Tensor | None = None) -> Tensor:
    """The share of pairs of a node of class 1 and one of class 0 that logits (n, 2) rank right; a tie counts one half.

    It is 0.5 where a class has no node. Nodes whose `counts` (n), 0 or 1, are 0 do not count. All of it is tensor work,
    which waits for no device.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[0.0, 0.1], [0.0, 0.4], [0.0, 0.35], [0.0, 0.8]])
        >>> round(roc_auc(logits, torch.tensor([0, 0, 1, 1])).item(), 3)
        0.75
    """
    score = (logits[..., 1] - logits[..., 0]).detach()
    counted = torch.ones_like(score, dtype=torch.float64) if counts is None else counts.double()
    above, below = counted * (y == 1), counted * (y == 0)
    ranked, order = score.sort()
    lower = F.pad(below.gather(0, order).cumsum(0), (1, 0))  # those of class 0 among the first 0, 1, ... nodes
    places = [torch.searchsorted(ranked, score, right=right) for right in (False, True)]
    right = above @ (lower.gather(0, places[0]) + lower.gather(0, places[1])) / 2
    pairs = above.sum() * below.sum()
    return torch.where(pairs > 0, right / pairs.clamp(min=1), 0.5)
