"""Losses and metrics of node classification, as tensors: nothing here waits for a GPU, and all of it can be batched."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from armagnn.torch_private import transforms_active


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """-mean over nodes of log softmax(logits_i)[y_i]; with many labels per node, the mean of all binary entropies.

    Labels are classes, 0, 1, ...: none is to be ignored.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(3, 2), torch.tensor([0, 1, 1])).item()  # log 2
        0.6931471824645996
        >>> cross_entropy(torch.zeros(1, 2), torch.tensor([[0.0, 1.0]])).item()
        0.6931471824645996
    """
    if y.dim() == 2:
        return F.binary_cross_entropy_with_logits(logits, y.to(logits.dtype))
    if transforms_active() and logits.shape[:-1] == y.shape:
        # there torch takes its loss apart in Python, which is slower
        return -logits.log_softmax(-1).gather(-1, y.unsqueeze(-1)).mean()
    return F.cross_entropy(logits, y)


def accuracy(logits: Tensor, y: Tensor) -> Tensor:
    """The share of nodes whose largest logit is that of their class; with many labels, the share of right entries.

    Example:
        >>> import torch
        >>> accuracy(torch.eye(4), torch.tensor([0, 1, 0, 0])).item()
        0.5
    """
    right = (logits > 0) == (y > 0) if y.dim() == 2 else logits.argmax(-1) == y
    return right.double().mean()


def micro_f1(logits: Tensor, y: Tensor) -> Tensor:
    """2 TP / (2 TP + FP + FN) over all entries of all nodes; 0 where nothing is there to be found.

    Example:
        >>> import torch
        >>> round(micro_f1(torch.tensor([[1.0, 1.0, -1.0]]), torch.tensor([[1.0, 0.0, 1.0]])).item(), 3)
        0.5
    """
    found, there = logits > 0, y > 0
    hits = (found & there).double().sum()
    return 2 * hits / torch.clamp(found.double().sum() + there.double().sum(), min=1)
